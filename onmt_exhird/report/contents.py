"""What the results page says, section by section, whatever its format."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from onmt_exhird.evaluation.paper import DATASETS, SEEDS, TEST_DOCUMENTS, TRAINING_DOCUMENTS
from onmt_exhird.evaluation.tables import Cell, Table
from onmt_exhird.report.collect import MODELS, Collection
from onmt_exhird.report.drawing import Drawing
from onmt_exhird.report.plots import draw_bars, draw_curves
from onmt_exhird.report.tables import (
    ABLATION,
    WINDOW_STUDY,
    WITH_SEARCH,
    Study,
    dataset_name,
    main_table,
    model_name,
    runs_table,
    shown,
    study_table,
    told,
)
from onmt_exhird.report.training import draw_training

TITLE = "Keyphrase generation: our results beside the paper's"
_TOLERANCE = 0.01
"""A training set that differs from the paper's by less counts as the same: duplicates are removed in many ways."""


@dataclass
class Section:
    """A heading and what stands below it, in this order."""

    title: str
    notes: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    drawings: list[Drawing] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    """Signatures and commands, one a line."""


def build(collection: Collection, command: str) -> list[Section]:
    """All sections; the first one is the introduction, under the page's title. `command` made the page."""
    if not collection.datasets:
        return [Section(TITLE, ["No model has been tested yet."]), *_training(collection)]
    return [
        _introduction(collection),
        _main_section(collection, "Present keyphrases", "Table 2", "present"),
        _main_section(collection, "Absent keyphrases", "Table 3", "absent"),
        Section(
            "Duplicates",
            ["The share of a document's predictions that are duplicates, less is better; Table 4 of the paper."],
            tables=[main_table(collection, "DupRatio", ["dup_ratio"])],
            drawings=[draw_bars(collection, "DupRatio", "dup_ratio")],
        ),
        Section(
            "Numbers of keyphrases",
            [
                "Different present (#PK) and absent (#AK) keyphrases per document, the closer to the oracle, which has "
                "the gold phrases, the better; Table 5 of the paper."
            ],
            tables=[main_table(collection, "#PK and #AK", ["num_present", "num_absent"], oracle=True)],
        ),
        _windows(collection),
        _study_section(
            collection,
            ABLATION,
            "Ablation",
            "Without the hierarchical decoder (w/o HRD: catSeq with exclusive search) and without exclusive search "
            "(w/o ES: ExHiRD-h with window 0); Table 6 of the paper, there on SemEval.",
        ),
        _study_section(
            collection,
            WITH_SEARCH,
            "Baselines with exclusive search",
            "The other models without and with exclusive search (w/ ES); Table 8 of the paper, there on KP20k.",
        ),
        Section("Runs", tables=[runs_table(collection)]),
        *_training(collection),
        _incomplete(collection),
        _reproduction(collection, command),
    ]


def _introduction(collection: Collection) -> Section:
    section = Section(
        TITLE,
        [
            "The paper is Chen et al., Exclusive Hierarchical Decoding for Deep Keyphrase Generation, ACL 2020. A "
            "difference is our number minus the paper's.",
            "A subscript (after _ where there are none) is the standard deviation over the seeds in units of the last "
            "digit: 0.311 with the subscript 1 is 0.311 ± 0.001. Ours without one are of a single seed.",
        ],
    )
    section.items += cautions(collection)
    return section


def cautions(collection: Collection) -> list[str]:
    """In what our experiment differs from the paper's."""
    lines = []
    trained: dict[tuple[float, Cell], list[str]] = {}
    for run in collection.runs:
        documents = run.info.get("training_documents")
        if documents is not None and abs(documents / TRAINING_DOCUMENTS - 1) > _TOLERANCE:
            trained.setdefault((documents, told(run.info.get("corpus"))), []).append(model_name(run.model))
    for (number, corpus), models in trained.items():
        source = f" of {corpus}" if corpus else ""
        names = ", ".join(dict.fromkeys(models))
        lines.append(f"{names}: trained on {number:,} documents{source}; the paper on {TRAINING_DOCUMENTS:,} of KP20k.")
    for dataset, scored in collection.datasets.items():
        if TEST_DOCUMENTS.get(dataset, scored.documents) != scored.documents:
            numbers = f"{scored.documents:,} test documents; the paper {TEST_DOCUMENTS[dataset]:,}"
            lines.append(f"{dataset_name(dataset)}: {numbers}.")
        if dataset in DATASETS and "conv:exhird" not in scored.signature.split("|"):
            lines.append(f"{dataset_name(dataset)}: not scored under the paper's convention, exhird.")
    if (seeds := len({run.seed for run in collection.runs})) < SEEDS:
        lines.append(f"Our means are over {seeds} seed{'s' * (seeds > 1)}; the paper's over {SEEDS}.")
    return lines


def _main_section(collection: Collection, title: str, table: str, kind: str) -> Section:
    return Section(
        title,
        [f"ExHiRD-h with exclusive search, all others without; {table} of the paper."],
        tables=[main_table(collection, f"F1@M and F1@5 of {kind} keyphrases", [f"{kind}/F1@M", f"{kind}/F1@5"])],
        drawings=[draw_bars(collection, f"F1@M of {kind} keyphrases", f"{kind}/F1@M")],
    )


def _study_section(collection: Collection, study: Study, title: str, note: str) -> Section:
    wanted = [dataset for dataset in collection.datasets if study.wanted(collection, dataset)]
    section = Section(title, [note], tables=[study_table(collection, study, dataset) for dataset in wanted])
    if not wanted:
        section.notes.append("There are no score files for it yet.")
    return section


def _training(collection: Collection) -> list[Section]:
    """A section, if there is a log of a training."""
    curves = {run.folder.name: run.curve for run in collection.runs if run.curve}
    if not curves:
        return []
    finite = {name: {step: value for step, value in curve.items() if value < inf} for name, curve in curves.items()}
    drawn = {name: curve for name, curve in finite.items() if curve}
    return [
        Section(
            "Training",
            ["Perplexity at each validation, as far as the logs of training go; the dot is the lowest."],
            [f"{name}: no validation has found a finite perplexity." for name in curves if name not in drawn],
            drawings=[draw_training(drawn)] if drawn else [],
        )
    ]


def _windows(collection: Collection) -> Section:
    note = "ExHiRD-h with each window K of exclusive search, 0 for none; Table 7 of the paper, there on KP20k."
    section = _study_section(collection, WINDOW_STUDY, "Window of exclusive search", note)
    for dataset in collection.datasets:
        if WINDOW_STUDY.wanted(collection, dataset):
            section.drawings.append(draw_curves(collection, dataset))
    if "kp20k" in collection.datasets:
        section.notes.append(
            "For K = 1 on KP20k the paper's tables disagree: absent F1@M is 0.033 and #AK 0.86 in Table 7, but 0.032 "
            "and 0.81 in Tables 3, 5 and 8."
        )
    return section


def missing(collection: Collection) -> list[str]:
    """What a complete report would have and these runs do not."""
    lines = []
    if absent := [name for model, name in MODELS.items() if not collection.of(model)]:
        lines.append(f"No run of {', '.join(absent)}.")
    unscored = [dataset_name(dataset) for dataset in DATASETS if dataset not in collection.datasets]
    if unscored:
        lines.append(f"No score files of {', '.join(unscored)}.")
    seeds = sorted({run.seed for run in collection.runs})
    for model in collection.models:
        have = {run.seed for run in collection.of(model)}
        if lacking := [str(seed) for seed in seeds if seed not in have]:
            lines.append(f"{model_name(model)}: no run with seed {', '.join(lacking)}.")
        wanted = [setting.file for setting in shown(collection, model)]
        for run in collection.of(model):
            there = {setting.file for setting in run.files} | ({"run.json"} if run.info else set())
            if lacking := [name for name in [*wanted, "run.json"] if name not in there]:
                lines.append(f"{run.folder}: no {', '.join(lacking)}.")
    return lines


def not_shown(collection: Collection) -> list[str]:
    """Score files that are in none of the tables, and models that are not the paper's."""
    lines = [
        f"{model} is no model of the paper ({', '.join(MODELS)})." for model in collection.models if model not in MODELS
    ]
    for run in collection.runs:
        places = shown(collection, run.model)
        if names := [setting.file for setting in run.files if setting not in places]:
            lines.append(f"{run.folder}: {', '.join(names)} is in no table.")
    return lines


def _incomplete(collection: Collection) -> Section:
    lines = [*missing(collection), *not_shown(collection)]
    note = "Means are over the seeds that are there; - stands where there are none." if lines else "Nothing."
    return Section("What is missing", [note], lines)


def _reproduction(collection: Collection, command: str) -> Section:
    section = Section(
        "How to get these numbers again",
        [
            "The signature of each data set says how it was scored (of the other scores: the same with their own "
            "name in front). The commands are those of the runs, where their run.json has them, and of this page."
        ],
    )
    section.code = [f"{dataset}: {scored.signature}" for dataset, scored in collection.datasets.items()]
    commands = [line for run in collection.runs for line in run.info.get("commands", {}).values()]
    section.code += [*dict.fromkeys(commands), command]
    return section
