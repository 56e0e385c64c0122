"""What a request may ask for, and how many may wait."""

from __future__ import annotations

from dataclasses import asdict, dataclass

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Limits:
    """Bounds of the service; those of a single request are also in openapi.json.

    bytes       of a request's body; long texts are read in many parts, so this bounds the work, too
    effort      what `attention` costs beside the phrases alone, about
    documents   of a request
    batch       documents that may be under way in the model: with fewer, each costs more
    waiting     documents that may wait for the model; more are turned away (429)
    requests    that may wait or be under way, each in a thread; more are turned away, too

    window, max_phrases, beam_size   the most that a request may ask for
    """

    bytes: int = MEGABYTE
    effort: int = 10
    documents: int = 32
    batch: int = 128
    waiting: int = 512
    requests: int = 192
    window: int = 100
    max_phrases: int = 50
    beam_size: int = 16

    @property
    def threads(self) -> int:
        """Enough for every request that may wait or be under way, and four that never wait."""
        return self.requests + 4

    @property
    def unread_bytes(self) -> int:
        """A longer body is not read to its end: its sender may find the connection closed instead of an answer."""
        return 16 * self.bytes

    def characters(self, beam_size: int, attention: bool) -> int:
        """That the documents of a request may have altogether, with options that make each cost more."""
        return self.bytes // (beam_size * (self.effort if attention else 1))

    def to_dict(self) -> dict[str, int]:
        return asdict(self)
