"""``exhird prepare`` with subwords and other languages: what is written beside the data, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.files import load_tool

from onmt_exhird.cli import main
from onmt_exhird.subwords import MARK, TOKENIZERS, join
from onmt_exhird.text import TextRules
from onmt_exhird.textmodel import FILE, beside


def prepare(folder: Path, language: str, split: str, *options: object) -> int:
    records = load_tool("make_corpus").make_split(1, split, 60, language)
    path = folder / f"{split}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    arguments = ["prepare", "--input", path, "--output", folder / "data", "--split", split, "--jobs", "1", *options]
    return main([str(argument) for argument in arguments])


@pytest.mark.parametrize("language", ["de", "zh"])
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_prepare_writes_words_and_beside_them_the_model_that_cuts_them(
    tmp_path: Path, capsys: Any, language: str, tokenizer: str
) -> None:
    options = ("--language", language, "--subwords", 250, "--tokenizer", tokenizer)
    assert prepare(tmp_path, language, "train", *options) == 0
    assert f"pieces of {tokenizer} ({TOKENIZERS[tokenizer]})" in capsys.readouterr().out
    data = tmp_path / "data"
    written = (data / FILE).read_bytes()
    text = beside(data / "train.src")
    assert text.rules == TextRules(language, accents="keep") and text.subwords is not None
    for line in (data / "train.tgt").read_text().splitlines():
        assert MARK not in line
        assert join(text.cut(line.split())) == line.split()
    assert prepare(tmp_path, language, "valid") == 0  # by the same rules, without a word about them
    assert (data / FILE).read_bytes() == written
    assert any("ü" in line or "像" in line for line in (data / "valid.src").read_text().splitlines())
    assert prepare(tmp_path, language, "train", *options) == 0
    assert (data / FILE).read_bytes() == written


def test_a_folder_has_one_language(tmp_path: Path, capsys: Any) -> None:
    assert prepare(tmp_path, "de", "valid", "--language", "de", "--case", "keep") == 0
    assert prepare(tmp_path, "de", "test", "--language", "fr") == 2
    assert "--language is fr, but" in capsys.readouterr().err
    assert prepare(tmp_path, "de", "train", "--subwords", 250) == 0
    text = beside(tmp_path / "data" / "train.src")
    assert text.rules == TextRules("de", case="keep", accents="keep") and text.subwords is not None


def test_without_a_choice_there_is_no_text_model(tmp_path: Path) -> None:
    assert prepare(tmp_path, "en", "train") == 0
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["train.src", "train.tgt"]


@pytest.mark.parametrize(
    ("split", "options", "sentence"),
    [
        ("valid", ["--subwords", "100"], "'valid' is no training split"),
        ("train", ["--subwords", "0"], "--subwords 0 are none"),
        ("train", ["--tokenizer", "pyonmttok"], "--tokenizer says how to train subwords: add --subwords N"),
        ("train", ["--subword-type", "bpe"], "--subword-type says how"),
        ("train", ["--subwords", "9"], "fewer pieces than the documents have different characters"),
        ("train", ["--language", "german"], "'german' is no code of a language: give de"),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, capsys: Any, split: str, options: list[str], sentence: str) -> None:
    assert prepare(tmp_path, "en", split, *options) == 2
    assert sentence in capsys.readouterr().err


def test_a_language_without_a_stemmer_is_said(tmp_path: Path, capsys: Any) -> None:
    assert prepare(tmp_path, "en", "train", "--language", "sw") == 0
    assert "no stemmer for the language 'sw'" in capsys.readouterr().err
