"""Predictions beside the gold keyphrases."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.files import load_tool, write_lines

from onmt_exhird.stream import read_leniently
from onmt_exhird.text import TextRules
from onmt_exhird.textmodel import TextModel

tool = load_tool("side_by_side")


@pytest.mark.parametrize(
    ("gold", "predicted", "lines"),
    [
        ("graphs ; spanning tree", "spanning trees ; code", ["= spanning trees", "+ code", "- graphs"]),
        ("<p_start> graph ; <a_start> tree ;", "<a_start> graph ;", ["= graph", "- tree"]),
        ("spanning tree", "tree ; tree spanning", ["+ tree", "+ tree spanning", "- spanning tree"]),
        ("graph", "graph ; graph", ["= graph", "= graph"]),
        ("b ; a", "", ["- b", "- a"]),
        ("", "b ; a", ["+ b", "+ a"]),
        ("", "", []),
    ],
)
def test_phrases_are_marked_as_found_wrong_or_missed(gold: str, predicted: str, lines: list[str]) -> None:
    assert tool.compare(read_leniently(gold), read_leniently(predicted)) == lines


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    return {
        "--src": write_lines(tmp_path / "test.src", ["fast graphs", "deep trees", "code"]),
        "--gold": write_lines(tmp_path / "test.tgt", ["graph", "tree", "code"]),
        "--pred": write_lines(tmp_path / "test.pred", ["graphs", "forest", "code"]),
    }


def run(files: dict[str, Path], *more: str) -> int:
    return tool.main([*(str(part) for pair in files.items() for part in pair), *more])


def test_the_first_documents_are_shown(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files, "--count", "2") == 0
    assert capsys.readouterr().out == "fast graphs\n    = graphs\n\ndeep trees\n    + forest\n    - tree\n\n"


@pytest.mark.parametrize("option", ["--src", "--gold", "--pred"])
def test_a_missing_file_is_one_sentence_and_status_2(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str], option: str
) -> None:
    files[option].unlink()
    assert run(files) == 2
    captured = capsys.readouterr()
    assert f": error: {files[option]} cannot be read" in captured.err and "give an existing" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("option", ["--src", "--gold", "--pred"])
def test_a_shorter_file_is_one_sentence_and_status_2(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str], option: str
) -> None:
    write_lines(files[option], ["one", "two"])
    assert run(files) == 2
    captured = capsys.readouterr()
    assert f"{files[option]} has 2" in captured.err and "give files of the same documents" in captured.err
    assert captured.out == ""


def test_bytes_that_are_no_text_are_one_sentence_and_status_2(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    files["--pred"].write_bytes(b"graph\ncaf\xe9\ncode\n")
    assert run(files) == 2
    assert f"{files['--pred']}, line 2 is not UTF-8" in capsys.readouterr().err


def test_only_the_lines_asked_for_must_be_there(files: dict[str, Path]) -> None:
    write_lines(files["--pred"], ["one", "two"])
    assert run(files, "--count", "2") == 0


def test_words_are_compared_in_the_language_of_the_data(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    (files["--src"].parent / "text.json").write_text(TextModel(TextRules("de")).to_json())
    write_lines(files["--gold"], ["Häuser", "tree", "code"])
    write_lines(files["--pred"], ["Haus", "forest", "code"])
    assert run(files, "--count", "1") == 0
    assert capsys.readouterr().out == "fast graphs\n    = Haus\n\n"
