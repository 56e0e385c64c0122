"""Phrases read off a stream of pieces: words put together, where each stands, and what is left out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onmt_exhird.generator.documents import read_document
from onmt_exhird.generator.phrases import Raw, Reader, read_stream
from onmt_exhird.subwords import Subwords
from onmt_exhird.text import TextRules, stem, stem_words, tokenize
from onmt_exhird.textmodel import TextModel

GERMAN, CHINESE = TextRules("de", accents="keep"), TextRules("zh", accents="keep")
PIECES = Subwords("sentencepiece", "unigram", b"")  # reading a stream needs no tokeniser


def read(line: str, rules: TextRules, max_words: int = 5) -> list[Raw]:
    tokens = line.split()
    return list(read_stream(tokens, [-float(n) for n in range(len(tokens))], max_words, TextModel(rules, PIECES)))


def test_words_are_put_together_and_know_their_places() -> None:
    first, second = read("<p_start> ▁graph en ▁netz ; <a_start> ▁bäum e ; </s>", GERMAN)
    assert first[:2] == (("graphen", "netz"), 0) and second[:2] == (("bäume",), 5)
    assert first.places == ((1, 3), (3, 4)) and second.places == ((6, 8),)
    assert (first.first, second.first) == ("graphen", "bäume")
    assert math.log(first.score) == pytest.approx(-(1 + 2 + 3 + 4) / 4)


def test_the_end_of_a_phrase_of_pieces_was_predicted_at_the_limit_of_words_too() -> None:
    [raw] = read("<p_start> ▁graph en ; </s>", GERMAN, max_words=1)
    assert math.log(raw.score) == pytest.approx(-(1 + 2 + 3) / 3)


def test_without_blanks_exclusion_takes_a_piece_for_the_first_word() -> None:
    [raw] = read("<p_start> ▁图像 分类 ; </s>", CHINESE)
    assert raw.words == ("图像分类",) and raw.first == "图像"


@pytest.mark.parametrize(
    ("rules", "text", "pieces", "readable"),
    [
        (GERMAN, "Ein Fuchs", "▁fuch s ▁fuchs", None),
        (GERMAN, "Ein Fuchs, Fuchs", "▁fuch s ▁fuchs", None),  # the comma stands between
        (GERMAN, "Ein Fuchs Fuchs", "▁fuch s ▁fuchs", "fuchs fuchs"),
        (GERMAN, "Ein Fuchs", "▁fuchs fuchs", "fuchsfuchs"),
        (CHINESE, "图像", "▁分类 分类", None),
        (CHINESE, "分类分类", "▁分类 分类", "分类分类"),
        (CHINESE, "图像", "▁分类 分类 图", "分类分类图"),
        (CHINESE, "图像", "▁猩 猩", "猩猩"),  # an ape, which is one word
    ],
)
def test_a_word_said_twice_must_stand_in_the_document(
    rules: TextRules, text: str, pieces: str, readable: str | None
) -> None:
    [raw] = read(f"<a_start> {pieces} ; </s>", rules)
    found = Reader(read_document(text, rules), rules).keyphrase(raw)
    assert (found and found.text) == readable


@pytest.mark.parametrize(
    ("words", "has"),
    [
        ("interaction map", True),
        ("protein protein map", True),
        ("protein protein protein map", False),
        ("protein map map", False),
        ("map maps", False),  # one stem twice
        ("protein cost", False),
    ],
)
def test_a_document_has_a_word_twice_in_succession_only_where_it_says_so(words: str, has: bool) -> None:
    reader = Reader(read_document("A map of protein-protein interactions"))
    assert reader.has_all(stem_words(words.split())) == has


ODD = ["skies", "dying", "news", "innings", "ies", "oed", "s", "ss", "y", "ing", "<digit>", "'s", ".", "İİies", "ΣΊΣ"]


@given(st.one_of(st.sampled_from(ODD), st.text(min_size=1), st.from_regex(r"[a-y]{1,4}(ies|sses|ing|ed|ational|y)")))
def test_an_english_stem_begins_as_its_word_does(word: str) -> None:
    """Which finding phrases by stems relies on."""
    assert stem(word)[0] == word[0].lower()[0]


RULES = [TextRules(), TextRules(case="keep"), TextRules("de", case="keep", accents="keep"), TextRules("zh")]
WORDS = ["graph", "graphs", "Graphen", "häuser", "Haus", "grapes", "tree", "trees", "图像", "分类", "3"]


@pytest.mark.parametrize("rules", RULES, ids=["en", "en, case", "de", "zh"])
@given(data=st.data())
def test_phrases_are_found_wherever_their_stems_stand_one_after_the_other(
    rules: TextRules, data: st.DataObject
) -> None:
    text = " ".join(data.draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12)))
    phrase = tokenize(" ".join(data.draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))), rules)
    reader, wanted = Reader(read_document(text, rules), rules), stem_words(phrase, rules)
    stems = stem_words(reader.tokens, rules)
    expected = [place for place in range(len(stems)) if stems[place : place + len(wanted)] == wanted]
    assert reader.occurrences(wanted) == expected
