"""Finished runs, read from ``RUN/<model>-<seed>/<dataset>.K<window>.json`` and the ``run.json`` beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isclose, isfinite
from pathlib import Path
from typing import Any

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation.metrics import HEADLINE
from onmt_exhird.evaluation.paper import DATASETS, ORACLE_KEYS, SEARCH_WINDOWS
from onmt_exhird.evaluation.results import SystemResult
from onmt_exhird.evaluation.significance import mean_and_deviation
from onmt_exhird.report.curves import Curve, read_curve

MODELS = {
    "transformer": "Transformer",
    "catseq": "catSeq",
    "catseqd": "catSeqD",
    "catseqcorr": "catSeqCorr",
    "exhird-s": "ExHiRD-s",
    "exhird-h": "ExHiRD-h",
}
"""The paper's models, in its order: as folders are named, and as the paper writes them."""
DATASET_NAMES = {"inspec": "Inspec", "krapivin": "Krapivin", "semeval": "SemEval", "kp20k": "KP20k"}
LAYOUT = "<model>-<seed>/<dataset>.K<window>.json, such as exhird-h-34/kp20k.K1.json"

LOG = "train.log"
_GOLD = tuple(ORACLE_KEYS.values())
_REMEDY = "make it with 'exhird evaluate --format json' and one --pred"


@dataclass(frozen=True)
class Setting:
    """What one score file is about; the window is a number of phrases, ``0`` for no exclusion, or ``all``."""

    dataset: str
    window: str

    @property
    def file(self) -> str:
        return f"{self.dataset}.K{self.window}.json"


@dataclass(frozen=True)
class Scored:
    """A score file."""

    path: Path
    signature: str
    documents: int
    scores: dict[str, float]


@dataclass
class Run:
    """One model: its folder, what ``run.json`` says of it (nothing: there is none), its score files, its training."""

    model: str
    seed: int
    folder: Path
    info: dict[str, Any]
    files: dict[Setting, Scored] = field(default_factory=dict)
    curve: Curve = field(default_factory=dict)


@dataclass
class Collection:
    """All runs, and for each data set one of its files, to which the others are equal in signature and gold phrases."""

    runs: list[Run]
    datasets: dict[str, Scored]

    @property
    def models(self) -> list[str]:
        """The paper's models first."""
        return sorted({run.model for run in self.runs}, key=_ordered(MODELS))

    def of(self, model: str) -> list[Run]:
        return [run for run in self.runs if run.model == model]

    def system(self, model: str, dataset: str, window: str) -> SystemResult | None:
        """A model's mean scores over its seeds, or nothing where no seed has any."""
        setting = Setting(dataset, window)
        runs = [run.files[setting].scores for run in self.of(model) if setting in run.files]
        return SystemResult(model, len(runs), *mean_and_deviation(runs), {}) if runs else None

    def windows(self, model: str, dataset: str) -> list[str]:
        """The windows that a model was searched with on a data set."""
        found = {setting.window for run in self.of(model) for setting in run.files if setting.dataset == dataset}
        return sorted(found, key=window_order)


def window_order(window: str) -> float:
    return inf if window == "all" else int(window)


def search_window(dataset: str) -> str:
    """The paper's window of exclusive search; 1, its usual one, for other data sets.

    >>> search_window("inspec"), search_window("my own")
    ('4', '1')
    """
    return str(SEARCH_WINDOWS.get(dataset, 1))


def main_window(model: str, dataset: str) -> str:
    """The window of a model's row in the main tables: only ExHiRD-h excludes there."""
    return search_window(dataset) if model == "exhird-h" else "0"


def collect(folders: Sequence[Path]) -> Collection:
    """Read all runs in the folders; different documents or ways of scoring of one data set are an error."""
    runs: dict[tuple[str, int], Run] = {}
    for folder in folders:
        for run in _read_folder(folder):
            if other := runs.get((run.model, run.seed)):
                raise ExhirdError(f"{other.folder} and {run.folder} are the same model and seed; leave one of them out")
            runs[run.model, run.seed] = run
    if not any(run.files or run.curve for run in runs.values()):
        places = ", ".join(map(str, folders))
        raise ExhirdError(f"{places} has neither score files, which are called {LAYOUT}, nor the log of a training")
    in_order = sorted(runs.values(), key=lambda run: (_ordered(MODELS)(run.model), run.seed))
    return Collection(in_order, _check_alike(in_order))


def _ordered(first: Iterable[str]) -> Callable[[str], tuple[int, str]]:
    """A key that sorts known names as they are listed, and others by name after them."""
    places = {name: place for place, name in enumerate(first)}
    return lambda name: (places.get(name, len(places)), name)


def _read_folder(folder: Path) -> list[Run]:
    try:
        children = sorted(child for child in folder.iterdir() if child.is_dir())
    except OSError as error:
        raise ExhirdError(f"{folder} cannot be read ({error.strerror}); give a folder with {LAYOUT}") from None
    runs = []
    for child in children:
        paths = sorted(child.glob("*.K*.json"))
        name = re.fullmatch(r"(.+)-(\d+)", child.name)
        if name is None and paths:
            raise ExhirdError(f"{child} has score files, but its name is no model and seed; rename it as in {LAYOUT}")
        # Folders of other things, such as data, are no runs; a model of the paper without scores is an unfinished one.
        if name is None or not (paths or name[1] in MODELS):
            continue
        run = Run(name[1], int(name[2]), child, _read_info(child / "run.json", name[1], int(name[2])))
        for path in paths:
            run.files[_read_name(path)] = _read_scores(path)
        run.curve = read_curve(child / LOG)
        runs.append(run)
    return runs


def _read_name(path: Path) -> Setting:
    name = re.fullmatch(r"(.+)\.K(0|[1-9]\d*|all)\.json", path.name)
    if name is None:
        raise ExhirdError(f"{path}: the window after '.K' is neither a number nor 'all'; rename it as in {LAYOUT}")
    return Setting(name[1], name[2])


def _read_json(path: Path, remedy: str) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExhirdError(f"{path} cannot be read ({error.strerror}); {remedy}") from None
    except ValueError as error:  # of JSON or of UTF-8
        raise ExhirdError(f"{path} is damaged ({error}); {remedy}") from None
    if not isinstance(record, dict):
        raise ExhirdError(f"{path} is no JSON object; {remedy}")
    return record


def _read_info(path: Path, model: str, seed: int) -> dict[str, Any]:
    if not path.exists():
        return {}
    info = _read_json(path, "make it again, or remove it")
    for key, expected in (("model", model), ("seed", seed)):
        if info.get(key, expected) != expected:
            raise ExhirdError(f"{path} is of {key} {info[key]}, its folder of {expected}; rename the folder")
    for key in ("steps", "training_documents", "minutes"):
        if info.get(key) is not None and not _is_number(info[key]):
            raise ExhirdError(f"{path}: {key} is {info[key]!r}, not a number; mend or remove it")
    commands = info.setdefault("commands", {})
    if not isinstance(commands, dict) or not all(isinstance(command, str) for command in commands.values()):
        raise ExhirdError(f"{path}: commands is no object of names and commands; mend or remove it")
    return info


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _read_scores(path: Path) -> Scored:
    record = _read_json(path, _REMEDY)
    systems = record.get("systems")
    if not isinstance(systems, list) or len(systems) != 1 or _find(systems[0], ["runs"]) not in (None, 1):
        raise ExhirdError(f"{path} is not of one system and one run; {_REMEDY}")
    scores = {key: _find(systems[0], key.split("/")) for key in (*HEADLINE, *_GOLD)}
    wrong = [key for key, value in scores.items() if not _is_number(value)]
    wrong += ["signature"] * (not isinstance(record.get("signature"), str))
    wrong += ["documents"] * (not isinstance(record.get("documents"), int))
    if wrong:
        raise ExhirdError(f"{path} lacks {', '.join(wrong)}; {_REMEDY}")
    return Scored(path, record["signature"], record["documents"], scores)


def _find(record: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        record = record.get(key) if isinstance(record, Mapping) else None
    return record


def _check_alike(runs: Iterable[Run]) -> dict[str, Scored]:
    """The first file of each data set, if the others are of the same documents, scored in the same way."""
    first: dict[str, Scored] = {}
    for run in runs:
        for setting, scored in run.files.items():
            other = first.setdefault(setting.dataset, scored)
            both = f"{other.path} and {scored.path}"
            if other.signature != scored.signature:
                differing = _unlike(other.signature, scored.signature)
                raise ExhirdError(f"{both} were scored in different ways ({differing}); score them alike")
            if other.documents != scored.documents:
                numbers = f"{other.documents:,} and {scored.documents:,}"
                raise ExhirdError(f"{both} are of {numbers} documents; score the same documents")
            if not all(isclose(other.scores[key], scored.scores[key], rel_tol=1e-9) for key in _GOLD):
                raise ExhirdError(f"{both} were scored with different gold phrases; score them with the same")
    return {dataset: first[dataset] for dataset in sorted(first, key=_ordered(DATASETS))}


def _unlike(one: str, other: str) -> str:
    """The parts in which two signatures differ.

    >>> _unlike("F1@M|gold:stem|v:1", "F1@M|gold:as-given|v:1")
    'gold:stem against gold:as-given'
    """
    ours, theirs = one.split("|"), other.split("|")
    sides = ([part for part in ours if part not in theirs], [part for part in theirs if part not in ours])
    return " against ".join(" ".join(side) for side in sides)
