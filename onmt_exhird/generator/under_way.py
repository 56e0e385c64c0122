"""Documents on their way through a search: in parts, and finished when the last of these is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from onmt_exhird.generator.articles import Part, Stream, parts
from onmt_exhird.generator.documents import Document
from onmt_exhird.generator.thesaurus import Suggestion


@dataclass
class Asked:
    """A document that keyphrases are wanted for.

    number    in the order of arrival
    parts     that are read of it
    streams   what was written for each of them, by its place among them
    suggested what a thesaurus has for it, the likeliest first, if it has been asked and knows any of its words
    """

    number: int
    document: Document
    parts: list[Part]
    streams: dict[int, Stream] = field(default_factory=dict)
    suggested: Sequence[Suggestion] | None = None


@dataclass
class AskedPart:
    """A part of a document, and the words in it that the vocabulary lacks, once they are known."""

    asked: Asked
    place: int
    unknown: Sequence[str] = ()

    @property
    def part(self) -> Part:
        return self.asked.parts[self.place]


class UnderWay:
    """Numbers documents and parts in the order of arrival.

    size   tokens of a part at most
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._documents, self._count = 0, 0
        self._parts: dict[int, AskedPart] = {}
        self._done: list[Asked] = []

    def add(self, documents: Sequence[Document]) -> list[AskedPart]:
        """The parts of documents that have come, which are numbered in this order."""
        added: list[AskedPart] = []
        for document in documents:
            asked = Asked(self._documents, document, parts(document, self._size))
            self._documents += 1
            added += [AskedPart(asked, place) for place in range(len(asked.parts))]
            if not asked.parts:  # a blank document
                self._done.append(asked)
        for part in added:
            self._parts[self._count] = part
            self._count += 1
        return added

    def take(self, number: int) -> AskedPart:
        """The part of this number, which leaves."""
        return self._parts.pop(number)

    def put(self, part: AskedPart, stream: Stream) -> None:
        """What was written for a part."""
        part.asked.streams[part.place] = stream
        if len(part.asked.streams) == len(part.asked.parts):
            self._done.append(part.asked)

    def finished(self) -> Iterator[tuple[Asked, list[Stream]]]:
        """The documents that were finished since, and what was written for their parts."""
        done, self._done = self._done, []
        for asked in done:
            yield asked, [asked.streams[place] for place in range(len(asked.parts))]
