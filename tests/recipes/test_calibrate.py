"""recipes/science/calibrate.py: a checkpoint that writes more phrases, or fewer, and is otherwise as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers.bridge_models import wild
from helpers.checkpoints import differences
from helpers.files import load_tool
from helpers.generator_models import texts
from safetensors.torch import save_file

from onmt_exhird import KeyphraseGenerator
from onmt_exhird.generator.checkpoint import read_checkpoint
from onmt_exhird.generator.unpickling import load_harmless


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wild("exhird", tmp_path_factory.mktemp("wild") / "model.pt")


def test_only_the_named_biases_change(checkpoint: Path, tmp_path: Path) -> None:
    options = ["--end", "-0.5", "--absent", "0.25"]
    assert load_tool("calibrate").main([str(checkpoint), str(tmp_path / "other.pt"), *options]) == 0
    before, after = load_harmless(checkpoint), load_harmless(tmp_path / "other.pt")
    tokens = read_checkpoint(checkpoint).tokens
    moved = after["generator"]["bias"] - before["generator"]["bias"]
    found = {tokens[number]: round(float(moved[number]), 4) for number in moved.nonzero().flatten().tolist()}
    assert found == {"</s>": -0.5, "<a_start>": 0.25}
    after["generator"]["bias"] = before["generator"]["bias"]
    assert differences(before, after) == []


def test_the_numbers_say_how_many_phrases_there_are(checkpoint: Path, tmp_path: Path) -> None:
    counts = []
    for end in (20.0, 0.0, -20.0):
        load_tool("calibrate").main([str(checkpoint), str(tmp_path / "other.pt"), "--end", str(end)])
        generator = KeyphraseGenerator.from_pretrained(tmp_path / "other.pt")
        counts.append(sum(len(result) for result in generator(texts(8))))
    assert counts[0] < counts[1] < counts[2]


def test_mistakes_are_sentences(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"calibrate\.py: cannot read the checkpoint"):
        load_tool("calibrate").main([str(tmp_path / "none.pt"), str(tmp_path / "other.pt")])
    saved = load_harmless(checkpoint)
    weights = saved["model"] | {f"generator.{name}": tensor for name, tensor in saved["generator"].items()}
    save_file({name: tensor.clone() for name, tensor in weights.items()}, tmp_path / "beside.00.safetensors")
    torch.save(saved | {"model": None, "generator": None}, tmp_path / "beside.pt")
    with pytest.raises(SystemExit, match="train without -save_format safetensors"):
        load_tool("calibrate").main([str(tmp_path / "beside.pt"), str(tmp_path / "other.pt")])
    assert not (tmp_path / "other.pt").exists()
