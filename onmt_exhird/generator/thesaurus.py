"""Phrases that many authors use, added to what the decoder has written where a document's words speak for them.

The decoder writes what a document says; of the phrases that do not stand in it, authors choose a few of many that would
fit. What others chose for documents with such words is a better guess, and costs little (RESULTS.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor

from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.phrases import ByStems, Raw, Reader
from onmt_exhird.nn.thesaurus import Thesaurus, title_length
from onmt_exhird.search.sources import Sources
from onmt_exhird.text import stem_words

TOGETHER = 64  # documents whose logits are in memory at once
LOOKED_AT = 30  # phrases of a document, the likeliest


@dataclass(frozen=True)
class Manner:
    """When a phrase is added.

    each      phrases of the thesaurus that the authors of a document chose, on average
    present   how likely one must be that stands in the document
    absent    and one that does not
    most      of those that do not stand in it, with the decoder's own
    """

    each: float
    present: float
    absent: float
    most: int


@dataclass(frozen=True)
class KnownPhrases:
    """A thesaurus as plain data.

    phrases   as they are written
    tensors   by their names in `Thesaurus`; the rows of two are the tokens of the model's vocabulary
    """

    phrases: Sequence[str]
    tensors: dict[str, Tensor]
    manner: Manner

    def build(self, vocab_size: int) -> Thesaurus:
        sizes = {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}
        count, size = len(self.phrases), sizes.get("words", (0, 0))[-1]
        if sizes != {"words": (vocab_size, size), "rarity": (vocab_size,), "phrases": (count, size), "bias": (count,)}:
            raise ExhirdError(
                f"the tensors of the thesaurus do not fit {count:,} phrases, {vocab_size:,} words: {sizes}"
            )
        return Thesaurus.of(self.tensors)

    def reordered(self, order: Tensor) -> KnownPhrases:
        """The same for a vocabulary in another order: the number that each of its tokens had before."""
        rows = {name: self.tensors[name][order] for name in ("words", "rarity")}
        return replace(self, tensors=self.tensors | rows)


class Suggestion(NamedTuple):
    """A phrase of the thesaurus, and how likely it is one of a document's authors."""

    words: tuple[str, ...]
    score: float


class Suggesting:
    """Says which phrases of a thesaurus the words of documents speak for."""

    def __init__(self, known: KnownPhrases, vocab_size: int, separator: int | None) -> None:
        self.manner = known.manner
        self._thesaurus = known.build(vocab_size)
        self._phrases = [tuple(phrase.split()) for phrase in known.phrases]
        self._separator = separator
        self._least = min(known.manner.present, known.manner.absent)

    def __call__(self, sources: Sources, rows: Sequence[int]) -> Iterator[list[Suggestion]]:
        """For some of the documents, the likeliest first; none for one of whose words none is known."""
        for first in range(0, len(rows), TOGETHER):
            bags = [self._bag(sources.ids[row, : sources.lengths[row]].cpu()) for row in rows[first : first + TOGETHER]]
            chances = self._thesaurus.logits(self._thesaurus.vectors(bags)).softmax(1) * self.manner.each
            values, numbers = chances.topk(min(LOOKED_AT, len(self._phrases)), 1)
            for bag, likely, which in zip(bags, values.tolist(), numbers.tolist(), strict=True):
                found = zip(which, likely, strict=True) if len(bag[0]) else ()
                yield [Suggestion(self._phrases[number], min(one, 1.0)) for number, one in found if one >= self._least]

    def added(self, reader: Reader, written: ByStems, suggested: Iterable[Suggestion]) -> ByStems:
        """Of what is suggested for a document, what is likely enough beside what was written; present phrases first."""
        more: dict[bool, ByStems] = {True: {}, False: {}}  # by whether they stand in the document
        room = self.manner.most - sum(not phrase.present for phrase in written.values())
        for words, score in suggested:
            key = stem_words(words, reader.rules)
            if key in written or (phrase := reader.keyphrase(Raw(words, 0, score))) is None:
                continue
            if score >= (self.manner.present if phrase.present else self.manner.absent) and (
                phrase.present or len(more[False]) < room
            ):
                more[phrase.present][key] = phrase
        return more[True] | more[False]

    def _bag(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        return self._thesaurus.bag(ids, title_length(ids, self._separator))
