"""Made-up runs for the tests of the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from onmt_exhird.evaluation.metrics import HEADLINE
from onmt_exhird.evaluation.results import nest
from onmt_exhird.evaluation.tables import Number, Table


def score_record(documents: int = 5, signature: str = "F1@M|conv:exhird", runs: int = 1, **scores: float | None) -> str:
    """What ``exhird evaluate --format json`` writes, as far as the report reads it."""
    known = dict.fromkeys(HEADLINE, 0.25) | {"gold_present": 3.0, "gold_absent": 2.0} | scores
    system = {"name": "x.pred", **nest(known), "runs": runs}
    return json.dumps({"signature": signature, "documents": documents, "systems": [system]})


class RunFolder:
    """A folder of runs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def score(self, model: str, seed: int, dataset: str, window: int | str, **record: Any) -> None:
        self.write(f"{model}-{seed}/{dataset}.K{window}.json", score_record(**record))

    def info(self, model: str, seed: int, **info: Any) -> None:
        self.write(f"{model}-{seed}/run.json", json.dumps({"model": model, "seed": seed, **info}))


def cells(table: Table) -> dict[tuple[str, str], list[str]]:
    """A stacked table's cells as text, under the row's name and whose numbers they are."""
    rows: dict[tuple[str, str], list[str]] = {}
    name = ""
    for first, whose, *rest in table.rows:
        name = str(first) or name
        rows[name, str(whose)] = [cell.text if isinstance(cell, Number) else str(cell or "-") for cell in rest]
    return rows
