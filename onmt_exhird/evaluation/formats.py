"""An evaluation as a string: text, Markdown, LaTeX, JSON, CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from onmt_exhird.evaluation.conventions import check_choice
from onmt_exhird.evaluation.layout import notes, paper_differences, tables
from onmt_exhird.evaluation.paper import TEST_DOCUMENTS, check_dataset, paper_tables
from onmt_exhird.evaluation.results import Evaluation, nest
from onmt_exhird.evaluation.tables import to_latex, to_markdown, to_text


def render(evaluation: Evaluation, form: str = "text", paper: str | None = None) -> str:
    """The evaluation in one of `FORMATS`, with the paper's numbers for a data set where asked."""
    check_choice("format", form, FORMATS)
    if paper is not None:
        check_dataset(paper)
    return FORMATS[form](evaluation, paper)


def _text(evaluation: Evaluation, paper: str | None) -> str:
    return "\n\n".join(["\n".join(notes(evaluation, paper)), *map(to_text, tables(evaluation, paper))])


def _markdown(evaluation: Evaluation, paper: str | None) -> str:
    head = "\n".join(f"- `{note}`" if "|" in note else f"- {note}" for note in notes(evaluation, paper))
    return "\n\n".join([head, *map(to_markdown, tables(evaluation, paper))])


def _latex(evaluation: Evaluation, paper: str | None) -> str:
    head = "\n".join(f"% {note}" for note in notes(evaluation, paper))
    return "\n\n".join([head, *map(to_latex, tables(evaluation, paper))])


def _json(evaluation: Evaluation, paper: str | None) -> str:
    record = evaluation.to_dict()
    if paper:
        record["paper"] = _paper_record(evaluation, paper)
    return json.dumps(record, indent=2, ensure_ascii=False)


def _paper_record(evaluation: Evaluation, dataset: str) -> dict[str, Any]:
    """The paper's numbers, and under each system's name its difference from them."""
    rows = []
    for table in paper_tables(dataset):
        for model, numbers in table.rows.items():
            differences = {system.name: paper_differences(system, model, numbers) for system in evaluation.systems}
            rows.append(
                {
                    "table": table.title,
                    "model": model,
                    "scores": nest({key: asdict(number) for key, number in numbers.items()}),
                    "differences": {name: nest(values) for name, values in differences.items()},
                }
            )
    return {"dataset": dataset, "documents": TEST_DOCUMENTS[dataset], "rows": rows}


def _csv(evaluation: Evaluation, paper: str | None) -> str:
    """One row per system, all digits; the paper's models follow as rows of their own."""
    rows: list[dict[str, Any]] = []
    for system in evaluation.systems:
        row: dict[str, Any] = {"system": system.name, "documents": evaluation.documents} | system.scores
        row |= {f"{key} std": value for key, value in system.deviations.items()}
        for key, interval in system.intervals.items():
            row |= {f"{key} low": interval.low, f"{key} high": interval.high}
        for key, one in system.comparisons.items():
            row |= {f"{key} p_bootstrap": one.p_bootstrap, f"{key} p_randomisation": one.p_randomisation}
        rows.append(row | {"signature": evaluation.signature, "resampling": evaluation.resampling})
    for table in paper_tables(paper) if paper else []:
        for model, numbers in table.rows.items():
            row = {"system": f"paper, {table.title}: {model}"}
            for key, number in numbers.items():
                row[key] = number.value
                if number.deviation is not None:
                    row[f"{key} std"] = number.deviation
            rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().rstrip("\n")


FORMATS: dict[str, Callable[[Evaluation, str | None], str]] = {
    "text": _text,
    "json": _json,
    "latex": _latex,
    "markdown": _markdown,
    "csv": _csv,
}
