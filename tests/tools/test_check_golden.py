"""Equality with the golden numbers, and a tool that notices when it is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.files import ROOT, SHARED, load_tool

GOLDEN = ROOT / "tests" / "golden" / "model_public.json"
ORIGINAL = SHARED / "golden" / "model_public.json"


tool = load_tool("check_golden")


@pytest.fixture
def golden() -> dict[str, Any]:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


def write(folder: Path, golden: dict[str, Any]) -> str:
    path = folder / "golden.json"
    path.write_text(json.dumps(golden), encoding="utf-8")
    return str(path)


def test_every_number_and_every_output_agrees(capsys: pytest.CaptureFixture[str]):
    assert tool.main([str(GOLDEN)]) == 0
    output = capsys.readouterr().out
    assert "DIFFERS" not in output
    for quantity in ("log-probability", "exclusive loss, K_EL 4", "gradient of W_alpha", "alpha", "greedy"):
        assert quantity in output


@pytest.mark.skipif(not ORIGINAL.exists(), reason="the original is not at hand")
def test_the_copy_is_the_original():
    assert GOLDEN.read_bytes() == ORIGINAL.read_bytes()


@pytest.mark.parametrize("order", [[3, 1, 0, 2], [0, 2], [0]])
def test_other_documents_in_the_batch_do_not_matter(golden: dict[str, Any], order: list[int]):
    golden["documents"] = [golden["documents"][i] for i in order]
    golden["detail"]["doc"] = order.index(0)
    checker = tool.Checker(golden)
    checker.run()
    own = [row for row in checker.rows if "batch" not in row[0] and "gradient" not in row[0]]
    assert [row for row in own if row[1] > row[2]] == []
    assert all(ours == expected for _, ours, expected in checker.outputs)


@pytest.mark.parametrize(
    ("quantity", "path"),
    [
        ("log-probability of tokens", ["documents", 1, "expected", "log_prob", 0, 1]),
        ("nll of documents", ["documents", 2, "expected", "nll"]),
        ("exclusive loss, K_EL 2", ["documents", 3, "expected", "exclusive_loss_extended_id", "2"]),
        ("nll of the batch", ["batch", "total_nll"]),
        ("gradient of W_1", ["gradients", "grad", "W_1", 2, 3]),
        ("gradient of b_g", ["gradients", "grad", "b_g"]),
        ("phrase attention beta", ["detail", "beta", 1, 4]),
        ("distribution of phrase 1, step 0", ["detail", "distributions", 0, "p", 3]),
    ],
)
def test_a_changed_number_is_noticed(
    tmp_path: Path, golden: dict[str, Any], capsys: pytest.CaptureFixture[str], quantity: str, path: list[Any]
):
    *parents, last = path
    place = golden
    for key in parents:
        place = place[key]
    place[last] += 3e-4
    assert tool.main([write(tmp_path, golden)]) == 1
    assert [line for line in capsys.readouterr().out.splitlines() if "DIFFERS" in line and quantity in line]


def test_a_changed_output_is_noticed(tmp_path: Path, golden: dict[str, Any], capsys: pytest.CaptureFixture[str]):
    golden["documents"][0]["expected"]["greedy"]["1"] = "<p_start> w01 ;"
    assert tool.main([write(tmp_path, golden), str(GOLDEN)]) == 1
    output = capsys.readouterr().out
    assert "greedy, document 1, K_ES 1" in output
    assert "expected  <p_start> w01 ;" in output


def test_not_a_number_does_not_pass(golden: dict[str, Any]):
    golden["weights"]["b_g"] = float("nan")
    checker = tool.Checker(golden)
    checker.run()
    assert not checker.agrees


@pytest.mark.parametrize("missing", ["weights", "documents", "gradients"])
def test_an_incomplete_file_is_an_error(
    tmp_path: Path, golden: dict[str, Any], capsys: pytest.CaptureFixture[str], missing: str
):
    del golden[missing]
    assert tool.main([write(tmp_path, golden)]) == 2
    assert f"has no '{missing}'" in capsys.readouterr().err


def test_a_file_without_one_weight_is_an_error(
    tmp_path: Path, golden: dict[str, Any], capsys: pytest.CaptureFixture[str]
):
    del golden["weights"]["W_alpha"]
    assert tool.main([write(tmp_path, golden)]) == 2
    assert "decoder.word_attention" in capsys.readouterr().err


def test_a_file_without_one_gradient_is_an_error(
    tmp_path: Path, golden: dict[str, Any], capsys: pytest.CaptureFixture[str]
):
    del golden["gradients"]["grad"]["b_g"]
    assert tool.main([write(tmp_path, golden)]) == 2
    assert "golden.json has no gradient of 'b_g'" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["a word", "a phrase less", "two phrases in one"])
def test_phrases_that_are_not_those_of_the_target_are_an_error(
    tmp_path: Path, golden: dict[str, Any], capsys: pytest.CaptureFixture[str], damage: str
):
    phrases = golden["documents"][1]["expected"]["phrases"]
    if damage == "a word":
        phrases[0][1] = "w06"
    elif damage == "a phrase less":
        del phrases[2]
    else:
        phrases[0] += phrases.pop(1)
    assert tool.main([write(tmp_path, golden)]) == 2
    message = "golden.json: the expected phrases of document 2 are not those of its target"
    assert message in capsys.readouterr().err


def test_a_missing_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert tool.main([str(tmp_path / "none.json")]) == 2
    assert "none.json cannot be read: No such file" in capsys.readouterr().err


def test_a_file_that_is_not_json_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "text.json"
    path.write_text("keyphrases\n", encoding="utf-8")
    assert tool.main([str(path)]) == 2
    assert "is not JSON" in capsys.readouterr().err
