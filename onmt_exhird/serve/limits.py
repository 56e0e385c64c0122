"""What a request may ask for, and how many may wait."""

from __future__ import annotations

from dataclasses import asdict, dataclass

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Limits:
    """Bounds of the service; those of a single request are also in openapi.json.

    bytes       of a request's body
    documents   of a request
    batch       documents that the model takes at once
    waiting     documents that may wait for the model; more are turned away (429)
    """

    bytes: int = 4 * MEGABYTE
    documents: int = 32
    batch: int = 64
    waiting: int = 128
    window: int = 100
    max_phrases: int = 50
    beam_size: int = 16

    @property
    def threads(self) -> int:
        """Enough for every request that may wait or be under way (of one document each) and four that never wait."""
        return self.waiting + self.batch + 4

    @property
    def unread_bytes(self) -> int:
        """A longer body is not read to its end: its sender may find the connection closed instead of an answer."""
        return 4 * self.bytes

    def to_dict(self) -> dict[str, int]:
        return asdict(self)
