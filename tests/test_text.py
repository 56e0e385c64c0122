"""The tokeniser and the stemmer."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird.stream import DIGIT, SEPARATOR, STRUCTURE, UNK
from onmt_exhird.text import find_run, fold, stem, stem_words, tokenize, tokenize_phrase, tokenize_with_spans

# Text of any kind, rich in the signs that the rules are about.
ANY_TEXT = st.lists(
    st.one_of(st.text(max_size=5), st.sampled_from([*"abcS019 .,'()[]{}<>_-/;", DIGIT, UNK, SEPARATOR, *STRUCTURE]))
).map("".join)
few = settings(max_examples=150)


def is_linear(function: Callable[[str], object], texts: tuple[str, str]) -> bool:
    """Whether the second text, eight times as long, takes less than three times as long by the character.

    In quadratic time it would take eight times as long. Each is timed thrice, since other programs may run beside.
    """

    def seconds(text: str) -> float:
        begun = time.process_time()
        function(text)
        return time.process_time() - begun

    short, long = (min(seconds(text) for _ in range(3)) for text in texts)
    return long < 3 * 8 * short


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        ("Neural Networks", "neural networks"),
        ("state-of-the-art and/or 50% off", f"state of the art and or {DIGIT} off"),
        ("seen before [1, 2] {see [3] there} by us", "seen before by us"),
        ("an unclosed [bracket", "an unclosed bracket"),
        ("f(x) < 3", f"f ( x ) < {DIGIT}"),
        ("1,000.5 or .05 or 3d or 2nd_try", f"{DIGIT} or {DIGIT} or {DIGIT} or {DIGIT}"),
        ("between 3 4 and 5-6", f"between {DIGIT} and {DIGIT}"),
        ("h2o and snake_case", "h2o and snake_case"),
        ("Bayes' rule, Zorn's lemma.", "bayes ' rule , zorn 's lemma ."),
        ('a; b: c! d? "e" f*g', "a b c d e f g"),
        (f"kept {UNK} {DIGIT} {SEPARATOR}", f"kept {UNK} {DIGIT} {SEPARATOR}"),
        ("", ""),
        (" \n\t", ""),
    ],
)
def test_a_document_is_cut_as_the_reference_says(raw: str, tokens: str) -> None:
    assert tokenize(raw) == tokens.split()


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        ("Support Vector Machine (SVM)", "support vector machine"),
        ("What is a graph?", "what is a graph"),
        ("trees (of (nested) kinds) [2]", "trees"),
        ("client/server", "client server"),
        ("(only this)", ""),
    ],
)
def test_a_keyphrase_loses_what_is_in_parentheses(raw: str, tokens: str) -> None:
    assert tokenize_phrase(raw) == tokens.split()


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("Gödel", "godel"),
        ("Poincare\u0301", "poincare"),
        ("ﬁnite", "finite"),
        ("Erdős-Rényi", "erdos-renyi"),
        ("Jørgensen, Łukasiewicz, Gauß", "jorgensen, lukasiewicz, gauss"),
        ("Zorn\u2019s", "zorn's"),
        ("net\u00adwork", "network"),
    ],
)
def test_folding_keeps_a_word_whole(raw: str, plain: str) -> None:
    assert fold(raw) == plain


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        ("L'apprentissage profond à l'école", "l ' apprentissage profond a l ' ecole"),
        ("Глубокое обучение: нейронные сети (ё)", "глубокое обучение нейронные сети ( ё )"),
        ("Βαθιά «μάθηση»", "βαθιά μάθηση"),
        ("تعلم عميق، ١٢ شبكة", f"تعلم عميق {DIGIT} شبكة"),
        ("गहन शिक्षण", "गहन शिक्षण"),
        ("Học sâu đa ngôn ngữ", "hoc sau da ngon ngu"),
        ("β-carotene — 5 µm", f"β carotene {DIGIT} μm"),
    ],
)
def test_words_of_every_script_stay_whole(raw: str, tokens: str) -> None:
    assert tokenize(raw) == tokens.split()
    assert tokenize(tokens) == tokens.split()


@few
@given(st.text(st.characters(min_codepoint=0x80)))
def test_what_is_not_ascii_is_letters_and_marks_only(text: str) -> None:
    folded = fold(text)
    assert fold(folded) == folded
    assert all(sign.isascii() or unicodedata.category(sign)[0] in "LM" for sign in folded)


@few
@given(ANY_TEXT)
def test_tokenising_what_is_tokenised_changes_nothing(text: str) -> None:
    tokens = tokenize(text)
    assert tokenize(" ".join(tokens)) == tokens


@few
@given(ANY_TEXT)
def test_a_tokenised_keyphrase_stays_as_it_is(text: str) -> None:
    tokens = tokenize_phrase(text)
    assert tokenize_phrase(" ".join(tokens)) == tokens


@few
@given(ANY_TEXT)
def test_tokens_are_plain_and_never_part_of_the_grammar(text: str) -> None:
    for token in tokenize(text):
        letter = r"a-z_\u0080-\U0010ffff"
        assert token in (UNK, DIGIT, SEPARATOR) or re.fullmatch(rf"[{letter}][{letter}0-9]*|'s|[<>,().']", token)
        assert token not in STRUCTURE


@few
@given(ANY_TEXT)
def test_digits_never_stand_side_by_side(text: str) -> None:
    tokens = tokenize(text)
    assert (DIGIT, DIGIT) not in list(pairwise(tokens))


@few
@given(ANY_TEXT)
def test_no_stem_is_empty_or_has_a_blank(text: str) -> None:
    assert all(stem(token).split() == [stem(token)] for token in tokenize(text))


@pytest.mark.parametrize(
    ("word", "expected"),
    [("networks", "network"), ("studies", "studi"), ("ties", "tie"), ("Sky", "sky"), (DIGIT, DIGIT)],
)
def test_the_stemmer_is_porters_with_the_usual_extensions(word: str, expected: str) -> None:
    assert stem(word) == expected


def test_stem_words_keeps_order_and_number() -> None:
    assert stem_words(["graphs", "a", "trees"]) == ("graph", "a", "tree")


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(["a", "b", "ab"]), max_size=9),
    st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=4),
)
def test_find_run_equals_looking_at_every_word(words: list[str], run: list[str]) -> None:
    places = [i for i in range(len(words)) if words[i : i + len(run)] == run]
    expected = sum(len(word) + 1 for word in words[: places[0]]) if places else -1
    assert find_run(" ".join(words), " ".join(run)) == expected


@pytest.mark.parametrize("text", ["a", ""])
def test_nothing_is_found_nowhere(text: str) -> None:
    assert find_run(text, "") == -1


@pytest.mark.parametrize(("opening", "closing"), ["[]", "{}", "()"])
@pytest.mark.parametrize("depth", [1, 19, 20, 21, 100, 50_000])
def test_nested_brackets_are_deleted_or_separate_words(opening: str, closing: str, depth: int) -> None:
    raw = f"graph {f'{opening}a ' * depth}deep{closing * depth} tree"
    tokens = tokenize_phrase(raw)
    assert {*tokens} <= {"graph", "a", "tree"}
    assert len(tokens) == 2 + max(0, depth - 20)
    assert tokenize_phrase(" ".join(tokens)) == tokens


def test_parentheses_of_a_document_stay_however_deep_its_brackets_are() -> None:
    assert tokenize(f"f (x) {'[' * 30}{']' * 30}") == ["f", "(", "x", ")"]


# Signs with which offsets go wrong: marks in any order, ligatures, signs that become several or none, other scripts.
HARD_SIGNS = [
    *"aé e\u0301\u0316\u0591\u0338\u00ad\u200d",
    *"ﬁßæ…㏂½⑴№ﷺ²\u03a3\u03c3\u03c2",
    *"한\u1100\u1161\u11a8ㅎㅏか\u3099ि\u0b47\u0b3e",
    *"ת\u0623\u0661\uff12",
    *"\ud800\udfff\x00\ufeff😀👩🏽",
    *"[]{}()<>.,'-\u2013 \n0123sS",
    DIGIT,
    UNK,
    SEPARATOR,
]
HARD_TEXT = st.lists(st.one_of(st.sampled_from(HARD_SIGNS), st.characters(), st.text(max_size=4))).map("".join)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("State-of-the-art (SOTA)", "State of the art ( SOTA )"),
        ("Caf\u00e9 cafe\u0301s, e\u0301", "Caf\u00e9 cafe\u0301s , e\u0301"),
        ("ﬁnite eﬃcient Gauß", "ﬁnite eﬃcient Gauß"),
        ("net\u00adwork \u00adnet\u00ad", "net\u00adwork net\u00ad"),
        ("on 3D, 50% of 10", "on 3D , 50 of 10"),
        ("x<digit>y 3<4", "x <digit> y 3 < 4"),
        ("cited [1, [2]] here {and} there", "cited here there"),
        ("Zorn\u2019s “lemma”", "Zorn \u2019s lemma"),
        ("Глубокое обучение: ёё", "Глубокое обучение ёё"),
        ("למידה עמוקה، \u200fشبكة", "למידה עמוקה شبكة"),
        ("한국어 \u1112\u1161\u11ab x", "한국어 \u1112\u1161\u11ab x"),
        ("deep😀graph\ud800\x00tree", "deep graph tree"),
        ("a…b", "a … … … b"),
        ("a \u0591\u0338 b \u0338\u0591", "a \u0591\u0338 b \u0338\u0591"),  # marks of no letter
    ],
)
def test_a_span_is_what_a_reader_would_mark(text: str, marked: str) -> None:
    assert [text[start:end] for _, (start, end) in tokenize_with_spans(text)] == marked.split(" ")


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("from 3 4\u20135 to 6", ["from", "3 4\u20135", "to", "6"]),
        ("1 2 3", ["1 2 3"]),
        ("3 [5] 4 {x} 5 and 6 7", ["3", "and", "6 7"]),
        ("a 1 2, 3 b", ["a", "1 2", ",", "3", "b"]),
    ],
)
def test_a_run_of_numbers_has_one_span_which_holds_no_bracket(text: str, marked: list[str]) -> None:
    assert [text[start:end] for _, (start, end) in tokenize_with_spans(text)] == marked


@settings(max_examples=500)
@given(HARD_TEXT)
def test_tokens_with_spans_are_the_tokens_and_stand_in_order_inside_the_text(text: str) -> None:
    pairs = tokenize_with_spans(text)
    assert [token for token, _ in pairs] == tokenize(text)
    spans = [span for _, span in pairs]
    assert all(0 <= start < end <= len(text) for start, end in spans)
    for (first, stop), (start, end) in pairwise(spans):
        assert first <= start and stop <= end
        # Only a character that becomes several is part of more than one token.
        assert stop <= start or (stop - 1 == start and len(unicodedata.normalize("NFKD", text[start])) > 1)


def same_sigma(token: str) -> str:
    return token.replace("\N{GREEK SMALL LETTER FINAL SIGMA}", "\N{GREEK SMALL LETTER SIGMA}")


@settings(max_examples=500)
@given(HARD_TEXT)
def test_what_a_span_covers_gives_the_token_again(text: str) -> None:
    pairs = tokenize_with_spans(text)
    shared = {place for (_, (_, stop)), (_, (start, _)) in pairwise(pairs) for place in range(start, stop)}
    for token, (start, end) in pairs:
        if shared.isdisjoint(range(start, end)):
            # What is alone ends a word, so a sigma may have the form of a last letter.
            assert [same_sigma(piece) for piece in tokenize(text[start:end])] == [same_sigma(token)]


def test_every_character_that_folding_changes_keeps_its_place() -> None:
    changed = [sign for sign in map(chr, range(0x30000)) if fold(f"a{sign}") != f"a{sign}"]
    for sign in changed[::7]:
        text = f"(x{sign}y)"
        (opening, (_, before)), *inner, (closing, (after, _)) = tokenize_with_spans(text)
        assert [opening, *(token for token, _ in inner), closing] == tokenize(text)
        assert (before, after) == (1, 4)


@pytest.mark.parametrize(
    "piece", ["ё" * 20, "a\u0301" * 10, "1 [2] 3 x 1 [2] 3 x ", "ё1 2, ё1 2, ё1 2, ", "[é [é [é [é [é [é "]
)
def test_long_texts_take_linear_time(piece: str) -> None:
    assert is_linear(tokenize_with_spans, (piece * 1250, piece * 10_000))


@pytest.mark.parametrize(("opening", "closing"), ["[]", "{}", "()"])
def test_deep_brackets_take_linear_time(opening: str, closing: str) -> None:
    assert is_linear(tokenize_phrase, tuple(f"{f'{opening}a ' * depth}{closing * depth}" for depth in (6250, 50_000)))
