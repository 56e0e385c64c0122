"""The window study: the searches are those of onmt_translate, nothing is decoded twice, and mistakes are said."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from helpers.files import load_tool, write_lines
from helpers.stock import run_stock

from onmt_exhird.bridge.checkpoints import load_harmless
from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation import evaluate
from onmt_exhird.stream import END, EOS, PRESENT, UNK, parse, read_leniently

pytest.importorskip("matplotlib")
SOURCES = ["fast graph code", "deep tree", "quiet code"]
GOLD = ["<p_start> graph ; <a_start> logic ;", "<p_start> tree ;", "<p_start> quiet code ;"]
# What a fake model says with each window; the second document's phrases never change.
ANSWERS = {
    "0": ["graph ; graph ; graph", "tree", "code ; quiet code ; code"],
    "1": ["graph ; code ; graph", "tree", "code ; quiet code ; code"],
    "all": ["graph ; code ; logic", "tree", "code ; quiet code"],
}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("window_study")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    model = tmp_path / "model.pt"
    model.write_bytes(b"no checkpoint")
    source, gold = write_lines(tmp_path / "test.src", SOURCES), write_lines(tmp_path / "test.tgt", GOLD)
    return {"--model": model, "--src": source, "--gold": gold, "--output": tmp_path / "out"}


class FakeDecoder:
    """Answers as `ANSWERS` says and remembers what it was asked; fails when asked for `stop`."""

    def __init__(self, stop: str = "") -> None:
        self.asked: list[str] = []
        self.stop = stop

    def load(self, *_: object) -> FakeDecoder:
        return self

    def __call__(self, sources: list[str], setting: Any) -> list[str]:
        if setting.label == self.stop:
            raise KeyboardInterrupt
        self.asked.append(setting.name)
        return ANSWERS[setting.label][: len(sources)]


def arguments(files: dict[str, Path], *more: str) -> list[str]:
    return [str(part) for pair in files.items() for part in pair] + list(more)


def read_record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "window_study.json").read_text())


def test_windows_become_options_of_onmt_translate(tool):
    assert tool.Setting(beam=4, window=0).options() == ["-beam_size", "4"]
    widest = tool.Setting(1, None, exclude_stems=True, exclude_phrases=True).options()
    assert " ".join(widest) == "-beam_size 1 -exclusive_search -exclusive_window all -exclude_stems -exclude_phrases"


def test_predictions_are_kept_apart_by_all_that_they_depend_on(tool, files, tmp_path):
    setting = tool.Setting(1, 2)

    def path(sources: list[str] = SOURCES, setting: Any = setting) -> Path:
        return tool.Store(tmp_path, files["--model"], sources).path(setting)

    first = path()
    assert path() == first
    others = {path(SOURCES[:2]), path(setting=tool.Setting(1, 3)), path(setting=tool.Setting(1, 2, True))}
    os.utime(files["--model"], (5, 5))
    others.add(path())
    files["--model"].write_bytes(b"another size")
    os.utime(files["--model"], (5, 5))
    others.add(path())
    assert len(others - {first}) == 5


def test_counts_documents_that_differ_from_no_window_with_the_same_beam(tool):
    plain, changed = [read_leniently("a ; b"), read_leniently("c")], [read_leniently("a ; d"), read_leniently("c")]
    one, two = tool.Setting(1, 0), tool.Setting(1, 1)
    other = tool.Setting(4, 1)
    assert tool.count_changed({one: plain, two: changed, other: changed}) == {one: 0, two: 1}


@pytest.fixture
def study(tool, files, monkeypatch) -> Callable[..., FakeDecoder]:
    """Run the command with a fake model."""

    def run(*more: str, stop: str = "", status: int = 0) -> FakeDecoder:
        decoder = FakeDecoder(stop)
        monkeypatch.setattr(tool, "Decoder", decoder.load)
        assert tool.main(arguments(files, *more)) == status
        return decoder

    return run


def test_scores_are_those_of_the_evaluation(study, files):
    study("--windows", "all", "0", "1", "--beams", "1", "4")
    record = read_record(files["--output"])
    systems = {(system["beam"], system["window"]): system for system in record["systems"]}
    assert list(systems) == [(beam, window) for beam in (1, 4) for window in (0, 1, "all")]
    assert [system["changed"] for system in record["systems"]] == [0, 1, 2, 0, 1, 2]
    for (_, window), system in systems.items():
        expected = evaluate(SOURCES, GOLD, ANSWERS[str(window)]).to_dict()["systems"][0]
        assert {key: system[key] for key in expected if key != "name"} | {"name": "predictions"} == expected
        lines = (files["--output"] / system["predictions"]).read_text().splitlines()
        assert lines == ANSWERS[str(window)]
    assert systems[1, 0]["dup_ratio"] == pytest.approx((2 / 3 + 0 + 1 / 3) / 3)


def test_table_has_a_row_for_each_setting_and_one_for_the_gold(study, files, capsys):
    study("--windows", "0", "all", "--beams", "4", "1")
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith(("  greedy", "  beam"))]
    dup_ratio = evaluate(SOURCES, GOLD, ANSWERS["0"]).systems[0]["dup_ratio"]
    assert [row[-1] for row in rows] == ["0", "2", "0", "2"]
    assert [row[:2] for row in rows] == [["beam", "4"], ["beam", "4"], ["greedy", "0"], ["greedy", "all"]]
    assert rows[2][-2] == f"{dup_ratio:.4f}"
    markdown = (files["--output"] / "window_study.md").read_text().splitlines()
    table = [line for line in markdown if line.startswith("|")]
    assert table[0].startswith("| search | K | present F1@M | present F1@5 | present #PK | absent F1@M |")
    assert table[-1] == "| (gold) | - | - | - | 1.00 | - | - | 0.33 | - | - |"
    assert len(table) == 2 + 4 + 1


def test_without_a_run_without_window_nothing_is_said_to_have_changed(study, files, capsys):
    study("--windows", "1", "--beams", "1")
    assert read_record(files["--output"])["systems"][0]["changed"] is None
    assert "  greedy  1 " in (table := capsys.readouterr().out)
    assert next(line for line in table.splitlines() if "greedy" in line).endswith(" -")


def test_curves_are_an_image_and_a_drawing_and_the_same_for_the_same_study(study, files):
    study("--windows", "0", "1", "all")
    png, svg = (files["--output"] / f"window_study.{kind}" for kind in ("png", "svg"))
    first = svg.read_bytes()
    assert png.read_bytes().startswith(b"\x89PNG")
    assert ElementTree.fromstring(first).tag.endswith("svg")
    study("--windows", "0", "1", "all")
    assert svg.read_bytes() == first


def test_what_is_decoded_is_not_decoded_again(study, capsys):
    options = ("--windows", "0", "1", "--beams", "1")
    assert study(*options).asked == ["greedy, K = 0", "greedy, K = 1"]
    assert study(*options, "--batch-size", "3").asked == []
    assert study("--windows", "1", "all", "--beams", "1").asked == ["greedy, K = all"]
    assert study(*options, "--limit", "2").asked == ["greedy, K = 0", "greedy, K = 1"]
    assert "[2/2] greedy, K = 1: already decoded" in capsys.readouterr().err


def test_an_interrupted_study_goes_on_where_it_stopped(study, capsys):
    options = ("--windows", "0", "1", "all", "--beams", "1")
    assert study(*options, stop="all", status=130).asked == ["greedy, K = 0", "greedy, K = 1"]
    assert "the same command goes on from here" in capsys.readouterr().err
    assert study(*options).asked == ["greedy, K = all"]


def test_excluding_stems_leaves_search_without_window_as_it_is(study, files):
    study("--windows", "0", "--beams", "1")
    assert study("--windows", "0", "1", "--beams", "1", "--exclude-stems").asked == ["greedy, K = 1"]
    assert [system["exclude_stems"] for system in read_record(files["--output"])["systems"]] == [False, True]


def test_predictions_of_too_few_documents_are_refused(tool, files, tmp_path):
    store = tool.Store(tmp_path, files["--model"], SOURCES)
    setting = tool.Setting(1, 0)
    store.write(setting, ["graph", "tree"])
    with pytest.raises(ExhirdError, match="has 2 lines, the source has 3"):
        tool.decode_all([setting], SOURCES, store, FakeDecoder().load)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--model": "nowhere.pt"}, "nowhere.pt is no file; give a checkpoint"),
        ({"--src": "nowhere.src"}, "nowhere.src cannot be read"),
        ({"--gold": "nowhere.tgt"}, "nowhere.tgt cannot be read"),
        ({"--windows": "-1"}, "'-1' is no window"),
        ({"--windows": "some"}, "'some' is no window; give a number of phrases, 0 for off, or 'all'"),
    ],
)
def test_mistakes_are_one_sentence_and_status_2(tool, files, capsys, change, message):
    assert tool.main(arguments(files | change)) == 2
    error = capsys.readouterr().err
    assert error.startswith("window_study.py: error: ") and message in error and error.count("\n") == 1
    assert not files["--output"].exists()


def test_source_and_gold_of_different_lengths_are_refused(tool, files, capsys):
    write_lines(files["--gold"], GOLD[:2])
    assert tool.main(arguments(files, "--limit", "1")) == 2
    assert "test.tgt, line 3 is missing" in capsys.readouterr().err


def test_a_source_without_documents_is_refused(tool, files, capsys):
    write_lines(files["--src"], [])
    write_lines(files["--gold"], [])
    assert tool.main(arguments(files)) == 2
    assert "test.src has no lines" in capsys.readouterr().err


def test_a_file_in_place_of_the_folder_is_refused(tool, files, capsys):
    files["--output"].write_text("")
    assert tool.main(arguments(files)) == 2
    assert "give a folder that can be written with --output" in capsys.readouterr().err


def test_without_matplotlib_nothing_is_decoded(tool, files, capsys, monkeypatch):
    monkeypatch.setattr(tool.importlib.util, "find_spec", lambda name: None)
    assert tool.main(arguments(files)) == 2
    assert "pip install matplotlib" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--beams", "--batch-size", "--limit"])
def test_numbers_below_one_are_refused(tool, files, capsys, option):
    with pytest.raises(SystemExit, match="2"):
        tool.main(arguments(files, option, "0"))
    assert "'0' is not a whole number from 1 on" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"no checkpoint", {"weights": 1}, [1, 2]])
def test_a_file_that_is_no_checkpoint_is_refused(tool, files, capfd, content):
    if isinstance(content, bytes):
        files["--model"].write_bytes(content)
    else:
        torch.save(content, files["--model"])
    assert tool.main(arguments(files)) == 2
    message = capfd.readouterr().err.splitlines()[-1]
    assert re.match(r"window_study\.py: error: .*model\.pt (is no|cannot be loaded as a) checkpoint", message)


@pytest.fixture(scope="module")
def talkative(made: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that does not like to end."""
    checkpoint = load_harmless(made("exhird"))
    checkpoint["generator"]["bias"][checkpoint["vocab"]["tgt"].index(EOS)] -= 9
    path = tmp_path_factory.mktemp("talkative") / "talkative.pt"
    torch.save(checkpoint, path)
    return path


@pytest.fixture(scope="module")
def parrot(made: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has one opinion, whatever it reads: it likes one word best, a second next, and never to end."""
    checkpoint = load_harmless(made("exhird"))
    generator, vocab = checkpoint["generator"], checkpoint["vocab"]["tgt"]
    for tensor in generator.values():
        tensor.zero_()
    generator["gate_bias"].fill_(-30.0)
    generator["bias"].copy_(-torch.arange(len(vocab)) / 2)
    for token, liking in ((EOS, -90.0), (UNK, -80.0), (END, 9.0), (PRESENT, 9.0)):
        generator["bias"][vocab.index(token)] = liking
    path = tmp_path_factory.mktemp("parrot") / "parrot.pt"
    torch.save(checkpoint, path)
    return path


def test_a_wider_window_forbids_more_repetition(tool, parrot, workshop, tmp_path):
    files = {"--model": parrot, "--src": workshop / "test.src", "--gold": workshop / "test.tgt"}
    options = ("--windows", "0", "2", "all", "--beams", "1", "3", "--limit", "5")
    assert tool.main(arguments(files | {"--output": tmp_path / "out"}, *options)) == 0
    for beam in (1, 3):
        systems = [system for system in read_record(tmp_path / "out")["systems"] if system["beam"] == beam]
        # Of 20 phrases one is new, three are, all are.
        assert [system["dup_ratio"] for system in systems] == pytest.approx([19 / 20, 17 / 20, 0])


def test_a_model_is_searched_as_onmt_translate_does(tool, talkative, workshop, tmp_path, capfd):
    source = workshop / "test.src"
    files = {"--model": talkative, "--src": source, "--gold": workshop / "test.tgt", "--output": tmp_path / "out"}
    options = ("--windows", "0", "2", "all", "--beams", "1", "3", "--batch-size", "7")
    assert tool.main(arguments(files, *options)) == 0
    assert "[6/6] beam 3, K = all: decoding 23 documents took" in capfd.readouterr().err
    systems = {(system["beam"], system["window"]): system for system in read_record(tmp_path / "out")["systems"]}

    for (_, window), system in systems.items():
        if window == 0:
            continue
        for line in (tmp_path / "out" / system["predictions"]).read_text().splitlines():
            firsts = [phrase.words[0] for phrase in parse(line)]
            reach = len(firsts) if window == "all" else window
            assert all(word not in firsts[max(0, at - reach) : at] for at, word in enumerate(firsts))

    stock = tmp_path / "stock.pred"
    search = ("-beam_size", 3, "-exclusive_search", "-exclusive_window", 2)
    run_stock("onmt_translate", "-model", talkative, "-src", source, "-output", stock, *search, cwd=tmp_path)
    assert stock.read_text() == (tmp_path / "out" / systems[3, 2]["predictions"]).read_text()
