"""What readers give: a document and where it stands, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Document = str | tuple[str, str]  # a text, or a title and a body


class Names(NamedTuple):
    """The keys (of a table the columns) that were asked for; None: the usual ones."""

    title: str | None = None
    text: str | None = None
    id: str | None = None


@dataclass(frozen=True)
class Entry:
    """A piece of a file of references: an entry, or what stands between two of them.

    The pieces of a file are the file, byte for byte; so they are if keywords are filled in, but for the keywords.

    raw             its bytes
    is_entry        whether it is one
    id              None if it has none
    keywords        whether it has any
    slots           the parts of ``raw`` that new keywords replace: they stand at the first, the others vanish
    before, after   what is written around them
    between         what is written between two of them
    spell           how a phrase is written in this format
    fault           why it cannot be read, and in which of its lines (from 0 on)
    """

    raw: bytes
    is_entry: bool = False
    id: str | None = None
    title: str = ""
    abstract: str = ""
    keywords: bool = False
    slots: tuple[tuple[int, int], ...] = ()
    before: bytes = b""
    between: bytes = b""
    after: bytes = b""
    spell: Callable[[str], str] = str
    fault: str = ""
    fault_line: int = 0

    def filled(self, phrases: list[str]) -> bytes:
        """Its bytes with these keywords; as they are if there are none."""
        spelt = [word.encode() for word in map(self.spell, phrases) if word]
        if not spelt or not self.slots:
            return self.raw
        parts = []
        done = 0
        written = self.before + self.between.join(spelt) + self.after
        for start, end in self.slots:
            parts += [self.raw[done:start], written]
            done, written = end, b""
        return b"".join([*parts, self.raw[done:]])


@dataclass(frozen=True)
class Item:
    """What a reader found: a document, a fault, or a piece of a file that is only passed on.

    place      where it stands, for people: ``papers.jsonl, line 3``
    document   None if there is none
    id         its own; None if it has none
    fault      what is wrong with it; nothing, if it is sound
    record     all keys and values of a record or a row
    entry      of a file of references
    """

    place: str
    document: Document | None = None
    id: Any = None
    fault: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    entry: Entry | None = None

    @property
    def is_record(self) -> bool:
        """Whether it is one of the things that are counted and answered, not what stands between two of them."""
        return self.entry is None or self.entry.is_entry
