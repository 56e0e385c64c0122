"""The paper's tables from our runs: under each of our numbers the paper's and the difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from onmt_exhird.evaluation.layout import difference_number, paper_number, score_head, score_number
from onmt_exhird.evaluation.paper import (
    ABLATION_TABLE,
    BASELINE_TABLE,
    MAIN_TABLES,
    ORACLE,
    ORACLE_KEYS,
    STUDY_KEYS,
    WINDOW_TABLE,
    PaperNumber,
    paper_rows,
)
from onmt_exhird.evaluation.results import SystemResult
from onmt_exhird.evaluation.tables import Cell, Table
from onmt_exhird.report.collect import (
    DATASET_NAMES,
    MODELS,
    Collection,
    Setting,
    main_window,
    search_window,
    window_order,
)

_STUDY_GROUPS = (("", 2), ("present", 3), ("absent", 3), ("", 1))

Numbers: TypeAlias = dict[str, PaperNumber]


class Part(NamedTuple):
    """A row of a study: what the paper calls it, and the model and window that it is."""

    name: str
    model: str
    window: str


@dataclass(frozen=True)
class Row:
    """Our scores and the paper's in each data set of a table, where there are any."""

    name: str
    ours: dict[str, SystemResult]
    paper: dict[str, Numbers]


@dataclass(frozen=True)
class Study:
    """One of the paper's Tables 6 to 8: which parts it has, for any data set."""

    table: str
    head: str
    parts: Callable[[Collection, str], list[Part]]
    has_oracle: bool = True
    elsewhere: tuple[str, ...] = ()
    """Windows that other studies show."""

    def wanted(self, collection: Collection, dataset: str) -> bool:
        """Whether the table says something: the paper has it, or we have scores that other tables do not show."""
        if self.table_rows(dataset):
            return True
        parts = self.parts(collection, dataset)
        extra = [part for part in parts if part.window not in (main_window(part.model, dataset), *self.elsewhere)]
        return any(collection.system(part.model, dataset, part.window) for part in extra)

    def table_rows(self, dataset: str) -> dict[str, Numbers]:
        return paper_rows(self.table, dataset)


def _ablation_parts(collection: Collection, dataset: str) -> list[Part]:
    window = search_window(dataset)
    return [
        Part("ExHiRD-h", "exhird-h", window),
        Part("w/o HRD", "catseq", window),
        Part("w/o ES", "exhird-h", "0"),
    ]


def _window_parts(collection: Collection, dataset: str) -> list[Part]:
    """Every window that we or the paper searched with."""
    papers = {name.rpartition(" ")[2] for name in paper_rows(WINDOW_TABLE, dataset) if name != ORACLE}
    windows = sorted(papers | set(collection.windows("exhird-h", dataset)), key=window_order)
    return [Part(f"ExHiRD-h, K {window}", "exhird-h", window) for window in windows]


def _baseline_parts(collection: Collection, dataset: str) -> list[Part]:
    """Every model but ExHiRD-h without and with exclusive search; those that the paper does not have if we have."""
    window = search_window(dataset)
    papers = {model for model, name in MODELS.items() if f"{name} w/ ES" in paper_rows(BASELINE_TABLE, dataset)}
    others = [
        model
        for model in rows_of(collection, dataset)
        if model != "exhird-h" and (model in papers or collection.system(model, dataset, window))
    ]
    plain = [Part(model_name(model), model, "0") for model in others]
    excluding = [Part(f"{model_name(model)} w/ ES", model, window) for model in others]
    return [*plain, *excluding, Part("ExHiRD-h", "exhird-h", window)]


ABLATION = Study(ABLATION_TABLE, "model", _ablation_parts, has_oracle=False)
WINDOW_STUDY = Study(WINDOW_TABLE, "window", _window_parts, elsewhere=("0",))
WITH_SEARCH = Study(BASELINE_TABLE, "model", _baseline_parts)
STUDIES = (ABLATION, WINDOW_STUDY, WITH_SEARCH)


def model_name(model: str) -> str:
    return MODELS.get(model, model)


def dataset_name(dataset: str) -> str:
    return DATASET_NAMES.get(dataset, dataset)


def rows_of(collection: Collection, dataset: str) -> list[str]:
    """The models to show: ours and, for a data set of the paper, the paper's."""
    models = [*MODELS] if paper_rows(MAIN_TABLES, dataset) else []
    return list(dict.fromkeys([*models, *collection.models]))


def main_rows(collection: Collection) -> list[Row]:
    """A row for each model, with all data sets."""
    datasets = list(collection.datasets)
    models = dict.fromkeys(model for dataset in datasets for model in rows_of(collection, dataset))
    rows = []
    for model in sorted(models, key=[*MODELS, *collection.models].index):
        found = {dataset: collection.system(model, dataset, main_window(model, dataset)) for dataset in datasets}
        paper = {dataset: paper_rows(MAIN_TABLES, dataset).get(model_name(model), {}) for dataset in datasets}
        rows.append(Row(model_name(model), {name: system for name, system in found.items() if system}, paper))
    return rows


def main_table(collection: Collection, title: str, keys: Sequence[str], oracle: bool = False) -> Table:
    """One of the paper's Tables 2 to 5: all models, all data sets."""
    rows = main_rows(collection)
    if oracle:
        datasets = list(collection.datasets)
        gold = {dataset: _oracle(collection, dataset) for dataset in datasets}
        paper = {dataset: paper_rows(MAIN_TABLES, dataset).get(ORACLE, {}) for dataset in datasets}
        rows.insert(0, Row(ORACLE, gold, paper))
    columns = [(dataset, key) for dataset in collection.datasets for key in keys]
    groups = [("", 2), *((dataset_name(dataset), len(keys)) for dataset in collection.datasets)]
    return _stack(Table(title, ("model", "", *(score_head(key) for _, key in columns)), groups), columns, rows)


def study_table(collection: Collection, study: Study, dataset: str) -> Table:
    """One of the paper's Tables 6 to 8, for one data set."""
    rows = study_rows(collection, study, dataset)
    if study.has_oracle:
        numbers = study.table_rows(dataset).get(ORACLE, {})
        rows.insert(0, Row(ORACLE, {dataset: _oracle(collection, dataset)}, {dataset: numbers}))
    columns = [(dataset, key) for key in STUDY_KEYS]
    heads = (study.head, "", *map(score_head, STUDY_KEYS))
    return _stack(Table(dataset_name(dataset), heads, _STUDY_GROUPS), columns, rows)


def study_rows(collection: Collection, study: Study, dataset: str) -> list[Row]:
    paper = study.table_rows(dataset)
    rows = []
    for part in study.parts(collection, dataset):
        system = collection.system(part.model, dataset, part.window)
        name = part.name.removeprefix("ExHiRD-h, ")
        rows.append(Row(name, {dataset: system} if system else {}, {dataset: paper.get(part.name, {})}))
    return rows


def shown(collection: Collection, model: str) -> list[Setting]:
    """The settings of a model that the tables have a place for."""
    settings = [Setting(dataset, main_window(model, dataset)) for dataset in collection.datasets]
    for dataset in collection.datasets:
        for study in STUDIES:
            if study.wanted(collection, dataset):
                parts = study.parts(collection, dataset)
                settings += [Setting(dataset, part.window) for part in parts if part.model == model]
    places = list(collection.datasets)
    return sorted(set(settings), key=lambda one: (places.index(one.dataset), window_order(one.window)))


def runs_table(collection: Collection) -> Table:
    """What each ``run.json`` says, as far as it fits into a cell."""
    facts = (fact for run in collection.runs for fact in run.info.items())
    short = dict.fromkeys(key for key, value in facts if not isinstance(value, dict | list))
    keys = [key for key in short if key not in ("model", "seed")]
    table = Table(
        "What the runs say of themselves", ("model", "seed", *(key.replace("_", " ") for key in keys), "score files")
    )
    for run in collection.runs:
        values = [told(run.info.get(key)) for key in keys]
        table.add(model_name(run.model), str(run.seed), *values, str(len(run.files)))
    return table


def told(value: object) -> Cell:
    """Anything of a ``run.json`` on one line.

    >>> told(20000), told(3.14159), told(True), told("two\\nlines"), told(None)
    ('20,000', '3.14', 'true', 'two lines', None)
    """
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.2f}"
    return " ".join(str(value).split())


def _oracle(collection: Collection, dataset: str) -> SystemResult:
    gold = collection.datasets[dataset].scores
    return SystemResult(ORACLE, 1, {key: gold[of_gold] for key, of_gold in ORACLE_KEYS.items()}, {}, {})


def _stack(table: Table, columns: Sequence[tuple[str, str]], rows: Iterable[Row]) -> Table:
    """Each row as three: ours, the paper's and the difference, as far as there is a paper's and a difference."""
    for row in rows:
        table.add_rule()
        ours = [_score(row, *column) for column in columns]
        paper = [row.paper.get(dataset, {}).get(key) for dataset, key in columns]
        table.add(row.name, "ours", *(score_number(*score) if score else None for score in ours))
        if any(paper):
            pairs = zip(ours, paper, columns, strict=True)
            differences = [(one[0][key] - its.value if one and its else None, key) for one, its, (_, key) in pairs]
            table.add("", "paper", *map(paper_number, paper))
            if any(difference is not None for difference, _ in differences):
                table.add("", "difference", *(difference_number(*difference) for difference in differences))
    return table


def _score(row: Row, dataset: str, key: str) -> tuple[SystemResult, str] | None:
    system = row.ours.get(dataset)
    return (system, key) if system and key in system.scores else None
