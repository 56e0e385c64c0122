"""Several processes that train one model, on CPUs over gloo."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.files import write_lines
from helpers.stock import run_stock, train_here

from onmt_exhird.bridge.checkpoints import load_harmless
from onmt_exhird.bridge.distributed import watch
from onmt_exhird.bridge.signals import StopRequest
from onmt_exhird.errors import ExhirdError


def two_processes() -> list[str]:
    """The options for them, with a port that nobody else uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return f"-world_size 2 -gpu_ranks 0 1 -gpu_backend gloo -master_ip 127.0.0.1 -master_port {port}".split()


def weights(path: Path) -> dict[str, Any]:
    return load_harmless(path, "cpu")["model"]


OPTIONS = "-report_every 2 -valid_steps 4 -plateau_decay 0.5 -early_stopping 3".split()
COMMON = ["-config", "exhird.yaml", *OPTIONS]
LOSSES = r"Step (\d+)/\d+; .*?ppl: (\S+); xent: (\S+);(?: exclusive: (\S+);)?"


def numbers(found: tuple[str, ...]) -> list[float]:
    return [float(text) for text in found if text]


def learn_alone_and_together(workshop: Path, model: str) -> list[object]:
    """Train eight steps in one process and in two; returns the options of the two.

    A bucket is a batch, so that both train on the same documents; gradients are summed in another order. No two
    documents are the same, since OpenNMT-py takes only one of them into a batch.
    """
    pairs = zip(*((workshop / f"train.{side}").read_text().splitlines() for side in ("src", "tgt")), strict=True)
    different = dict(pairs)
    write_lines(workshop / "different.src", list(different.keys()))
    write_lines(workshop / "different.tgt", list(different.values()))
    config = (workshop / f"{model}.yaml").read_text().replace("train.src", "different.src")
    (workshop / "different.yaml").write_text(config.replace("train.tgt", "different.tgt"))
    options = ["-config", "different.yaml", *OPTIONS]
    one = [*options, "-save_model", "one", "-train_steps", 8, "-batch_size", 20, "-bucket_size", 20]
    two = [*options, "-save_model", "two", "-batch_size", 10, "-bucket_size", 10, "-save_checkpoint_steps", 5]
    alone = run_stock("onmt_train", *one, cwd=workshop)
    together = run_stock("onmt_train", *two, "-train_steps", 8, *two_processes(), cwd=workshop)
    losses = list(zip(re.findall(LOSSES, alone.stderr), re.findall(LOSSES, together.stderr), strict=True))
    assert len(losses) == 4
    for first, second in losses:
        assert bool(first[-1]) == (model == "exhird")  # the one with an exclusive loss
        assert numbers(first) == pytest.approx(numbers(second), abs=0.011)  # two digits are printed
    ours, theirs = weights(workshop / "one_step_8.pt"), weights(workshop / "two_step_8.pt")
    assert all(torch.allclose(value, theirs[name], atol=2e-5) for name, value in ours.items())
    return two


@pytest.mark.models
@pytest.mark.parametrize("model", ["rnn", "catseqcorr", "transformer"])  # catSeqD's queue is each process's own
def test_two_with_half_the_batch_learn_what_one_learns_whatever_the_model(workshop: Path, model: str) -> None:
    learn_alone_and_together(workshop, model)


def test_two_with_half_the_batch_learn_what_one_learns_and_resume_exactly(workshop: Path) -> None:
    two = learn_alone_and_together(workshop, "exhird")
    (workshop / "two_step_8.pt").rename(workshop / "unbroken.pt")
    done = run_stock(
        "onmt_train", *two, "-train_steps", 8, "-train_from", "two_step_5.pt", *two_processes(), cwd=workshop
    )
    assert "Going on after step 5 exactly" in done.stderr
    resumed, unbroken = weights(workshop / "two_step_8.pt"), weights(workshop / "unbroken.pt")
    assert all(torch.equal(value, unbroken[name]) for name, value in resumed.items())


def start(folder: Path, *arguments: object) -> Any:
    program = [str(Path(sys.executable).parent / "onmt_train"), *map(str, arguments), *two_processes()]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.Popen(program, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def children(pid: int) -> list[int]:
    """The processes of training that a process has started, in order; not the one that cleans up after them."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_one_that_is_killed_ends_all_and_a_signal_stops_all(workshop: Path, how: str) -> None:
    """SIGKILL to the second of them; SIGTERM to the command that has started both."""
    process = start(
        workshop, "-config", "catseqd.yaml", "-save_model", "duo", "-report_every", 1, "-train_steps", 10**6
    )
    for line in process.stderr:
        if "Step 3/" in line:
            break
    workers = children(process.pid)
    os.kill(workers[1] if how == "SIGKILL" else process.pid, signal.Signals[how])
    rest = process.communicate(timeout=120)[1]
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    if how == "SIGKILL":
        assert process.returncode == 1 and "error: process 1 was killed by SIGKILL: the others have been ended" in rest
    else:
        assert process.returncode == 0 and re.search(
            r"Stopped by SIGTERM at step \d+; to go on: -train_from duo_", rest
        )


def test_the_one_that_was_killed_is_named_even_if_another_complains_before_its_end() -> None:
    def complain() -> None:
        failures.put((0, "RuntimeError: connection closed by peer", ""))
        time.sleep(60)

    def die() -> None:
        time.sleep(0.7)
        os.kill(os.getpid(), signal.SIGKILL)

    context = multiprocessing.get_context("fork")
    failures = context.Queue()
    processes = [context.Process(target=target) for target in (complain, die)]
    for process in processes:
        process.start()
    with StopRequest() as stop, pytest.raises(ExhirdError, match="process 1 was killed by SIGKILL"):
        watch(processes, [0, 1], failures, stop)
    processes[0].kill()


def test_early_stopping_and_minutes_end_all(workshop: Path) -> None:
    """What the first one decides the others hear; else they would wait for it."""
    ended = run_stock(
        "onmt_train", *COMMON, "-save_model", "early", "-early_stopping", 1, "-learning_rate", 0.5, "-train_steps", 400,
        *two_processes(), cwd=workshop,
    )  # fmt: skip
    assert "Early Stop!" in ended.stderr
    timed = run_stock(
        "onmt_train", *COMMON, "-save_model", "time", "-train_minutes", 0.02, "-train_steps", 10**6,
        *two_processes(), cwd=workshop,
    )  # fmt: skip
    assert "-train_minutes are over" in timed.stderr


def test_without_a_gpu_the_backend_has_to_be_gloo(workshop: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    options = [option if option != "gloo" else "nccl" for option in two_processes()]
    done = run_stock("onmt_train", *COMMON, "-save_model", "x", *options, cwd=workshop, check=False)
    assert done.returncode == 1 and "add -gpu_backend gloo to train on CPUs" in done.stderr


def test_one_process_needs_no_team(workshop: Path) -> None:
    train_here(workshop, *COMMON, "-save_model", "alone", "-train_steps", 2)
    assert (workshop / "alone_step_2.pt").exists()
