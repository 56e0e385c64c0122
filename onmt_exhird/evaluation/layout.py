"""An evaluation as tables: the paper's scores first, then every cut-off, then intervals, tests and the paper's rows."""

from __future__ import annotations

from onmt_exhird.evaluation.matching import KINDS
from onmt_exhird.evaluation.metrics import CUTOFFS, HEADLINE
from onmt_exhird.evaluation.paper import ORACLE, ORACLE_KEYS, TEST_DOCUMENTS, PaperNumber, paper_tables
from onmt_exhird.evaluation.results import Evaluation, SystemResult
from onmt_exhird.evaluation.tables import Cell, Number, Table

_HEADLINE_GROUPS = (("", 1), ("present", 2), ("absent", 2), ("", 3))
_PAPERS_NAMES = {"num_present": "#PK", "num_absent": "#AK", "dup_ratio": "DupRatio"}


def score_head(key: str) -> str:
    """A score as the head of a column, below the kind of the phrases.

    >>> score_head("present/F1@M"), score_head("num_present")
    ('F1@M', '#PK')
    """
    return _PAPERS_NAMES.get(key) or key.rpartition("/")[2]


def _score_name(key: str) -> str:
    """A score where nothing else says of which kind of phrases it is."""
    return _PAPERS_NAMES.get(key) or key.replace("/", " ")


def notes(evaluation: Evaluation, paper: str | None = None) -> list[str]:
    """What has to be known to read the tables."""
    lines = [
        f"{evaluation.documents:,} documents",
        evaluation.signature,
        "(the other scores: the same signature with their own name in front;",
        " @M: all predictions, @O: as many as there are gold phrases)",
    ]
    if evaluation.resampling:
        lines.append(evaluation.resampling)
    if any(system.runs > 1 for system in evaluation.systems):
        lines.append("0.311_1 is a mean of 0.311 with a standard deviation of 0.001 over the runs")
    if paper and evaluation.documents != TEST_DOCUMENTS[paper]:
        lines.append(f"caution: the paper's test set of {paper} has {TEST_DOCUMENTS[paper]:,} documents")
    if paper and evaluation.convention.name != "exhird":
        lines.append("caution: the paper's numbers are under the convention exhird")
    return lines


def tables(evaluation: Evaluation, paper: str | None = None) -> list[Table]:
    """All tables of an evaluation, with the paper's rows for a data set where asked."""
    result = [_summary(evaluation)]
    result += [_cutoffs(evaluation, kind) for kind in KINDS]
    if evaluation.resampling:
        result.append(_significance(evaluation))
    if paper:
        result += [table for system in evaluation.systems for table in _beside_paper(system, paper)]
    return result


def _digits(key: str, deviating: bool) -> int:
    """As in the paper: counts with two digits, scores with three; scores of a single run with one more."""
    if key.startswith(("num_", "gold_")):
        return 2
    return 3 if deviating else 4


def score_number(system: SystemResult, key: str) -> Number:
    """A system's score as it is shown: with its deviation where there are several runs."""
    deviation = system.deviations.get(key)
    return Number(system[key], deviation, _digits(key, deviation is not None))


def gold_number(system: SystemResult, key: str) -> Cell:
    """What the gold phrases have, where a score is a number of phrases."""
    return Number(system[ORACLE_KEYS[key]], digits=2) if key in ORACLE_KEYS else None


def _summary(evaluation: Evaluation) -> Table:
    table = Table("Scores", ("system", *map(score_head, HEADLINE)), _HEADLINE_GROUPS)
    for system in evaluation.systems:
        table.add(system.name, *(score_number(system, key) for key in HEADLINE))
    table.add_rule()
    table.add("(gold)", *(gold_number(evaluation.systems[0], key) for key in HEADLINE))
    return table


def _cutoffs(evaluation: Evaluation, kind: str) -> Table:
    """P, R and F1 at every cut-off; beside F1 what the other way of averaging gives."""
    convention = evaluation.convention
    other = ("mean of F1", "mean_of_document_F1") if convention.f1_of_means else ("F1 of means", "F1_of_means")
    macro = [("P", "P"), ("R", "R"), ("F1", "F1"), other]
    if not convention.pads:
        macro += [("P hard", "P_hard"), ("F1 hard", "F1_hard")]
    micro = [("P", "micro_P"), ("R", "micro_R"), ("F1", "micro_F1")]
    title = "Present and absent together" if kind == "total" else f"{kind.capitalize()} phrases"
    if convention.docs == "with-gold":
        title += f" ({evaluation.systems[0].counts[kind]:,} documents with gold)"
    table = Table(
        title,
        ("cut-off", *(head for head, _ in macro + micro)),
        (("", 1), ("macro", len(macro)), ("micro", len(micro))),
    )
    several = len(evaluation.systems) > 1
    for cutoff in CUTOFFS:
        if several:
            table.add_rule()
        for system in evaluation.systems:
            cells = (score_number(system, f"{kind}/{name}@{cutoff}") for _, name in macro + micro)
            table.add(f"@{cutoff} {system.name}" if several else f"@{cutoff}", *cells)
    return table


def _significance(evaluation: Evaluation) -> Table:
    first = evaluation.systems[0]
    compared = len(evaluation.systems) > 1
    heads: tuple[str, ...] = ("score", "value", "from", "to")
    groups: tuple[tuple[str, int], ...] = (("", 2), ("95% interval", 2))
    if compared:
        heads += ("difference", "p bootstrap", "p randomis.")
        groups += ((f"against {first.name}", 3),)
    table = Table("Confidence", heads, groups)
    for key in HEADLINE:
        if compared:
            table.add_rule()
        digits = _digits(key, False)
        for system in evaluation.systems:
            interval = system.intervals[key]
            label = f"{_score_name(key)} {system.name}" if compared else _score_name(key)
            cells: list[Cell] = [Number(x, digits=digits) for x in (system[key], interval.low, interval.high)]
            if comparison := system.comparisons.get(key):
                cells.append(Number(comparison.difference, digits=digits, signed=True))
                cells += [Number(comparison.p_bootstrap, digits=3), Number(comparison.p_randomisation, digits=3)]
            elif compared:
                cells += [None, None, None]
            table.add(label, *cells)
    return table


def _beside_paper(system: SystemResult, dataset: str) -> list[Table]:
    """Our row, and below it each of the paper's with our difference from it."""
    result = []
    for paper_table in paper_tables(dataset):
        table = Table(
            f"{system.name} beside the paper on {dataset}, {paper_table.title}",
            ("model", *map(score_head, HEADLINE)),
            _HEADLINE_GROUPS,
        )
        table.add(system.name, *(score_number(system, key) for key in HEADLINE))
        table.add_rule()
        for model, numbers in paper_table.rows.items():
            table.add(f"paper: {model}", *(paper_number(numbers.get(key)) for key in HEADLINE))
            differences = paper_differences(system, model, numbers)
            label = "  our gold minus it" if model == ORACLE else "  ours minus it"
            table.add(label, *(difference_number(differences.get(key), key) for key in HEADLINE))
        result.append(table)
    return result


def paper_number(number: PaperNumber | None) -> Cell:
    """A number of the paper as it stands there."""
    return Number(number.value, number.deviation, number.digits) if number else None


def difference_number(value: float | None, key: str) -> Cell:
    """A difference from the paper, with as many digits as the paper has."""
    return None if value is None else Number(value, digits=_digits(key, True), signed=True)


def paper_differences(system: SystemResult, model: str, numbers: dict[str, PaperNumber]) -> dict[str, float]:
    """Our scores minus the paper's; the oracle is compared with our gold phrases."""
    ours = {key: system[ORACLE_KEYS[key] if model == ORACLE else key] for key in numbers}
    return {key: ours[key] - number.value for key, number in numbers.items()}
