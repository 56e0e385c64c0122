"""Phrases that many authors use, added to what the decoder has written where a document's words speak for them.

The decoder writes what a document says, and misses some of it; of the phrases that do not stand in a document, authors
choose a few of many that would fit. What others chose for documents with such words is a good guess of both, and costs
little (RESULTS.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor

from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.chances import Manner, log_odds
from onmt_exhird.generator.phrases import ByStems, Raw, Reader
from onmt_exhird.generator.rearranged import likely_cases
from onmt_exhird.nn.thesaurus import Thesaurus, title_length
from onmt_exhird.search.sources import Sources
from onmt_exhird.text import stem_words

TOGETHER = 64  # documents whose logits are in memory at once


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
        of_words = {"words": (vocab_size, size), "rarity": (vocab_size,)}
        if sizes != of_words | {"phrases": (count, size), "bias": (count,), "keyness": (count,)}:
            raise ExhirdError(
                f"the tensors of the thesaurus do not fit {count:,} phrases and {vocab_size:,} words: {sizes}"
            )
        return Thesaurus.of(self.tensors)

    def reordered(self, order: Tensor) -> KnownPhrases:
        """The same for a vocabulary in another order: the number that each of its tokens had before."""
        rows = {name: self.tensors[name][order] for name in ("words", "rarity")}
        return replace(self, tensors=self.tensors | rows)


class Suggestion(NamedTuple):
    """A phrase of the thesaurus, and how likely it is one of a document's authors if it stands there, and if not."""

    words: tuple[str, ...]
    if_present: float
    if_absent: float


class Suggesting:
    """Says which phrases of a thesaurus the words of documents speak for."""

    def __init__(self, known: KnownPhrases, vocab_size: int, separator: int | None) -> None:
        self.manner = known.manner
        self.thesaurus = known.build(vocab_size)
        self._phrases = [tuple(phrase.split()) for phrase in known.phrases]
        self._known = set(known.phrases)
        self._chances = [
            (chance.by_words, chance.of_keyness(self.thesaurus.keyness), log_odds(chance.least))
            for chance in (self.manner.present, self.manner.absent)
        ]
        self._separator = separator

    def __call__(self, sources: Sources, rows: Sequence[int]) -> Iterator[list[Suggestion] | None]:
        """For some of the documents, those that are likely enough; None for one of whose words none is known."""
        for first in range(0, len(rows), TOGETHER):
            bags = [self._bag(sources.ids[row, : sources.lengths[row]].cpu()) for row in rows[first : first + TOGETHER]]
            logits = self.thesaurus.logits(self.thesaurus.vectors(bags))
            log_probs = logits.sub_(logits.logsumexp(1, keepdim=True))
            enough = [slope * log_probs + fixed >= least for slope, fixed, least in self._chances]
            documents, numbers = (enough[0] | enough[1]).nonzero().unbind(1)
            values = log_probs[documents, numbers]
            odds = [slope * values + fixed[numbers] for slope, fixed, _ in self._chances]
            found: list[list[Suggestion]] = [[] for _ in bags]
            columns = (documents, numbers, *(one.sigmoid() for one in odds))
            for document, number, *chances in zip(*(column.tolist() for column in columns), strict=True):
                found[document].append(Suggestion(self._phrases[number], *chances))
            yield from (some if len(bag[0]) else None for some, bag in zip(found, bags, strict=True))

    def settle(self, reader: Reader, written: ByStems, suggested: Iterable[Suggestion]) -> ByStems:
        """The phrases of a document: what was written for it, then what is added, present ones first.

        Of an absent phrase that the thesaurus knows, it knows better than the decoder how likely it is. Another one is
        kept if the document has all its words: of those with a word that stands nowhere 1 in 303 was an author's, of
        those that say a word twice in succession where the document does not none of 40.
        """
        more: dict[bool, ByStems] = {True: {}, False: {}}
        likely = set()  # of what was written
        for words, if_present, if_absent in suggested:
            key = stem_words(words, reader.rules)
            if key in written:
                if if_absent >= self.manner.absent.least:
                    likely.add(key)
                continue
            chance, score = (
                (self.manner.present, if_present) if reader.occurrences(key) else (self.manner.absent, if_absent)
            )
            if score >= chance.least and (phrase := reader.keyphrase(Raw(words, 0, score))) is not None:
                more[phrase.present][key] = phrase
        if self.manner.rearranged is not None:
            for key, raw in likely_cases(self.manner.rearranged, self.manner.absent.least, reader, written):
                phrase = reader.keyphrase(raw)
                if phrase is not None and phrase.text not in self._known:
                    more[False].setdefault(key, phrase)
        kept = {
            key: phrase
            for key, phrase in written.items()
            if phrase.present or key in likely or (phrase.text not in self._known and reader.has_all(key))
        }
        room = max(0, self.manner.most_absent - sum(not phrase.present for phrase in kept.values()))
        present, absent = (sorted(some.items(), key=lambda pair: (-pair[1].score, pair[0])) for some in more.values())
        return kept | dict(present) | dict(absent[:room])

    def _bag(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        return self.thesaurus.bag(ids, title_length(ids, self._separator))
