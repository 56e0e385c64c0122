"""What a drawn stream is worth: how far it moves the scores that a model is judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from onmt_exhird.evaluation.conventions import CONVENTIONS
from onmt_exhird.evaluation.matching import DocumentMatch, Match, Reference, match_document, prepare_reference
from onmt_exhird.evaluation.metrics import cut_quantities
from onmt_exhird.stream import Phrase, read_leniently
from onmt_exhird.text import stem_words

CONVENTION = CONVENTIONS["exhird"]
MEMORY = 0.98  # of the running means, from one batch to the next
CUTS = (("present", "M"), ("present", "5"), ("absent", "M"))


class Rates(NamedTuple):
    """Precision and recall."""

    precision: float
    recall: float

    def slopes(self) -> Rates:
        """How fast their F1 grows with each.

        >>> Rates(0.3, 0.3).slopes()
        Rates(precision=0.5, recall=0.5)
        """
        whole = (self.precision + self.recall) ** 2 or 1.0
        return Rates(2 * self.recall**2 / whole, 2 * self.precision**2 / whole)


class Wanted(NamedTuple):
    """What a document's streams are compared with.

    reference   the phrases of its authors
    likely      absent phrases that would suit it too, as stems, and how likely each is one of theirs
    """

    reference: Reference
    likely: Mapping[str, float]


def wanted(source: str, gold: str, likely: Mapping[str, float]) -> Wanted:
    return Wanted(prepare_reference(source.split(), read_leniently(gold), CONVENTION), likely)


class Judge:
    """Says what streams are worth.

    The F1 of a corpus is that of the means of precision and recall over documents. So what a document adds to it is,
    to first order, its own precision and recall times the slopes of F1 at the means. These are the means of greedy
    search, which a model is judged by: what is drawn at random finds less, and precision would count for too little.

    of_five            how much of the worth of present phrases is their F1@5; the rest is F1@M
    absent_weight      what absent phrases count for beside present ones
    duplicate_cost     what is taken from it for every phrase that was there before: no score knows of it
    neighbour_weight   how much an absent phrase counts for being likely; the rest for being the authors'

    absent_each        absent phrases that authors have on average: likely ones have no number of their own
    """

    def __init__(self, of_five: float, absent_weight: float, duplicate_cost: float, neighbour_weight: float) -> None:
        self._shares = (1 - of_five, of_five, absent_weight)
        self._duplicate_cost, self._neighbour_weight = duplicate_cost, neighbour_weight
        self.slopes: dict[str, Rates] = {}
        self.means: dict[str, float] = {}
        self.absent_each = 1.0

    def aim(self, documents: Sequence[Wanted], streams: Sequence[Sequence[Phrase]]) -> None:
        """Take the slopes at the means of some streams, one of each document."""
        matches = [_match(*pair) for pair in zip(documents, streams, strict=True)]
        self.absent_each = max(1.0, sum(match.kinds["absent"].gold for match in matches) / len(matches))
        for kind, letter in CUTS:
            rates = [_rates(match.kinds[kind], letter) for match in matches]
            self.slopes[kind + letter] = Rates(
                *(sum(values) / len(rates) for values in zip(*rates, strict=True))
            ).slopes()

    def worth(self, document: Wanted, phrases: Sequence[Phrase]) -> float:
        """Of a stream."""
        return self._worth(_match(document, phrases), document.likely)

    def note(self, documents: Sequence[Wanted], streams: Sequence[Sequence[Phrase]]) -> None:
        """Keep running means of what people want to see of some streams."""
        matches = [_match(*pair) for pair in zip(documents, streams, strict=True)]
        for kind in ("present", "absent"):
            rates = [_rates(match.kinds[kind], "M") for match in matches]
            for part in Rates._fields:
                self._note(f"{kind} {part}@M", [getattr(one, part) for one in rates])
            self._note(kind, [len(match.kinds[kind].texts) for match in matches])
        self._note("duplicates", [len(match.duplicates) for match in matches])
        pairs = zip(matches, documents, strict=True)
        self._note("worth", [self._worth(match, document.likely) for match, document in pairs])

    def _worth(self, match: DocumentMatch, likely: Mapping[str, float]) -> float:
        scores = (
            sum(
                slope * rate
                for slope, rate in zip(
                    self.slopes[kind + letter], self._rates(match, kind, letter, likely), strict=True
                )
            )
            for kind, letter in CUTS
        )
        whole = sum(share * score for share, score in zip(self._shares, scores, strict=True))
        return whole - self._duplicate_cost * len(match.duplicates)

    def _rates(self, match: DocumentMatch, kind: str, letter: str, likely: Mapping[str, float]) -> Rates:
        found, weight = match.kinds[kind], self._neighbour_weight
        if kind == "present" or not weight or not found.texts:
            return _rates(found, letter)
        credit = sum(
            (1 - weight) * right + weight * likely.get(" ".join(stem_words(text.split())), 0.0)
            for text, right in zip(found.texts, found.right, strict=True)
        )
        return Rates(credit / len(found.texts), credit / self.absent_each)

    def _note(self, name: str, values: Sequence[float]) -> None:
        mean = sum(values) / len(values)
        self.means[name] = MEMORY * self.means.get(name, mean) + (1 - MEMORY) * mean


def _match(document: Wanted, phrases: Sequence[Phrase]) -> DocumentMatch:
    return match_document(document.reference, phrases, CONVENTION)


def _rates(match: Match, letter: str) -> Rates:
    quantities = cut_quantities(match, letter, CONVENTION)
    return Rates(quantities["P"], quantities["R"])
