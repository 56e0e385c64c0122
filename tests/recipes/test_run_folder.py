"""What a recipe asks about the folder of a training run."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers.files import load_tool

LOG = """\
+ onmt_train
[2026-01-01 10:00:00,000 INFO] Start training loop and validate every 100 steps...
[2026-01-01 10:05:00,000 INFO] Validation at step 100: perplexity 9.5
[2026-01-01 10:06:00,000 INFO] Saving checkpoint ../m/model_step_100.pt
[2026-01-01 10:09:00,000 INFO] Validation at step 200: perplexity 1.5
not a stamped line: Validation at step 100: perplexity 1.0
[2026-01-01 12:00:00,000 INFO] Start training loop and validate every 100 steps...
[2026-01-01 12:10:00,000 INFO] Validation at step 200: perplexity 8.25, KEYPHRASE_F1 3.5; the best so far is 8
[2026-01-01 12:10:30,000 INFO] Saving checkpoint ../m/model_step_200.pt
[2026-01-01 12:20:00,000 INFO] Validation at step 300: perplexity 8.75
[2026-01-01 12:20:30,000 INFO] Saving checkpoint ../m/model_step_300.pt
"""
OVER = "[2026-01-01 12:20:10,000 INFO] The 20 minutes of -train_minutes are over: ending at step 300\n"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("run_folder")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of two sessions: step 200 was validated in both, but saved in the second only."""
    folder = tmp_path / "run" / "m-7"
    folder.mkdir(parents=True)
    (folder / "train.log").write_text(LOG)
    for step in (100, 200, 300, 1000):
        with zipfile.ZipFile(folder / f"model_step_{step}.pt", "w") as file:
            file.writestr("weights", "0" * 100)
    broken = folder / "model_step_1000.pt"  # as if the writing was interrupted
    broken.write_bytes(broken.read_bytes()[:90])
    return folder


@pytest.fixture
def ask(tool: ModuleType, folder: Path, capsys: Any) -> Callable[..., str]:
    def ask(question: str, *options: str) -> str:
        assert tool.main([question, str(folder), *options]) == 0
        return capsys.readouterr().out.strip()

    return ask


def test_the_last_checkpoint_is_the_newest_whole_one(ask: Any, folder: Path) -> None:
    assert ask("last") == str(folder / "model_step_300.pt")


def test_the_best_checkpoint_has_the_least_perplexity_of_those_saved(ask: Any, folder: Path) -> None:
    assert ask("best") == str(folder / "model_step_200.pt")
    (folder / "model_step_200.pt").unlink()
    assert ask("best") == str(folder / "model_step_300.pt")


def test_what_is_not_a_number_is_never_the_best(ask: Any, folder: Path) -> None:
    log = folder / "train.log"
    log.write_text(LOG.replace("perplexity 9.5", "perplexity nan"))
    assert ask("best") == str(folder / "model_step_200.pt")


def test_steps_are_compared_as_numbers(tool: ModuleType, folder: Path) -> None:
    (folder / "model_step_300.pt").rename(folder / "model_step_9.pt")
    assert list(tool.checkpoints(folder)) == [9, 100, 200]


def test_minutes_count_up_to_the_last_checkpoint_of_each_session(tool: ModuleType, folder: Path) -> None:
    assert tool.read_log(folder / "train.log").minutes == pytest.approx(6 + 20.5)


@pytest.mark.parametrize(
    ("ended", "over", "minutes", "left"),
    [
        (False, False, "30", "3.5"),
        (False, False, "0", "0"),
        (False, False, "20", "nothing"),
        (True, False, "30", "nothing"),
        (True, True, "30", "3.5"),
        (True, True, "26", "nothing"),
        (True, True, "0", "0"),
    ],
)
def test_what_is_left_of_training(ended: bool, over: bool, minutes: str, left: str, ask: Any, folder: Path) -> None:
    if ended:
        (folder / ".stages").mkdir()
        (folder / ".stages" / "train").touch()
    if over:
        (folder / "train.log").write_text(LOG + OVER)
    assert ask("left", "--minutes", minutes) == left


def test_who_stopped_the_last_session(ask: Any, folder: Path) -> None:
    assert ask("stopped") == ""
    stopped = "[2026-01-01 12:30:00,000 INFO] Stopped by SIGTERM at step 310; to go on: -train_from m_step_310.pt\n"
    (folder / "train.log").write_text(LOG + stopped)
    assert ask("stopped") == "SIGTERM"
    (folder / "train.log").write_text(LOG + stopped + LOG)
    assert ask("stopped") == ""


def test_a_new_folder_has_everything_left_and_no_checkpoint(tool: ModuleType, tmp_path: Path, capsys: Any) -> None:
    for question, answer in (("left", "5"), ("last", "")):
        assert tool.main([question, str(tmp_path / "new"), "--minutes", "5"]) == 0
        assert capsys.readouterr().out.strip() == answer
    assert tool.main(["best", str(tmp_path / "new")]) == 2
    assert "there is no whole checkpoint" in capsys.readouterr().err


def test_minutes_without_a_checkpoint_are_lost(ask: Any, folder: Path) -> None:
    for path in folder.glob("*.pt"):
        path.unlink()
    assert ask("left", "--minutes", "20") == "20"


def test_the_description_says_what_was_trained_and_tested(ask: Any, folder: Path) -> None:
    data = folder.parent / "data"
    for place, name, text in [
        (data, "train.src", "a\nb\nc\n"),
        (data, "test.src", "a\n"),
        (folder.parent / ".stages", "prepare", "command: exhird prepare\n1 2 raw.json\n"),
        (folder / ".stages", "train", "command: onmt_train -seed 7\n"),
        (folder / ".stages", "train.begun", "command: onmt_train -seed 7\n"),
        (folder, "test.K4.json", "{}"),
        (folder, "test.Kall.json", "{}"),
    ]:
        place.mkdir(exist_ok=True)
        (place / name).write_text(text)
    ask("describe", "--model", "m", "--seed", "7", "--data", str(data))
    assert json.loads((folder / "run.json").read_text()) == {
        "model": "m",
        "seed": 7,
        "steps": 200,
        "steps_trained": 300,
        "training_documents": 3,
        "minutes": 26.5,
        "checkpoint": "model_step_200.pt",
        "validation_perplexity": 8.25,
        "documents": {"test": 1, "train": 3},
        "tests": [{"dataset": "test", "window": "4"}, {"dataset": "test", "window": "all"}],
        "commands": {"prepare": "exhird prepare", "train": "onmt_train -seed 7"},
    }
