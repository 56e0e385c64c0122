"""Checkpoints are whole or not there; the newest and the best stay."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pyonmttok
import pytest
import torch
from helpers.stock import train_here
from onmt.models import model_saver
from onmt.utils.optimizers import Optimizer

from onmt_exhird.bridge import saving
from onmt_exhird.bridge.checkpoints import load_harmless
from onmt_exhird.bridge.loading import fault_of, newest_whole
from onmt_exhird.bridge.saving import Files, superfluous
from onmt_exhird.errors import ExhirdError


class Model(torch.nn.Module):
    """Two names for one tensor, which safetensors refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = torch.nn.Linear(3, 2)
        self.twin = self.encoder
        self.generator = torch.nn.Linear(2, 5)


def saver(folder: Path, keep: int = -1, form: str = "pytorch") -> Any:
    model = Model()
    optimizer = Optimizer(torch.optim.Adam(model.parameters()), 0.1)
    vocab = pyonmttok.build_vocab_from_tokens(["a"])
    vocabs = {"src": vocab, "tgt": vocab, "data_task": "seq2seq", "decoder_start_token": "<s>"}
    return model_saver.ModelSaver(str(folder / "m"), model, Namespace(), vocabs, optimizer, keep, form, -1)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_only_the_newest_and_the_best_stay(tmp_path: Path) -> None:
    keeper = saver(tmp_path, keep=2)
    perplexities = {10: 9.0, 20: 3.0, 30: 4.0, 40: 5.0, 50: 6.0}
    for step in perplexities:
        keeper.state = {"validated": {s: p for s, p in perplexities.items() if s <= step}}
        keeper.save(step)
    assert names(tmp_path) == ["m_step_20.pt", "m_step_40.pt", "m_step_50.pt"]


@pytest.mark.parametrize(
    ("saved", "keep", "perplexities", "gone"),
    [
        ([1, 2, 3], 1, {}, [1, 2]),
        ([1, 2, 3], 3, {1: 5.0}, []),
        ([1, 2, 3], 1, {1: 5.0, 2: 5.0}, [2]),  # of equals the earlier
        ([1, 2, 3], 1, {9: 1.0, 2: 5.0}, [1]),  # the best of all was never saved
    ],
)
def test_what_may_go(saved: list[int], keep: int, perplexities: dict[int, float], gone: list[int]) -> None:
    assert superfluous(saved, keep, perplexities) == gone


def test_weights_in_safetensors_come_with_their_checkpoint_and_go_with_it(tmp_path: Path) -> None:
    keeper = saver(tmp_path, keep=1, form="safetensors")
    keeper.save(1)
    keeper.save(2)
    assert names(tmp_path) == ["m_step_2.00.safetensors", "m_step_2.pt"]


@pytest.mark.parametrize("form", ["pytorch", "safetensors"])
def test_a_full_disk_leaves_the_last_good_checkpoint_and_nothing_else(
    tmp_path: Path, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The limit on the size of a file is what a full disk is to a program: a write that fails half way."""
    program = """
import resource, signal, sys
from pathlib import Path
sys.path[:0] = [sys.argv[2], str(Path(sys.argv[2]).parent)]
import test_saving as tests
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
keeper = tests.saver(Path(sys.argv[1]), keep=1, form=sys.argv[3])
keeper.save(1)
keeper.model.generator = tests.torch.nn.Linear(1000, 1000)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
keeper.save(2)
assert keeper.error is not None and keeper.saved == [1] and keeper.last_saved_step == 1
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
keeper.save(2)
assert keeper.error is None and keeper.saved == [2]
print(sorted(path.name for path in Path(sys.argv[1]).iterdir()))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, str(tmp_path), str(Path(__file__).parent), form],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "The checkpoint of step 2 could not be written" in done.stderr
    expected = ["m_step_2.pt"] if form == "pytorch" else ["m_step_2.00.safetensors", "m_step_2.pt"]
    assert done.stdout.strip() == str(expected)


def test_a_name_is_there_only_when_the_file_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr(saving, "sync", lambda path: events.append(f"sync {path.name}"))
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append(f"name {Path(b).name}"), replace(a, b)))
    files = Files({"a": 1})
    files.save({"model": {}}, str(tmp_path / "m_step_3.pt"))
    files.save_weights({"w": torch.ones(2)}, str(tmp_path / "m_step_3.safetensors"))
    assert all(name.endswith(".part") for name in names(tmp_path))
    files.move()
    assert events == [
        "sync .m_step_3.pt.part",
        "sync .m_step_3.00.safetensors.part",
        "name m_step_3.00.safetensors",
        f"sync {tmp_path.name}",
        "name m_step_3.pt",
        f"sync {tmp_path.name}",
    ]
    assert load_harmless(tmp_path / "m_step_3.pt")["training"] == {"a": 1}


@pytest.mark.parametrize("length", [0, 10, 500, -1])
def test_of_a_checkpoint_that_was_cut_short_the_one_before_is_used(tmp_path: Path, length: int) -> None:
    keeper = saver(tmp_path)
    for step in (9, 100, 200):
        keeper.save(step)
    newest = tmp_path / "m_step_200.pt"
    newest.write_bytes(newest.read_bytes()[:length])
    warnings: list[str] = []
    assert newest_whole(str(newest), warnings.append) == str(tmp_path / "m_step_100.pt")
    assert "m_step_200.pt is broken" in warnings[0] and "going on from" in warnings[0]
    (tmp_path / "m_step_100.pt").write_bytes(b"")
    assert newest_whole(str(newest), warnings.append) == str(tmp_path / "m_step_9.pt")
    (tmp_path / "m_step_9.pt").unlink()
    with pytest.raises(ExhirdError, match="no whole checkpoint lies before it"):
        newest_whole(str(newest), warnings.append)


def test_weights_that_are_missing_or_cut_short_break_a_checkpoint(tmp_path: Path) -> None:
    keeper = saver(tmp_path, form="safetensors")
    keeper.save(5)
    checkpoint, weights = str(tmp_path / "m_step_5.pt"), tmp_path / "m_step_5.00.safetensors"
    assert not fault_of(checkpoint)
    weights.write_bytes(weights.read_bytes()[:-1])
    assert fault_of(checkpoint)
    weights.unlink()
    assert fault_of(checkpoint)


def test_a_whole_checkpoint_or_a_missing_one_is_taken_as_it_is(tmp_path: Path) -> None:
    keeper = saver(tmp_path)
    keeper.save(1)
    keeper.save(2)
    for name in ("m_step_2.pt", "m_step_3.pt"):
        assert newest_whole(str(tmp_path / name), pytest.fail) == str(tmp_path / name)


def test_a_resumed_training_removes_what_the_one_before_has_saved(workshop: Path) -> None:
    arguments = "-config rnn.yaml -save_model kept -save_checkpoint_steps 2 -valid_steps 3 -keep_checkpoint 2".split()
    train_here(workshop, *arguments, "-train_steps", 4)
    train_here(workshop, *arguments, "-train_steps", 8, "-train_from", "kept_step_4.pt")
    assert sorted(path.name for path in workshop.glob("kept_step_*")) == ["kept_step_6.pt", "kept_step_8.pt"]
