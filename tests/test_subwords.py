"""Subword models: words come back, markers stay whole, the same words give the same bytes; they go with the data."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import load_tool
from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird.cli import main
from onmt_exhird.errors import ExhirdError
from onmt_exhird.subwords import MARK, MARKERS, TOKENIZERS, TYPES, Subwords, continues, count_words, join, train
from onmt_exhird.text import TextRules, tokenize
from onmt_exhird.textmodel import FILE, TextModel, beside, read_text_model

WORDS = Counter(
    dict.fromkeys(
        "graph graphs graphical net nets network networks learning earning unsupervised unlabelled".split(), 9
    )
    | dict.fromkeys("图像分类 图像 分类 häuser größe für , ( ) . 's <".split(), 5)
)
MODELS = {(tokenizer, kind): train(WORDS, 70, tokenizer, kind) for tokenizer in TOKENIZERS for kind in TYPES}
each_model = pytest.mark.parametrize("subwords", MODELS.values(), ids=map("-".join, MODELS))
TEXTS = st.text(st.sampled_from("graphsnetuü图像, ☃ß(") | st.characters(), max_size=30)


@each_model
@given(text=TEXTS)
@settings(deadline=None, max_examples=100)
def test_words_come_back_whatever_they_are(subwords: Subwords, text: str) -> None:
    for rules in (TextRules(), TextRules("zh", case="keep", accents="keep", digits="keep")):
        words = tokenize(text, rules)
        pieces = subwords.cut(words)
        assert join(pieces) == words
        assert sum(not continues(piece) for piece in pieces) == len(words)
        assert MARK not in pieces


@each_model
def test_structure_tokens_and_markers_are_never_cut(subwords: Subwords) -> None:
    for marker in MARKERS:
        assert subwords.cut(["graph", marker, "graph"])[1:-1].count(marker) == 1


@each_model
def test_the_same_words_in_any_order_give_the_same_bytes(subwords: Subwords) -> None:
    again = Counter(dict(reversed(WORDS.items())))
    assert train(again, 70, subwords.tokenizer, subwords.kind) == subwords


@each_model
def test_words_have_several_pieces_and_frequent_ones_are_shared(subwords: Subwords) -> None:
    assert len(subwords.cut(["nethäuser"])) > 1
    assert len(subwords.cut(["graph"])) < len("graph")


@each_model
def test_it_pickles_and_goes_through_json(subwords: Subwords) -> None:
    assert pickle.loads(pickle.dumps(subwords)).cut(["graphs"]) == subwords.cut(["graphs"])
    text = TextModel(TextRules("de", case="keep"), subwords)
    assert TextModel.from_json(text.to_json()) == text
    assert TextModel.of(text.config(), subwords.model) == text


@each_model
def test_a_vocabulary_of_words_or_of_another_model_does_not_fit(subwords: Subwords) -> None:
    subwords.check_fits({piece for word in WORDS for piece in subwords.cut([word])} | MARKERS)
    for vocabulary in (WORDS, ["▁zebra", "▁quagga", "zzz", *MARKERS]):
        with pytest.raises(ExhirdError, match=r"does not fit the vocabulary: .* build the vocabulary with"):
            subwords.check_fits(vocabulary)


def test_a_piece_that_goes_on_with_nothing_begins_a_word() -> None:
    assert join(["s", "<p_start>", "s", "x", "<digit>", "s", ";"]) == ["s", "<p_start>", "sx", "<digit>", "s", ";"]


def test_too_few_pieces_are_an_error_that_says_how_many_characters_there_are() -> None:
    with pytest.raises(ExhirdError, match=r"--subwords 9 is fewer .* characters \(\d+\): give more"):
        train(WORDS, 9, "sentencepiece", "unigram")
    with pytest.raises(ExhirdError, match="no words"):
        train(count_words(["<p_start> ;", ""]), 9, "pyonmttok", "bpe")


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"language": 3}', '{"text_rules": 99}', '{"colour": "red"}'])
def test_a_damaged_text_model_is_an_error_that_names_the_file(tmp_path: Path, damage: str) -> None:
    (tmp_path / FILE).write_text(damage)
    with pytest.raises(ExhirdError, match=rf"{FILE} is no {FILE} of exhird prepare"):
        read_text_model(tmp_path / FILE)


def test_an_altered_subword_model_is_noticed(tmp_path: Path) -> None:
    plain = json.loads(TextModel(subwords=MODELS["pyonmttok", "bpe"]).to_json())
    plain["subwords"]["model"] = "AAAA"
    (tmp_path / FILE).write_text(json.dumps(plain))
    with pytest.raises(ExhirdError, match="missing or was altered"):
        beside(tmp_path / "train.src")
    with pytest.raises(ExhirdError, match="there is no file"):
        read_text_model(tmp_path / "none.json")


def test_bytes_that_are_no_model_are_an_error() -> None:
    with pytest.raises(ExhirdError, match="cannot be read by sentencepiece"):
        Subwords("sentencepiece", "unigram", b"nothing").cut(["graph"])
    with pytest.raises(ExhirdError, match="is unknown: there are sentencepiece, pyonmttok"):
        Subwords("spacy", "unigram", b"")


# --- exhird prepare --------------------------------------------------------------------------------------------


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
