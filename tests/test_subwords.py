"""Subword models: words come back, markers stay whole, the same words give the same bytes."""

from __future__ import annotations

import json
import pickle
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
@settings(max_examples=100)
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


@each_model
def test_a_tokeniser_that_is_not_installed_is_asked_for(subwords: Subwords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, subwords.tokenizer, None)
    with pytest.raises(ExhirdError, match=rf"a subword model needs {subwords.tokenizer}, .*: pip install"):
        pickle.loads(pickle.dumps(subwords)).cut(["graph"])
