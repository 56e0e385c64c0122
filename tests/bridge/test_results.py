"""Buckets of documents, one after the other: the same lines, the same report, and nothing kept by the command."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onmt.bin import translate as command
from onmt.inference_engine import InferenceEnginePY
from onmt.translate import translator as upstream

from onmt_exhird.bridge import batches

Made = Callable[[str], Path]
NUMBER = r"-?\d+(?:\.\d+)?"
SEARCHES = {
    "greedy": ["-beam_size", "1"],
    "two of three beams": ["-beam_size", "3", "-n_best", "2"],
    "gold scores": ["-beam_size", "2", "-tgt", "test.tgt"],
}


def options(model: Path, *more: str) -> Namespace:
    files = ["-model", str(model), "-src", "test.src", "-output", "out.txt"]
    return command._get_parser().parse_args([*files, "-batch_size", "4", *more])


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the translator says."""
    said: list[str] = []
    monkeypatch.setattr(upstream.Translator, "_log", lambda self, message: said.append(message))
    return said


@pytest.fixture
def returned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[Any], list[Any]]]:
    """What the inference engine gives to whoever called it."""
    found: list[tuple[list[Any], list[Any]]] = []
    infer = InferenceEnginePY._translate
    monkeypatch.setattr(InferenceEnginePY, "_translate", lambda *args: found.append(infer(*args)) or found[-1])
    return found


def test_the_command_keeps_no_result_and_a_caller_gets_all(
    workshop: Path, made: Made, monkeypatch: pytest.MonkeyPatch, returned: list[tuple[list[Any], list[Any]]]
) -> None:
    model = made("exhird")
    monkeypatch.chdir(workshop)
    monkeypatch.setattr(batches, "_SORTED", 5)
    command.translate(options(model))
    written = Path("out.txt").read_text().splitlines()
    assert returned == [([], [])]

    opt = options(model)
    command.ArgumentParser.validate_translate_opts(opt)
    command.ArgumentParser._get_all_transform_translate(opt)
    command.ArgumentParser.validate_translate_opts_dynamic(opt)
    scores, predictions = InferenceEnginePY(opt).infer_file()
    assert [best for best, *_ in predictions] == written
    assert len(scores) == len(written) > 10


@pytest.mark.parametrize("search", SEARCHES)
def test_buckets_change_neither_lines_nor_report(
    search: str, workshop: Path, made: Made, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    model = made("exhird")
    monkeypatch.chdir(workshop)
    calls = []
    stock = upstream.Translator.__mro__[2]  # after what is put before it
    translate = stock._translate
    monkeypatch.setattr(stock, "_translate", lambda *args, **kw: calls.append(1) or translate(*args, **kw))
    outputs, reports = [], []
    for size in (5, 4096):
        monkeypatch.setattr(batches, "_SORTED", size)
        log.clear()
        command.translate(options(model, *SEARCHES[search]))
        outputs.append(Path("out.txt").read_text())
        kinds = 1 + ("-tgt" in SEARCHES[search])
        reports.append(log[-kinds:])
    assert outputs[0] == outputs[1] != ""
    for ours, theirs in zip(*reports, strict=True):  # documents beside others are rounded otherwise
        assert re.sub(NUMBER, "", ours) == re.sub(NUMBER, "", theirs)
        assert list(map(float, re.findall(NUMBER, ours))) == pytest.approx(
            list(map(float, re.findall(NUMBER, theirs))), rel=1e-4
        )
    assert bool(reports[0]) == (search != "greedy")  # of which nobody sees the scores
    documents = len(Path("test.src").read_text().splitlines())
    assert len(calls) == -(-documents // 5) + 1


@pytest.mark.parametrize("option", ["-verbose", "-report_time"])
def test_what_counts_over_everything_is_done_at_once(
    option: str, workshop: Path, made: Made, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    monkeypatch.chdir(workshop)
    monkeypatch.setattr(batches, "_SORTED", 5)
    command.translate(options(made("exhird"), option))
    documents = len(Path("test.src").read_text().splitlines())
    if option == "-verbose":
        assert re.findall(r"SENT (\d+):", "".join(log)) == [str(n) for n in range(1, documents + 1)]
    else:
        assert "".join(log).count("Total translation time") == 1
