"""The recipes with subwords and other languages: which commands they would run, and what they refuse."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from helpers.files import RECIPES

RECIPE = RECIPES / "custom" / "run.sh"
FILES = [part for split in ("train", "valid", "test") for part in (f"--{split}", f"{split}.jsonl")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.jsonl").write_text("{}\n")
    return tmp_path


def dry_run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(RECIPE), *FILES, "--output", "run", "--dry-run", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def commands(folder: Path, *options: str) -> list[str]:
    done = dry_run(folder, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


TEXT = "-transforms keyphrase -keyphrase_text text.json"


def test_subwords_are_trained_with_the_training_split_and_used_by_what_follows(folder: Path) -> None:
    found = commands(folder, "--subwords", "8000", "--tokenizer", "pyonmttok", "--language", "de")
    prepared = [line for line in found if line.startswith("exhird prepare")]
    assert len(prepared) == 3 and all("--language=de" in line for line in prepared)
    with_subwords = [line for line in prepared if "--subwords=8000 --tokenizer=pyonmttok" in line]
    assert len(with_subwords) == 1 and "--split train" in with_subwords[0] and "--vocab" not in with_subwords[0]
    [counted] = [line for line in found if "onmt_build_vocab" in line]
    [trained] = [line for line in found if "onmt_train" in line]
    assert TEXT in counted and TEXT in trained and "-src_vocab_size 16007" in trained
    assert not any("keyphrase_text" in line for line in found if line.startswith(("onmt_translate", "exhird evaluate")))


def test_a_language_alone_goes_with_words(folder: Path) -> None:
    found = commands(folder, "--language", "fr", "--case", "keep")
    assert sum("--language=fr --case=keep" in line for line in found) == 4  # words are prepared for counting, too
    assert [line for line in found if "onmt_train" in line and TEXT in line]
    assert not any(TEXT in line for line in found if "onmt_build_vocab" in line)  # the files hold words


def test_without_a_choice_nothing_is_said_of_text(folder: Path) -> None:
    assert not any("keyphrase" in line.replace("keyphrases", "") or "language" in line for line in commands(folder))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--tokenizer", "pyonmttok"], "--tokenizer says how to train subwords: add --subwords N"),
        (["--subwords", "many"], "--subwords takes a whole number from 1 on, not 'many'"),
    ],
)
def test_what_cannot_be_is_said(folder: Path, options: list[str], sentence: str) -> None:
    done = dry_run(folder, *options)
    assert done.returncode == 2 and sentence in done.stderr
