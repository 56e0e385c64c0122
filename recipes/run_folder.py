#!/usr/bin/env python3
"""What a recipe asks about the folder of a training run, which holds model_step_*.pt and train.log.

last      the newest checkpoint, to resume from; nothing if there is none
best      the checkpoint of least validation perplexity among those that are there
left      what is left of training for onmt_train's -train_minutes (0: no limit), or "nothing"
stopped   the signal by which training was asked to end before its end; nothing if it was not
describe  write run.json: what was trained how, and what was tested
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from onmt_exhird.report.curves import read_curve

_LINE = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) [A-Z]+\] (.*)")
STAGES = ".stages"  # a file for each stage that a recipe has completed: its command, then its inputs
COMMAND = "command: "


@dataclass
class Log:
    """What a log says of training, which may have been interrupted and resumed."""

    perplexities: dict[int, float] = field(default_factory=dict)  # at each validated step
    minutes: float = 0.0  # that went into the checkpoints
    time_was_up: bool = False
    stopped_by: str = ""  # a signal; onmt_train then ends as if all were well


def read_log(path: Path) -> Log:
    log = Log(read_curve(path))
    before = 0.0  # minutes of the sessions before
    begun: datetime | None = None
    if not path.exists():
        return log
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if not (stamped := _LINE.match(line)):
            continue
        time, message = datetime.strptime(stamped[1], "%Y-%m-%d %H:%M:%S,%f"), stamped[2]
        if message.startswith("Start training loop"):
            begun, before, log.time_was_up, log.stopped_by = time, log.minutes, False, ""
        elif message.startswith("Saving checkpoint") and begun:
            log.minutes = before + (time - begun).total_seconds() / 60
        elif "of -train_minutes are over" in message:
            log.time_was_up = True
        elif stopped := re.match(r"Stopped by (\w+) at step", message):
            log.stopped_by = stopped[1]
    return log


def checkpoints(folder: Path) -> dict[int, Path]:
    """The whole checkpoints by their steps, in order; one whose writing was interrupted is none."""
    found = {int(path.stem.rpartition("_")[2]): path for path in folder.glob("model_step_*.pt")}
    return {step: found[step] for step in sorted(found) if zipfile.is_zipfile(found[step])}


def best_step(saved: list[int], perplexities: dict[int, float]) -> int:
    """The step with the least validation perplexity, the earlier of equals; where none was validated, the last.

    >>> best_step([100, 200, 300], {100: 5.0, 200: 4.0, 250: 3.0, 300: 4.0})
    200
    >>> best_step([100, 200], {})
    200
    """
    validated = [step for step in saved if step in perplexities]
    return min(validated, key=lambda step: (perplexities[step], step)) if validated else saved[-1]


def minutes_left(log: Log, ended: bool, saved: bool, limit: float) -> float | None:
    """How many minutes training may go on, 0 for no limit; None if it is over.

    A training that ended by itself is over; one that ended because its time was up goes on if it has more time now.

    >>> minutes_left(Log(minutes=20, time_was_up=True), ended=True, saved=True, limit=30)
    10
    """
    if ended and not log.time_was_up:
        return None
    if not limit:
        return 0
    left = limit - (log.minutes if saved else 0)
    return left if left > 0 else None


def count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def describe(folder: Path, model: str, seed: int, data: Path) -> dict[str, Any]:
    saved, log = checkpoints(folder), read_log(folder / "train.log")
    step = best_step(list(saved), log.perplexities)
    documents = {path.stem: count_lines(path) for path in sorted(data.glob("*.src"))}
    done = [path for where in (data.parent, folder) for path in (where / STAGES).iterdir() if path.suffix != ".begun"]
    stages = sorted(done, key=lambda path: (path.stat().st_mtime, path.name))
    tested = [re.fullmatch(r"(.+)\.K(\d+|all)\.json", path.name) for path in sorted(folder.iterdir())]
    return {
        "model": model,
        "seed": seed,
        "steps": step,
        "steps_trained": max(saved),
        "training_documents": documents.get("train"),
        "minutes": round(log.minutes, 2),
        "checkpoint": saved[step].name,
        "validation_perplexity": log.perplexities.get(step),
        "documents": documents,
        "tests": [{"dataset": test[1], "window": test[2]} for test in tested if test],
        "commands": {path.name: read_command(path) for path in stages},
    }


def read_command(stage: Path) -> str:
    first = stage.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix(COMMAND)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=("last", "best", "left", "stopped", "describe"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=0.0, help="left: of how many; 0: no limit")
    parser.add_argument("--model", help="describe: the name of the model")
    parser.add_argument("--seed", type=int, help="describe: the seed")
    parser.add_argument("--data", type=Path, help="describe: the folder of the prepared data")
    args = parser.parse_args(argv)
    saved, log = checkpoints(args.folder), read_log(args.folder / "train.log")
    if args.question in ("best", "describe") and not saved:
        print(f"run_folder.py: there is no whole checkpoint model_step_*.pt in {args.folder}", file=sys.stderr)
        return 2
    if args.question == "last":
        print(*list(saved.values())[-1:])
    elif args.question == "best":
        print(saved[best_step(list(saved), log.perplexities)])
    elif args.question == "stopped":
        print(log.stopped_by)
    elif args.question == "left":
        left = minutes_left(log, (args.folder / STAGES / "train").exists(), bool(saved), args.minutes)
        print("nothing" if left is None else f"{left:g}")
    else:
        text = json.dumps(describe(args.folder, args.model, args.seed, args.data), indent=2, ensure_ascii=False)
        (args.folder / "run.json").write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
