"""Faults injected into real trainings: `make test-faults`, minutes."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import run_stock, write_lines
from test_bridge_resume import differences

from onmt_exhird.bridge.checkpoints import load_harmless
from onmt_exhird.bridge.saving import fault_of

pytestmark = pytest.mark.faults
OPTIONS = (
    "-save_checkpoint_steps 3 -keep_checkpoint 3 -valid_steps 25 -report_every 10 -dropout 0.2 -bucket_size 200 "
    "-plateau_decay 0.5 -early_stopping 50 -early_stopping_criteria ppl"
).split()


def checkpoints(folder: Path, name: str) -> list[Path]:
    return sorted(folder.glob(f"{name}_step_*.pt"), key=lambda path: int(path.stem.rpartition("_")[2]))


def command(config: str, name: str, steps: int, workers: int) -> list[str]:
    program = str(Path(sys.executable).parent / "onmt_train")
    options = ["-config", config, "-save_model", name, "-train_steps", str(steps), "-num_workers", str(workers)]
    return [program, *options, *OPTIONS]


def start(folder: Path, words: list[str]) -> Any:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.Popen(words, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def train_under_fire(folder: Path, words: list[str], name: str, kills: int, rng: random.Random) -> dict[str, int]:
    """Start a training again and again, kill it at random moments, let the last one end: how often by which signal."""
    sent: dict[str, int] = {"SIGKILL": 0, "SIGTERM": 0}
    while True:
        saved = checkpoints(folder, name)
        assert not any(fault_of(str(path)) for path in saved), "a broken file under a final name"
        going_on = ["-train_from", saved[-1].name] if saved else []
        process = start(folder, [*words, *going_on])
        log = ""
        if sum(sent.values()) < kills:
            for line in process.stderr:
                log += line
                if "Start training loop" in line:
                    break
            time.sleep(rng.uniform(0, 1.2))
            how = rng.choice(sorted(sent))
            process.send_signal(signal.Signals[how])
            sent[how] += process.poll() is None
        log += process.communicate(timeout=300)[1]
        assert process.returncode in (0, -signal.SIGKILL), log
        if process.returncode == 0 and "Stopped by" not in log:
            return sent


@pytest.mark.parametrize(("model", "workers", "kills", "steps"), [("catseqd", 0, 20, 400), ("exhird", 2, 4, 60)])
def test_a_training_killed_at_random_moments_ends_as_the_unbroken_one(
    workshop: Path, capsys: Any, model: str, workers: int, kills: int, steps: int
) -> None:
    unbroken = f"unbroken{workers}"
    killed = f"killed{workers}"
    done = subprocess.run(
        command(f"{model}.yaml", unbroken, steps, workers),
        cwd=workshop,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sent = train_under_fire(
        workshop, command(f"{model}.yaml", killed, steps, workers), killed, kills, random.Random(17)
    )
    ours, theirs = (load_harmless(workshop / f"{name}_step_{steps}.pt", "cpu") for name in (unbroken, killed))
    assert differences(ours, theirs) == []
    with capsys.disabled():
        print(f"\n{model}, num_workers {workers}: {sent}, {steps} steps, equal to the unbroken training to the bit")
    assert sum(sent.values()) >= kills - 1  # one may have ended just before its signal


def test_a_disk_that_is_full_during_a_save_loses_nothing(workshop: Path) -> None:
    """First a limit on the size of files that no checkpoint fits under, then none."""
    words = command("exhird.yaml", "full", 12, 0)
    run_stock("onmt_train", *words[1:], "-train_steps", 6, cwd=workshop)
    before = {path.name: path.read_bytes() for path in checkpoints(workshop, "full")}
    limited = ["bash", "-c", 'trap "" XFSZ; ulimit -f 100; exec "$@"', "bash", *words, "-train_from", "full_step_6.pt"]
    process = start(workshop, limited)
    log = process.communicate(timeout=300)[1]
    assert process.returncode == 1, log
    assert log.splitlines()[-1].startswith("error: the model of step 12 is not saved: make room"), log
    assert len(re.findall(r"could not be written .*the last good one is full_step_6.pt", log)) == 2  # steps 9 and 12
    assert {path.name: path.read_bytes() for path in checkpoints(workshop, "full")} == before
    assert not list(workshop.glob(".full*"))
    run_stock("onmt_train", *words[1:], "-train_from", "full_step_6.pt", cwd=workshop)
    run_stock("onmt_train", *words[1:], "-save_model", "roomy", cwd=workshop)
    ours, theirs = (load_harmless(workshop / f"{name}_step_12.pt", "cpu") for name in ("full", "roomy"))
    assert differences(ours, theirs) == []


def test_a_newest_checkpoint_that_was_cut_short_is_passed_over(workshop: Path) -> None:
    words = command("exhird.yaml", "cut", 9, 0)[1:]
    run_stock("onmt_train", *words, cwd=workshop)
    newest = workshop / "cut_step_9.pt"
    whole = newest.read_bytes()
    newest.write_bytes(whole[: len(whole) // 2])
    done = run_stock("onmt_train", *words, "-train_from", "cut_step_9.pt", cwd=workshop)
    assert "cut_step_9.pt is broken" in done.stderr and "going on from cut_step_6.pt" in done.stderr
    again = workshop / "again.pt"
    again.write_bytes(whole)
    assert differences(load_harmless(newest, "cpu"), load_harmless(again, "cpu")) == []


def test_a_document_of_100000_tokens_trains_within_bounds(workshop: Path, tmp_path: Path) -> None:
    """One among many: less than 4 GB, and minutes at most."""
    for name in ("vocab.txt", "exhird.yaml", "valid.src", "valid.tgt"):
        (tmp_path / name).write_bytes((workshop / name).read_bytes())
    write_lines(tmp_path / "train.src", ["deep tree " * 50_000, *["a note about deep tree"] * 30])
    write_lines(tmp_path / "train.tgt", ["<p_start> deep tree ;"] * 31)
    limited = ["bash", "-c", 'ulimit -v 12000000; exec "$@"', "bash", *command("exhird.yaml", "long", 3, 0)]
    process = start(tmp_path, [*limited, "-bucket_size", "31"])
    log = process.communicate(timeout=580)[1]
    assert process.returncode == 0, log
