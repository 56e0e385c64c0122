"""From hits to scores: quantities of each document that add up, and the scores as functions of their sums.

A score of the corpus needs nothing but sums over documents, so the same functions serve the corpus (the sums are
floats) and a thousand resamples of it (the sums are arrays with one value per resample).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from math import fsum
from typing import Any, TypeAlias

from onmt_exhird.evaluation.conventions import Convention
from onmt_exhird.evaluation.matching import KINDS, DocumentMatch, Match

CUTOFFS = ("5", "10", "M", "O")
"""The first 5, the first 10, all that the model made, as many as there are gold phrases."""

HEADLINE = ("present/F1@5", "present/F1@M", "absent/F1@5", "absent/F1@M", "dup_ratio", "num_present", "num_absent")
"""The scores of the paper's tables."""

Amount: TypeAlias = Any
"""A float, or an array with one value per resample."""

Columns: TypeAlias = dict[str, "array[float]"]
"""A quantity's name and its value in every document."""

_BLOCK = 1000  # documents whose quantities are held before they go into the sums


def _ratio(part: Amount, whole: Amount) -> Amount:
    """``part / whole``, and 0 where there is nothing to divide by.

    >>> _ratio(1.0, 4.0), _ratio(0.0, 0.0)
    (0.25, 0.0)
    """
    return part / (whole + (whole == 0))


def _harmonic(precision: Amount, recall: Amount) -> Amount:
    return _ratio(2 * precision * recall, precision + recall)


def dup_ratio(predictions: int, unique: int) -> float:
    """The paper's DupRatio of one document: ``[A, A, B, B, A, C]`` has three duplicates among six.

    >>> dup_ratio(6, 3)
    0.5
    """
    return _ratio(predictions - unique, predictions)


def cut_quantities(match: Match, cutoff: str, convention: Convention) -> dict[str, float]:
    """P, R and F1 of one document at one cut-off, and the counts that micro averages need.

    Where the convention does not fill the predictions up to the cut-off, ``_hard`` is what doing so would give.
    """
    by_letter = {"M": len(match.right), "O": match.gold}
    cut = by_letter[cutoff] if cutoff in by_letter else int(cutoff)
    hits = sum(match.right[:cut])
    tried = cut if convention.pads else min(cut, len(match.right))
    precision, recall = _ratio(hits, tried), _ratio(hits, match.gold)
    values: dict[str, float] = {
        "hits": hits,
        "tried": tried,
        "tried_with_gold": tried if match.gold else 0,
        "P": precision,
        "R": recall,
        "F1": _harmonic(precision, recall),
    }
    if not convention.pads:
        values["P_hard"] = _ratio(hits, cut)
        values["F1_hard"] = _harmonic(values["P_hard"], recall)
    return values


def _quantities(match: DocumentMatch, convention: Convention) -> dict[str, float]:
    """What one document adds to the sums, under the same names for every document."""
    values: dict[str, float] = {"documents": 1}
    for kind in KINDS:
        of_kind = match.kinds[kind]
        values[f"{kind}/gold"] = of_kind.gold
        values[f"{kind}/has_gold"] = of_kind.gold > 0
        values[f"{kind}/predictions"] = len(of_kind.right)
        for cutoff in CUTOFFS:
            for name, value in cut_quantities(of_kind, cutoff, convention).items():
                values[f"{kind}/{name}@{cutoff}"] = value
    values["dup_ratio"] = dup_ratio(match.valid, len(match.kinds["total"].right))
    values["has_predictions"] = match.valid > 0
    for kind, (tagged, different) in match.tagged.items():
        values[f"tagged_{kind}_dup_ratio"] = dup_ratio(tagged, different)
        values[f"tagged_{kind}_has"] = tagged > 0
    return values


class Tally:
    """The sums of documents' quantities and, where they are to be resampled, the quantities themselves."""

    def __init__(self, convention: Convention, keep: bool) -> None:
        self._convention = convention
        self._keep = keep
        self._names: list[str] = []
        self._flat = array("d")
        self._parts: dict[str, list[float]] = {}

    def add(self, match: DocumentMatch) -> None:
        values = _quantities(match, self._convention)
        self._names = self._names or list(values)
        self._flat.extend(values.values())
        if not self._keep and len(self._flat) >= _BLOCK * len(self._names):
            self._parts = {name: exact_parts(all_) for name, all_ in self._with_parts().items()}
            self._flat = array("d")

    def columns(self) -> Columns:
        """The kept quantities."""
        return {name: self._flat[column :: len(self._names)] for column, name in enumerate(self._names)}

    def sums(self) -> dict[str, float]:
        return add_up(self._with_parts())

    def _with_parts(self) -> Columns:
        columns = self.columns()
        for name, parts in self._parts.items():
            columns[name].extend(parts)
        return columns


def exact_parts(values: Iterable[float]) -> list[float]:
    """A few floats whose sum is exactly that of the values, without any rounding.

    >>> exact_parts([1e16, 1.0, 1.0, 1.0])
    [1.0000000000000004e+16, -1.0]
    """
    left = list(values)
    parts: list[float] = []
    while part := fsum(left):
        parts.append(part)
        left.append(-part)
    return parts


def add_up(columns: Columns) -> dict[str, float]:
    """Sums that do not depend on the order of the documents, not even in the last digit."""
    return {name: fsum(values) for name, values in columns.items()}


def scores(sums: Mapping[str, Amount], convention: Convention) -> dict[str, Amount]:
    """All scores, under keys such as ``present/F1@M``, ``dup_ratio`` and ``num_present``."""
    result: dict[str, Amount] = {}
    for kind in KINDS:
        for cutoff in CUTOFFS:
            for name, value in _cut_scores(sums, kind, cutoff, convention).items():
                result[f"{kind}/{name}@{cutoff}"] = value
    result["dup_ratio"] = _ratio(sums["dup_ratio"], sums["has_predictions"])
    for kind in ("present", "absent"):
        result[f"tagged_{kind}_dup_ratio"] = _ratio(sums[f"tagged_{kind}_dup_ratio"], sums[f"tagged_{kind}_has"])
    for kind in KINDS:
        result[f"num_{kind}"] = _ratio(sums[f"{kind}/predictions"], sums["documents"])
    for kind in KINDS:
        result[f"gold_{kind}"] = _ratio(sums[f"{kind}/gold"], sums["documents"])
    return result


def _averaged_documents(sums: Mapping[str, Amount], kind: str, convention: Convention) -> Amount:
    return sums[f"{kind}/has_gold" if convention.docs == "with-gold" else "documents"]


def _cut_scores(sums: Mapping[str, Amount], kind: str, cutoff: str, convention: Convention) -> dict[str, Amount]:
    documents = _averaged_documents(sums, kind, convention)
    tried = "tried_with_gold" if convention.docs == "with-gold" else "tried"

    def total(name: str) -> Amount:
        return sums[f"{kind}/{name}@{cutoff}"]

    precision, recall = _ratio(total("P"), documents), _ratio(total("R"), documents)
    of_means, mean = _harmonic(precision, recall), _ratio(total("F1"), documents)
    micro_precision, micro_recall = _ratio(total("hits"), total(tried)), _ratio(total("hits"), sums[f"{kind}/gold"])
    result = {
        "P": precision,
        "R": recall,
        "F1": of_means if convention.f1_of_means else mean,
        "F1_of_means": of_means,
        "mean_of_document_F1": mean,
        "micro_P": micro_precision,
        "micro_R": micro_recall,
        "micro_F1": _harmonic(micro_precision, micro_recall),
    }
    if not convention.pads:
        result["P_hard"] = _ratio(total("P_hard"), documents)
        result["F1_hard"] = _ratio(total("F1_hard"), documents)
    return result


def counts(sums: Mapping[str, float], convention: Convention) -> dict[str, int]:
    """The numbers of documents that the averages are over."""
    averaged = {kind: int(_averaged_documents(sums, kind, convention)) for kind in KINDS}
    return averaged | {
        "dup_ratio": int(sums["has_predictions"]),
        "tagged_present_dup_ratio": int(sums["tagged_present_has"]),
        "tagged_absent_dup_ratio": int(sums["tagged_absent_has"]),
    }
