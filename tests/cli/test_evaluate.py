"""``exhird evaluate`` as a command."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

import pytest
from helpers.files import ROOT

from onmt_exhird.cli import evaluate as verb
from onmt_exhird.errors import ExhirdError

FILES = {
    "x.src": "a b c\nb c d\nc d e\n",
    "x.gold": "<p_start> a ; <a_start> z ;\nb ; c ; y\nc\n",
    "base.pred": "a ; b\nb ; y ; y\nd\n",
    "seed1.pred": "a ; z\nb ; c\nc ; c\n",
    "seed2.pred": "a ; z\nb\nc ; d\n",
    "seed3.pred": "a\nb ; c\nc ; d\n",
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*options: str, src: str = "x.src", gold: str = "x.gold") -> None:
    parser = argparse.ArgumentParser()
    verb.add_parser(parser.add_subparsers())
    args = parser.parse_args(["evaluate", "--src", src, "--gold", gold, *options])
    assert args.run(args) == 0


def test_several_systems_stand_in_one_table(files, capsys):
    run("--pred", "base.pred", "--pred", "seed1.pred", "seed2.pred")
    table = capsys.readouterr().out.split("\n\n")[1].splitlines()
    assert [line.split()[0] for line in table[4:7]] == ["base.pred", "seed1.pred", "seed2.pred"]


def test_files_of_the_same_name_are_told_apart(files, capsys):
    (files / "other").mkdir()
    (files / "other" / "base.pred").write_text(FILES["seed1.pred"])
    run("--pred", "base.pred", "other/base.pred", "seed1.pred", "--format", "json")
    names = [system["name"] for system in json.loads(capsys.readouterr().out)["systems"]]
    assert names == ["base.pred", "other/base.pred", "seed1.pred"]


@pytest.mark.parametrize("seeds", [["seed*.pred"], ["seed1.pred", "seed2.pred", "seed3.pred"]])
def test_seeds_as_files_or_as_a_glob(files, capsys, seeds):
    run("--seeds", *seeds, "--format", "json")
    (system,) = json.loads(capsys.readouterr().out)["systems"]
    assert system["runs"] == 3
    assert system["standard_deviation"]["present"]["F1@M"] > 0


def test_seeds_are_printed_with_a_subscript(files, capsys):
    run("--pred", "base.pred", "--seeds", "seed*.pred")
    row = next(line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("seed*.pred"))
    assert all("_" in cell for cell in row.split()[1:])


def test_confidence_compares_with_the_first_system(files, capsys):
    run("--pred", "base.pred", "seed1.pred", "--confidence", "--resamples", "50")
    shown = capsys.readouterr().out
    assert "against base.pred" in shown and "paired-bootstrap:50" in shown


def test_per_document_says_what_was_right_wrong_and_missed(files, capsys):
    run("--pred", "base.pred", "--seeds", "seed*.pred", "--per-document", "details.jsonl")
    records = [json.loads(line) for line in (files / "details.jsonl").read_text().splitlines()]
    assert len(records) == 4 * 3
    assert (records[1]["system"], records[1]["line"]) == ("base.pred", 2)
    assert records[1]["duplicates"] == ["y"]
    assert records[1]["present"]["missed"] == ["c"]
    assert records[0]["present"]["right"] == ["a"] and records[0]["present"]["wrong"] == ["b"]
    assert records[-1]["system"] == "seed*.pred run 3"


def test_json_lines_go_through_the_tokeniser_and_the_signature_says_so(files, capsys):
    (files / "x.jsonl").write_text(
        json.dumps(
            {"title": "Graph-Theory", "abstract": "Trees.", "keywords": ["graph theory"], "pred": ["GRAPH theory"]}
        )
    )
    run("--pred", "x.jsonl", "--format", "json", src="x.jsonl", gold="x.jsonl")
    result = json.loads(capsys.readouterr().out)
    assert "|raw:gold+pred+src|" in result["signature"]
    assert result["systems"][0]["present"]["F1@M"] == 1.0


@pytest.mark.parametrize(
    "options, message",
    [
        ([], "give predictions with --pred or --seeds"),
        (["--pred", "none.pred"], "none.pred cannot be read"),
        (["--pred", "short.pred"], "short.pred, line 3 is missing: short.pred has 2 lines, x.src has 3"),
        (["--seeds", "seed1.pred"], "give at least two"),
        (["--seeds", "none*"], "fits no file"),
        (["--pred", "base.pred", "--per-document", "no/where"], "no/where cannot be written"),
    ],
)
def test_mistakes_are_told_in_one_sentence(files, options, message):
    (files / "short.pred").write_text("a\nb\n")
    with pytest.raises(ExhirdError, match=message):
        run(*options)


def test_gold_of_another_length_is_an_error_with_file_and_line(files):
    (files / "long.gold").write_text("a\n" * 4)
    with pytest.raises(ExhirdError, match=r"long.gold, line 4 belongs to no document"):
        run("--pred", "base.pred", gold="long.gold")


@pytest.mark.parametrize("option, value", [("--convention", "bleu"), ("--paper", "duc"), ("--format", "xml")])
def test_unknown_choices_end_with_the_valid_ones(files, capsys, option, value):
    with pytest.raises(SystemExit) as exit_:
        run("--pred", "base.pred", option, value)
    assert exit_.value.code == 2
    assert value in capsys.readouterr().err


def test_raw_sources_are_warned_about(files, capsys):
    (files / "raw.src").write_text("Graphs, trees\nA, b\nc\n")
    run("--pred", "base.pred", src="raw.src")
    assert "raw.src has commas at the end of words" in capsys.readouterr().err


def test_nothing_is_written_to_stderr_when_it_is_no_terminal(files, capsys):
    run("--pred", "base.pred", "--confidence", "--resamples", "5")
    assert capsys.readouterr().err == ""


def test_torch_and_opennmt_are_not_imported(files):
    program = """
import argparse, sys
from onmt_exhird.cli import evaluate as verb
parser = argparse.ArgumentParser()
verb.add_parser(parser.add_subparsers())
args = parser.parse_args(sys.argv[1:])
assert args.run(args) == 0
assert not {"torch", "onmt"} & set(sys.modules)
"""
    inputs = ["--src", "x.src", "--gold", "x.gold", "--pred", "base.pred", "seed1.pred"]
    options = [*inputs, "--confidence", "--resamples", "5", "--paper", "kp20k"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program, "evaluate", *options], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
