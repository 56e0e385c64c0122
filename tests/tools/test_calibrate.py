"""Calibration: the end becomes less likely by what is said, everything else stays, and the best one is written."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch
from helpers.files import load_tool, write_lines

from onmt_exhird.generator.unpickling import load_harmless

TOKENS = ["<unk>", "<s>", "</s>", "graph"]
SOURCES, GOLD = ["fast graph code"] * 2, ["<p_start> graph ; <a_start> logic ;"] * 2
# What a fake model says, by what was added to its end.
ANSWERS = {0.0: "graph", -0.25: "graph ; logic", -0.5: "graph ; logic ; fast ; trees"}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("calibrate")


@pytest.fixture
def checkpoint() -> dict[str, Any]:
    bias = torch.tensor([1.0, 2.0, 3.0, 4.0])
    return {"generator": {"bias": bias, "weight": torch.ones(4, 2)}, "vocab": {"tgt": TOKENS}, "model": {"a": bias}}


@pytest.fixture
def files(tmp_path: Path, checkpoint: dict[str, Any]) -> dict[str, Path]:
    model = tmp_path / "model.pt"
    torch.save(checkpoint, model)
    source, gold = write_lines(tmp_path / "valid.src", SOURCES), write_lines(tmp_path / "valid.tgt", GOLD)
    return {"--model": model, "--src": source, "--gold": gold, "--output": tmp_path / "out.pt"}


def arguments(files: dict[str, Path], *more: str) -> list[str]:
    return [str(part) for pair in files.items() for part in pair] + list(more)


class FakeDecoder:
    """Answers as `ANSWERS` says, by the checkpoint it is given."""

    windows: ClassVar[list[str]] = []

    def __init__(self, model: Path, batch_size: int) -> None:
        self.shift = load_harmless(model)["generator"]["bias"][2].item() - 3

    def __call__(self, sources: list[str], setting: Any) -> list[str]:
        self.windows.append(setting.label)
        return [ANSWERS[self.shift]] * len(sources)


def test_only_the_end_becomes_less_likely(tool, checkpoint):
    other = tool.shifted(checkpoint, -0.5)
    assert other["generator"]["bias"].tolist() == [1.0, 2.0, 2.5, 4.0]
    assert checkpoint["generator"]["bias"].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert other["generator"]["weight"] is checkpoint["generator"]["weight"]
    assert other["model"] is checkpoint["model"]


def test_the_one_with_the_best_scores_is_written(tool, files, monkeypatch, capsys):
    monkeypatch.setattr(tool, "Decoder", FakeDecoder)
    monkeypatch.setattr(FakeDecoder, "windows", [])
    assert tool.main(arguments(files, "--window", "all")) == 0
    assert load_harmless(files["--output"])["generator"]["bias"].tolist() == [1.0, 2.0, 2.75, 4.0]
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith(("  +", "  -0"))]
    assert [row[0] for row in rows] == ["+0", "-0.25", "-0.5"]
    assert rows[1][2:4] == ["1.0000", "1.0000"]  # present and absent F1@M
    assert FakeDecoder.windows == ["all"] * 3


def test_several_checkpoints_become_their_mean(tool, checkpoint):
    checkpoint["model"]["count"] = torch.tensor(7)
    other = checkpoint | {"generator": {"bias": torch.zeros(4), "weight": torch.full((4, 2), 3.0)}, "step": 5}
    found = tool.mean([checkpoint, other])
    assert found["generator"]["bias"].tolist() == [0.5, 1.0, 1.5, 2.0]
    assert found["generator"]["weight"].eq(2).all() and found["model"]["a"].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert found["model"]["count"].dtype == torch.long
    assert "step" not in found


def test_a_file_that_is_no_checkpoint_is_told(tool, files, capsys):
    torch.save({"generator": None}, files["--model"])
    assert tool.main(arguments(files)) == 2
    assert "is no checkpoint of a model that copies" in capsys.readouterr().err
    assert not files["--output"].exists()
