"""What an evaluation gives: scores, their spread, and the JSON of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation.conventions import Convention
from onmt_exhird.evaluation.matching import KINDS, DocumentMatch
from onmt_exhird.evaluation.metrics import CUTOFFS, cut_quantities, dup_ratio
from onmt_exhird.evaluation.significance import Comparison, Interval


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Keys with a slash as an object in an object.

    >>> nest({"present/F1@M": 0.5, "dup_ratio": 0.1})
    {'present': {'F1@M': 0.5}, 'dup_ratio': 0.1}
    """
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, name = key.split("/")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return nested


@dataclass
class SystemResult:
    """One system's scores, under keys such as ``present/F1@M``; with several runs, their means."""

    name: str
    runs: int
    scores: dict[str, float]
    deviations: dict[str, float]
    """Standard deviation over the runs; empty for a single one."""
    counts: dict[str, int]
    """How many documents each average is over, in the first run."""
    intervals: dict[str, Interval] = field(default_factory=dict)
    comparisons: dict[str, Comparison] = field(default_factory=dict)

    def __getitem__(self, key: str) -> float:
        return self.scores[key]

    def to_dict(self) -> dict[str, Any]:
        record = {"name": self.name, **nest(self.scores), "runs": self.runs, "averaged_documents": self.counts}
        if self.deviations:
            record["standard_deviation"] = nest(self.deviations)
        if self.intervals:
            record["confidence"] = nest({key: asdict(interval) for key, interval in self.intervals.items()})
        if self.comparisons:
            record["against_first"] = nest({key: asdict(one) for key, one in self.comparisons.items()})
        return record


@dataclass
class Evaluation:
    """The scores of one or several systems on the same documents."""

    signature: str
    documents: int
    convention: Convention
    systems: list[SystemResult]
    resampling: str = ""
    """The signature of the confidence intervals and tests, where there are any."""
    details: list[dict[str, Any]] = field(default_factory=list)
    """One record per system, run and document, where they were asked for."""

    def __getitem__(self, name: str) -> SystemResult:
        for system in self.systems:
            if system.name == name:
                return system
        raise ExhirdError(f"there is no system '{name}'; there is {', '.join(system.name for system in self.systems)}")

    def to_dict(self) -> dict[str, Any]:
        record: dict[str, Any] = {"signature": self.signature, "documents": self.documents}
        if self.resampling:
            record["resampling"] = self.resampling
        return record | {"systems": [system.to_dict() for system in self.systems]}


def document_record(name: str, number: int, match: DocumentMatch, convention: Convention) -> dict[str, Any]:
    """One document for error analysis: what was right, wrong, missed, said twice or dropped, and the scores."""
    record: dict[str, Any] = {
        "system": name,
        "line": number,
        "dup_ratio": dup_ratio(match.valid, len(match.kinds["total"].right)) if match.valid else None,
        "duplicates": match.duplicates,
        "dropped": match.dropped,
    }
    for kind in KINDS:
        of_kind = match.kinds[kind]
        values: dict[str, Any] = {"gold": of_kind.gold}
        if kind in match.missed:
            marked = list(zip(of_kind.texts, of_kind.right, strict=True))
            values["right"] = [text for text, right in marked if right]
            values["wrong"] = [text for text, right in marked if not right]
            values["missed"] = match.missed[kind]
        values["matched"] = "".join("01"[right] for right in of_kind.right)
        for cutoff in CUTOFFS:
            at = cut_quantities(of_kind, cutoff, convention)
            values |= {f"{name}@{cutoff}": at[name] for name in ("P", "R", "F1")}
        record[kind] = values
    return record
