"""Faults injected into real trainings: `make test-faults`, minutes."""

from __future__ import annotations

import multiprocessing
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
from helpers.checkpoints import differences
from helpers.stock import run_stock, train_here

from onmt_exhird.bridge.checkpoints import load_harmless
from onmt_exhird.bridge.loading import fault_of

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


def forked(folder: Path, words: list[str]) -> Any:
    """A training as a child of this process, which has all modules loaded already: it begins within a moment."""
    process = multiprocessing.get_context("fork").Process(target=train_here, args=(folder, *words[1:]))
    process.start()
    return process


def train_under_fire(folder: Path, words: list[str], name: str, kills: int, launch: Any) -> dict[str, int]:
    """Start a training again and again, kill it at random moments, let the last one end: how often by which signal."""
    rng = random.Random(17)
    sent = {"SIGKILL": 0, "SIGTERM": 0}
    log = folder / f"{name}.log"
    while True:
        saved = checkpoints(folder, name)
        assert not any(fault_of(str(path)) for path in saved), "a broken file under a final name"
        log.unlink(missing_ok=True)
        process = launch(folder, [*words, "-log_file", log.name, *(["-train_from", saved[-1].name] if saved else [])])
        if sum(sent.values()) < kills:
            while not (log.exists() and "Start training loop" in log.read_text()):
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.7))
            how = rng.choice(sorted(sent))
            if running(process):
                os.kill(process.pid, signal.Signals[how])
                sent[how] += 1
        code = ended(process)
        said = log.read_text()
        assert code in (0, -signal.SIGKILL, -signal.SIGTERM), said  # the last before it can say that it heard
        if code == 0 and "Stopped by" not in said:
            return sent


def running(process: Any) -> bool:
    return process.poll() is None if isinstance(process, subprocess.Popen) else process.is_alive()


def ended(process: Any) -> int:
    if isinstance(process, subprocess.Popen):
        process.communicate(timeout=300)
        return process.returncode
    process.join(timeout=300)
    return process.exitcode


@pytest.mark.parametrize(
    ("model", "workers", "kills", "steps", "launch"), [("catseqd", 0, 20, 400, forked), ("exhird", 2, 4, 60, start)]
)
def test_a_training_killed_at_random_moments_ends_as_the_unbroken_one(
    workshop: Path, capsys: Any, model: str, workers: int, kills: int, steps: int, launch: Any
) -> None:
    names = f"unbroken{workers}", f"killed{workers}"
    whole, pieces = (command(f"{model}.yaml", name, steps, workers) for name in names)
    assert ended(launch(workshop, whole)) == 0
    begin = time.monotonic()
    sent = train_under_fire(workshop, pieces, names[1], kills, launch)
    ours, theirs = (load_harmless(workshop / f"{name}_step_{steps}.pt", "cpu") for name in names)
    assert differences(ours, theirs) == []
    with capsys.disabled():
        times = ", ".join(f"{count} {name}" for name, count in sent.items())
        took = f"{time.monotonic() - begin:.0f} s"
        print(
            f"\n{model}, num_workers {workers}, {steps} steps in {took}: {times}; equal to the unbroken one to the bit"
        )
    assert sum(sent.values()) == kills


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


def test_reading_processes_end_when_the_trainer_is_killed(workshop: Path) -> None:
    process = start(workshop, [*command("rnn.yaml", "orphan", 10**6, 2), "-save_checkpoint_steps", "0"])
    for line in process.stderr:
        if "Step 10/" in line:
            break
    process.kill()
    process.communicate(timeout=60)  # they hold the pipe as long as they live


def test_a_reading_process_that_is_killed_ends_training_with_a_sentence(workshop: Path) -> None:
    process = start(workshop, [*command("rnn.yaml", "reader", 10**6, 1), "-save_checkpoint_steps", "0"])
    for line in process.stderr:
        if "Step 10/" in line:
            break
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (reader,) = [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
    os.kill(reader, signal.SIGKILL)
    log = process.communicate(timeout=300)[1]
    assert process.returncode == 1
    assert "error: a process that reads the data has gone, perhaps for want of memory" in log
