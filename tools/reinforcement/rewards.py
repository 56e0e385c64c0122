"""What a drawn stream is worth: how far it moves the scores that a model is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onmt_exhird.evaluation.conventions import CONVENTIONS
from onmt_exhird.evaluation.matching import DocumentMatch, Match, Reference, match_document, prepare_reference
from onmt_exhird.evaluation.metrics import cut_quantities
from onmt_exhird.stream import Phrase, read_leniently

CONVENTION = CONVENTIONS["exhird"]
MEMORY = 0.98  # of the running means, from one batch to the next
CUTS = (("present", "M"), ("present", "5"), ("absent", "M"))


class Worth(NamedTuple):
    """Of a stream: what its phrases that stand in the text are worth, and those that do not."""

    present: float
    absent: float


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


def reference(source: str, gold: str) -> Reference:
    """What a document's streams are compared with."""
    return prepare_reference(source.split(), read_leniently(gold), CONVENTION)


class Judge:
    """Says what streams are worth.

    The F1 of a corpus is that of the means of precision and recall over documents. So what a document adds to it is,
    to first order, its own precision and recall times the slopes of F1 at the means, which are those of the streams
    lately drawn.

    of_five          how much of the worth of present phrases is their F1@5; the rest is F1@M
    duplicate_cost   what is taken from it for every phrase that was there before: no score knows of it
    """

    def __init__(self, of_five: float, duplicate_cost: float) -> None:
        self._of_five, self._duplicate_cost = of_five, duplicate_cost
        self.means: dict[str, float] = {}

    def __call__(self, references: Sequence[Reference], streams: Sequence[Sequence[Phrase]]) -> list[Worth]:
        """Of some streams, each with the reference of its document."""
        matches = [
            match_document(reference, phrases, CONVENTION)
            for reference, phrases in zip(references, streams, strict=True)
        ]
        found = [{cut: _rates(match.kinds[cut[0]], cut[1]) for cut in CUTS} for match in matches]
        for kind, letter in CUTS:
            rates = [one[kind, letter] for one in found]
            for part in Rates._fields:
                self._note(f"{kind} {part}@{letter}", [getattr(one, part) for one in rates])
        self._note("duplicates", [len(match.duplicates) for match in matches])
        for kind in ("present", "absent"):
            self._note(kind, [len(match.kinds[kind].texts) for match in matches])
        return [self._worth(match, rates) for match, rates in zip(matches, found, strict=True)]

    def _worth(self, match: DocumentMatch, rates: dict[tuple[str, str], Rates]) -> Worth:
        at_m, at_five, absent = (
            sum(slope * rate for slope, rate in zip(self._slopes(*cut), rates[cut], strict=True)) for cut in CUTS
        )
        present = (1 - self._of_five) * at_m + self._of_five * at_five
        return Worth(present - self._duplicate_cost * len(match.duplicates), absent)

    def _slopes(self, kind: str, letter: str) -> Rates:
        return Rates(*(self.means[f"{kind} {part}@{letter}"] for part in Rates._fields)).slopes()

    def _note(self, name: str, values: Sequence[float]) -> None:
        mean = sum(values) / len(values)
        self.means[name] = MEMORY * self.means.get(name, mean) + (1 - MEMORY) * mean


def _rates(match: Match, letter: str) -> Rates:
    quantities = cut_quantities(match, letter, CONVENTION)
    return Rates(quantities["P"], quantities["R"])
