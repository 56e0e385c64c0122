"""Text of other languages: the choices of normalising, what words are compared by, hidden phrases."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird.corpus import Example, Rules, hide_phrases, make_example
from onmt_exhird.errors import ExhirdError
from onmt_exhird.languages import SNOWBALL, UNSPACED, note_on, stemmer, units
from onmt_exhird.stream import DIGIT
from onmt_exhird.text import CHOICES, TextRules, fold, stem_words, tokenize, tokenize_phrase, tokenize_with_spans

ALL_RULES = [TextRules(language, *choice) for language in ("de", "zh") for choice in product(*CHOICES.values())]
SIGNS = st.sampled_from([*"aZ9üÜßéØœ图像ガのไ é.,()[]'/<>3½… ", "'s", "<digit>", "ﬁ", "ｶﾞ", "3.5", "ẞ"])
TEXTS = st.lists(SIGNS | st.characters(), max_size=25).map("".join)


@settings(max_examples=60)
@given(TEXTS)
def test_whatever_is_chosen_tokenising_twice_changes_nothing_and_spans_stand_in_order(text: str) -> None:
    for rules in ALL_RULES:
        tokens = tokenize(text, rules)
        assert tokenize(" ".join(tokens), rules) == tokens
        phrase = tokenize_phrase(text, rules)
        assert tokenize_phrase(" ".join(phrase), rules) == phrase
        pairs = tokenize_with_spans(text, rules)
        assert [token for token, _ in pairs] == tokens
        assert all(0 <= start < end <= len(text) for _, (start, end) in pairs)
        assert all(first <= start and stop <= end for (_, (first, stop)), (_, (start, end)) in pairwise(pairs))


@pytest.mark.parametrize(
    ("rules", "tokens"),
    [
        (TextRules("de"), "uber strassen im jahr <digit>"),
        (TextRules("de", accents="keep"), "über straßen im jahr <digit>"),
        (TextRules("de", case="keep"), "Uber Strassen im Jahr <digit>"),
        (TextRules("de", case="keep", accents="keep", digits="keep"), "Über Straßen im Jahr 1984"),
    ],
)
def test_case_accents_and_digits_are_folded_or_kept(rules: TextRules, tokens: str) -> None:
    assert tokenize("Über Straßen im Jahr 1984", rules) == tokens.split()


def test_chinese_is_cut_at_punctuation_and_at_other_scripts_only() -> None:
    assert (
        tokenize("基于BERT的方法\uff0c用于3D图像。", TextRules("zh")) == "基于 bert 的方法 , 用于 <digit> 图像".split()
    )
    assert tokenize("基于BERT的方法") == ["基于bert的方法"]  # in a text that is English but for this


def test_words_are_compared_by_stems_of_their_language_whatever_case_and_accents_are() -> None:
    german = TextRules("de", case="keep", accents="keep")
    assert stem_words(["Häuser", "häusern", "Hauser"], german) == ("haus",) * 3
    assert stem_words(["Häuser"]) != stem_words(["haus"])  # Porter's knows nothing of it
    assert stem_words([DIGIT, "<sep>"], german) == (DIGIT, "<sep>")


def test_a_language_without_a_stemmer_has_folded_words_and_a_sentence() -> None:
    assert stem_words(["Mäuse", "Katzen"], TextRules("sw", case="keep", accents="keep")) == ("mause", "katzen")
    assert "no stemmer for the language 'sw'" in note_on("sw")
    assert not any(note_on(code) for code in ("en", *SNOWBALL, *UNSPACED))


def test_every_stemmer_that_is_named_exists() -> None:
    for code in SNOWBALL:
        assert stemmer(code)("a")


def test_a_stemmer_that_is_not_installed_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    with pytest.raises(ExhirdError, match=r"language 'de' needs snowballstemmer, .*: pip install snowballstemmer"):
        stemmer.__wrapped__("de")


@given(TEXTS)
def test_units_lose_nothing(text: str) -> None:
    assert "".join(units(text)) == text


@pytest.mark.parametrize(("code", "hint"), [("german", "give de"), ("Chinese", "give zh"), ("x", "ISO 639-1")])
def test_what_is_no_code_of_a_language_is_an_error_with_the_code(code: str, hint: str) -> None:
    with pytest.raises(ExhirdError, match=hint):
        TextRules(code)


def test_a_choice_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ExhirdError, match="case is 'upper'; it is one of fold, keep"):
        TextRules(case="upper")


def chinese_example(*keywords: str) -> Example:
    body = "我们提出一种图像分类方法\uff0c用于机器学习。"
    return make_example("论图像分类", body, keywords, Rules(text=TextRules("zh")), Counter())


def test_in_chinese_a_phrase_is_present_where_its_characters_stand() -> None:
    example = chinese_example("机器 学习", "深度学习", "图像分类", "分类")
    assert example.tgt_line == "<p_start> 图像分类 ; <p_start> 分类 ; <p_start> 机器 学习 ; <a_start> 深度学习 ;"


def test_in_chinese_the_same_characters_are_the_same_phrase_and_long_ones_are_left_out() -> None:
    removed: Counter[str] = Counter()
    rules = Rules(text=TextRules("zh"))
    example = make_example("图像", "", ["图像", "图 像", "图" * 25], rules, removed)
    assert example.tgt_line == "<p_start> 图像 ;"
    assert removed == {"empty or over 6 words": 1, "duplicate after stemming": 1}


def test_a_hidden_chinese_phrase_leaves_the_rest_of_its_run_together() -> None:
    example = chinese_example("图像分类")
    hidden = hide_phrases(example, example.phrases, TextRules("zh"))
    assert hidden.src == "论 <mask> <sep> 我们提出一种 <mask> 方法 , 用于机器学习".split()
    assert [phrase.tag for phrase in hidden.phrases] == ["<a_start>"]


def test_umlauts_are_letters_of_german_words_in_the_text_and_in_its_places() -> None:
    text = "Größenschätzung (GS) für Häuser"
    rules = TextRules("de", accents="keep")
    assert [text[start:end] for _, (start, end) in tokenize_with_spans(text, rules)] == text.replace(
        "(GS)", "( GS )"
    ).split()
    assert fold(text, rules) == text.lower()
