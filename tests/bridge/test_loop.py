"""The training loop: its end by the clock, by signals, by steps that cannot be used; its log."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import onmt.trainer
import pytest
import torch
from helpers.files import write_lines
from helpers.stock import run_stock, train_here

from onmt_exhird.bridge.checkpoints import load_harmless
from onmt_exhird.bridge.signals import StopRequest
from onmt_exhird.errors import ExhirdError

LONG = "-train_steps 100000 -valid_steps 100000 -save_checkpoint_steps 100000".split()


def test_the_stock_command_ends_in_time_with_a_checkpoint(workshop: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two batches a step, so that the clock is seen to be looked at with accumulated gradients too."""
    with caplog.at_level("INFO"):
        train_here(
            workshop, "-config", "rnn.yaml", "-save_model", "timed", "-accum_count", 2, "-train_minutes", 0.02, *LONG
        )
    ended = re.search(r"-train_minutes are over: ending at step (\d+)\n", caplog.text)
    assert ended and (workshop / f"timed_step_{ended[1]}.pt").exists()
    assert f"Validation at step {ended[1]}: perplexity " in caplog.text[ended.end() :]


def test_a_training_ended_by_the_clock_goes_on_as_if_it_had_not_been(workshop: Path) -> None:
    """The validation at its end changes neither the learning rate nor patience nor random numbers."""
    arguments = "-config exhird.yaml -valid_steps 1000 -plateau_decay 0.5 -early_stopping 2 -dropout 0.1".split()
    train_here(workshop, *arguments, "-save_model", "clock", "-train_minutes", 0.005, *LONG[:2])
    (stopped,) = workshop.glob("clock_step_*.pt")
    step = int(stopped.stem.rpartition("_")[2]) + 5
    train_here(workshop, *arguments, "-save_model", "clock", "-train_steps", step, "-train_from", stopped)
    train_here(workshop, *arguments, "-save_model", "steps", "-train_steps", step)
    ours, theirs = (load_harmless(workshop / f"{name}_step_{step}.pt", "cpu") for name in ("clock", "steps"))
    assert all(torch.equal(value, theirs["model"][name]) for name, value in ours["model"].items())
    assert ours["optim"]["plateau"] == theirs["optim"]["plateau"]


def start_training(folder: Path, *arguments: object) -> Any:
    program = [str(Path(sys.executable).parent / "onmt_train"), "-config", "rnn.yaml", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        program, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    return process


def wait_for(process: Any, text: str) -> None:
    for line in process.stderr:
        if text in line:
            return
    pytest.fail(f"the training ended before it said {text}")


@pytest.mark.parametrize(("number", "workers"), [("SIGTERM", 0), ("SIGINT", 2)])
def test_a_signal_finishes_the_step_saves_and_ends_well(workshop: Path, number: str, workers: int) -> None:
    """To the whole group of processes, as a terminal or a service manager sends it."""
    name = f"stopped{workers}"
    process = start_training(workshop, "-save_model", name, "-report_every", 1, "-num_workers", workers, *LONG)
    wait_for(process, "Step 3/")
    os.killpg(process.pid, signal.Signals[number])
    rest = process.communicate(timeout=120)[1]
    assert process.returncode == 0, rest
    stopped = re.search(rf"Stopped by {number} at step (\d+); to go on: -train_from ({name}_step_\d+\.pt)", rest)
    assert stopped and load_harmless(workshop / stopped[2], "cpu")["optim"]["training_step"] == int(stopped[1]) + 1


def test_a_second_ctrl_c_stops_at_once() -> None:
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.by == "SIGINT"
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)  # a first one
        assert stop.by == "SIGINT"


def broken_loss(monkeypatch: pytest.MonkeyPatch, steps: Any) -> None:
    """A loss that is not a number at some steps, counted from 1."""
    forward = onmt.trainer.LossCompute.forward
    calls = iter(range(1, 1000))

    def sometimes(self: Any, *args: Any, **kwargs: Any) -> Any:
        loss, stats = forward(self, *args, **kwargs)
        if self.training and next(calls) in steps:
            loss = loss * torch.nan
        return loss, stats

    monkeypatch.setattr(onmt.trainer.LossCompute, "forward", sometimes)


def test_a_step_that_is_not_finite_is_skipped_and_its_documents_named(
    workshop: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken_loss(monkeypatch, {3})
    with caplog.at_level("INFO"):
        train_here(
            workshop,
            "-config",
            "rnn.yaml",
            "-save_model",
            "nan",
            "-train_steps",
            5,
            "-report_every",
            5,
            "-batch_size",
            3,
        )
    named = re.search(
        r"Step 3: the loss or its gradient is not finite.*train.src lines (\d+), (\d+), (\d+)\n", caplog.text
    )
    assert named and all(1 <= int(line) <= 1500 for line in named.groups())
    checkpoint = load_harmless(workshop / "nan_step_5.pt", "cpu")
    assert all(torch.isfinite(value).all() for value in checkpoint["model"].values())
    assert "sents: 12;" in caplog.text  # of the other four


def test_ten_in_a_row_end_training_and_the_last_good_checkpoint_stays(
    workshop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_loss(monkeypatch, range(5, 100))
    arguments = "-config rnn.yaml -save_model ten -train_steps 50 -save_checkpoint_steps 2 -keep_checkpoint 1".split()
    with pytest.raises(
        ExhirdError, match=r"Step 14: .* 10th step in a row.* Its last checkpoint is good: ten_step_4.pt"
    ):
        train_here(workshop, *arguments)
    assert [path.name for path in workshop.glob("ten_*")] == ["ten_step_4.pt"]


def test_nine_in_a_row_do_not(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken_loss(monkeypatch, {*range(2, 11), *range(12, 21)})
    train_here(workshop, "-config", "rnn.yaml", "-save_model", "nine", "-train_steps", 21)
    assert (workshop / "nine_step_21.pt").exists()


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    from onmt.utils.optimizers import Optimizer

    model = torch.nn.Linear(2, 3)
    before = model.weight.detach().clone()
    optimizer = Optimizer(torch.optim.SGD(model.parameters(), lr=1.0), 1.0)
    model(torch.tensor([[torch.inf, 1.0]])).sum().backward()
    optimizer.step()
    assert optimizer.skipped and torch.equal(model.weight, before) and optimizer.training_step == 2
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert not optimizer.skipped and not torch.equal(model.weight, before)


def test_the_log_says_speed_time_left_and_the_best_so_far(workshop: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = "-train_steps 6 -valid_steps 3 -report_every 3 -valid_metrics KEYPHRASE_F1 -tensorboard".split()
    with caplog.at_level("INFO"):
        train_here(workshop, "-config", "exhird.yaml", "-save_model", "said", *options, "-tensorboard_log_dir", "board")
    assert re.search(r"Step 3/6; .*; \d+\.\d docs/s; 0:\d\d:\d\d passed; 0:\d\d:\d\d left\n", caplog.text)
    found = re.findall(
        r"Validation at step (\d): perplexity (\S+), KEYPHRASE_F1 \S+; the best so far is (\S+) at step (\d)",
        caplog.text,
    )
    assert [row[0] for row in found] == ["3", "6"]
    best = min(found, key=lambda row: float(row[1]))
    assert found[1][2:] == (best[1], best[0])
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (board,) = (workshop / "board").iterdir()
    events = EventAccumulator(str(board)).Reload()
    assert {"progress/docs_per_second", "progress/seconds_left", "valid/best_ppl", "valid/KEYPHRASE_F1"} <= set(
        events.Tags()["scalars"]
    )


@pytest.fixture
def tiny(workshop: Path, tmp_path: Path) -> Path:
    """A folder with a vocabulary and a configuration, for corpora of one's own."""
    for name in ("vocab.txt", "exhird.yaml", "valid.src", "valid.tgt"):
        (tmp_path / name).write_bytes((workshop / name).read_bytes())
    return tmp_path


def corpus(folder: Path, *pairs: tuple[str, str]) -> None:
    write_lines(folder / "train.src", [source for source, _ in pairs])
    write_lines(folder / "train.tgt", [target for _, target in pairs])


TRAIN = "-config exhird.yaml -save_model m -train_steps 2 -bucket_size 50".split()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_corpus_of_one_document_trains(tiny: Path, workers: int) -> None:
    """One of two reading processes then has nothing to read."""
    corpus(tiny, ("a note about deep tree", "<p_start> deep tree ;"))
    run_stock("onmt_train", *TRAIN, "-num_workers", workers, cwd=tiny) if workers else train_here(tiny, *TRAIN)
    assert (tiny / "m_step_2.pt").exists()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_corpus_of_which_every_document_is_dropped_is_an_error(tiny: Path, workers: int) -> None:
    corpus(tiny, *[("word " * 500, "<p_start> word ;")] * 30)
    done = run_stock("onmt_train", *TRAIN, "-transforms", "keyphrase", "-num_workers", workers, cwd=tiny, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "error: every document of train.src was dropped by the transforms keyphrase: there is nothing to train on"
    )


def test_a_vocabulary_of_one_word_trains(tiny: Path) -> None:
    (tiny / "vocab.txt").write_text("deep\t5\n<p_start>\t4\n<a_start>\t3\n;\t2\n")
    corpus(tiny, *[("a note about deep tree", "<p_start> deep tree ; <a_start> deep ;")] * 5)
    train_here(tiny, *TRAIN)
    assert (tiny / "m_step_2.pt").exists()


def test_a_file_that_changes_or_vanishes_while_it_is_read_is_an_error(tiny: Path, monkeypatch: Any) -> None:
    for change, said in ((Path.unlink, "cannot read"), (lambda path: path.write_text("other\n"), "has changed")):
        corpus(tiny, *[(f"note {n} about deep tree", "<p_start> deep tree ;") for n in range(40)])
        learn = onmt.trainer.Trainer._gradient_accumulation

        def change_it(self: Any, *args: Any, change: Any = change, learn: Any = learn) -> None:
            if (tiny / "train.src").exists():
                change(tiny / "train.src")
            learn(self, *args)

        with monkeypatch.context() as patch, pytest.raises(ExhirdError, match=f"{said}.*train.src|train.src.*{said}"):
            patch.setattr(onmt.trainer.Trainer, "_gradient_accumulation", change_it)
            train_here(tiny, *TRAIN, "-train_steps", 90, "-batch_size", 4, "-bucket_size", 30)


def test_a_document_of_100000_tokens_is_an_error_unless_it_is_said_what_is_too_long(tiny: Path) -> None:
    """Beside it in the batch others would be padded to its length."""
    short = [(f"note {n} about deep tree", "<p_start> deep tree ;") for n in range(9)]
    corpus(tiny, *short, ("deep tree " * 50_000, "<p_start> deep tree ;"))
    with pytest.raises(ExhirdError, match=r"train.src, line 10 has 100,000 tokens.*--max-source N.*-src_seq_length N"):
        train_here(tiny, *TRAIN)
    for transforms in (["keyphrase"], ["filtertoolong", "-src_seq_length", "50"]):
        train_here(tiny, *TRAIN, "-transforms", *transforms)
