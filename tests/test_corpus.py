"""The rules that make an example of a document, each by itself and all together."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from helpers.files import SHARED
from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird.corpus import (
    Example,
    Filtered,
    Rules,
    Unusable,
    drop_unknown,
    join_source,
    make_example,
    order_phrases,
    read_vocabulary,
    split_keywords,
    target_length,
    usable_phrase,
    within_limits,
)
from onmt_exhird.errors import ExhirdError
from onmt_exhird.stream import ABSENT, DIGIT, PRESENT, SEPARATOR, UNK, Phrase, parse
from onmt_exhird.text import stem_words, tokenize

CORPORA = SHARED / "data"
NO_RULES = Rules(max_source=0, max_target=0)
WORDS = st.sampled_from(["graph", "graphs", "tree", "trees", "net", "network", "a"])
PHRASES = st.lists(st.lists(WORDS, min_size=1, max_size=3), max_size=7)
some = settings(max_examples=150)


def texts(phrases: list[Phrase]) -> list[str]:
    return [phrase.text for phrase in phrases]


def test_title_and_body_are_kept_apart_by_the_separator() -> None:
    assert join_source("A Graph", "Trees.") == ["a", "graph", SEPARATOR, "trees", "."]


@pytest.mark.parametrize(("title", "body"), [("A graph", ""), ("", "A graph"), ("[1]", "A graph"), ("A graph", " - ")])
def test_one_part_alone_has_no_separator(title: str, body: str) -> None:
    assert join_source(title, body) == ["a", "graph"]


def test_no_keyphrase_is_found_across_title_and_body() -> None:
    phrases = order_phrases(join_source("About trees", "Graphs are drawn"), [["trees", "graphs"], ["graphs", "are"]])
    assert [(phrase.text, phrase.tag) for phrase in phrases] == [("graphs are", PRESENT), ("trees graphs", ABSENT)]


@pytest.mark.parametrize(
    ("text", "keywords"), [("a;b ; c d", ["a", "b", "c d"]), (";; a;", ["a"]), ("", []), ("a, b", ["a, b"])]
)
def test_a_string_of_keyphrases_is_cut_at_semicolons(text: str, keywords: list[str]) -> None:
    assert split_keywords(text) == keywords


@pytest.mark.parametrize(
    ("words", "usable"),
    [
        ("a b c d e f", True),
        ("a b c d e f g", False),
        ("", False),
        (". ,", False),
        (DIGIT, True),
        ("o ' brien", True),
        (f"a {SEPARATOR} b", False),
        (f"a {UNK}", False),
    ],
)
def test_a_keyphrase_has_one_to_six_words_and_no_marker(words: str, usable: bool) -> None:
    assert usable_phrase(words.split()) is usable


def test_present_keyphrases_come_by_first_occurrence_then_absent_ones_as_given() -> None:
    source = ["networks", "of", "trees", "and", "graphs", "of", "trees"]
    phrases = order_phrases(source, [["zoo"], ["graph"], ["ant"], ["tree"], ["network"]])
    assert texts(phrases) == ["network", "tree", "graph", "zoo", "ant"]
    assert [phrase.tag for phrase in phrases] == [PRESENT] * 3 + [ABSENT] * 2


def test_of_two_that_begin_at_one_word_the_longer_comes_first() -> None:
    assert texts(order_phrases(["a", "b", "c"], [["a"], ["a", "b", "c"], ["a", "b"]])) == ["a b c", "a b", "a"]


def test_duplicates_by_stem_are_removed_and_the_first_form_stays() -> None:
    assert texts(order_phrases(["graph"], [["graphs"], ["trees"], ["graph"], ["tree"]])) == ["graphs", "trees"]


def test_a_part_of_a_word_is_no_match() -> None:
    phrases = order_phrases(["subgraph", "x"], [["graph"], ["graph", "x"]])
    assert [phrase.tag for phrase in phrases] == [ABSENT, ABSENT]


@some
@given(st.lists(WORDS, max_size=9), PHRASES)
def test_ordering_equals_the_obvious_slow_way(source: list[str], phrases: list[list[str]]) -> None:
    stems = stem_words(source)
    first: dict[tuple[str, ...], list[str]] = {}
    for words in phrases:
        first.setdefault(stem_words(words), words)
    places = {key: [i for i in range(len(stems)) if stems[i : i + len(key)] == key] for key in first}
    present = sorted((key for key in first if places[key]), key=lambda key: (places[key][0], -len(key)))
    absent = [key for key in first if not places[key]]
    expected = [Phrase(tuple(first[key]), PRESENT) for key in present]
    expected += [Phrase(tuple(first[key]), ABSENT) for key in absent]
    assert order_phrases(source, phrases) == expected


@some
@given(st.lists(WORDS, max_size=9), PHRASES, st.randoms())
def test_the_order_of_present_keyphrases_does_not_depend_on_the_order_given(
    source: list[str], phrases: list[list[str]], random: Random
) -> None:
    def present(given: list[list[str]]) -> list[tuple[str, ...]]:
        return [stem_words(phrase.words) for phrase in order_phrases(source, given) if phrase.tag == PRESENT]

    assert present(random.sample(phrases, len(phrases))) == present(phrases)


def test_only_absent_keyphrases_without_any_known_word_are_dropped() -> None:
    phrases = [
        Phrase(("zorn",), PRESENT),
        Phrase(("zorn", "lemma"), ABSENT),
        Phrase(("source", "zorn"), ABSENT),
        Phrase(("zorn", "zermelo"), ABSENT),
    ]
    assert drop_unknown(["source"], phrases, {"lemma"}) == phrases[:3]


def test_a_target_counts_tags_and_semicolons() -> None:
    line = "<p_start> a b ; <a_start> c ;"
    assert target_length(parse(line)) == len(line.split()) == 7


@pytest.mark.parametrize(("source", "phrases", "within"), [(400, 26, True), (401, 26, False), (400, 27, False)])
def test_400_source_and_80_target_tokens_are_allowed_and_no_more(source: int, phrases: int, within: bool) -> None:
    example = Example(["w"] * source, [Phrase(("w", "w"), PRESENT)] + [Phrase(("w",), PRESENT)] * (phrases - 1))
    assert target_length(example.phrases) == 3 * phrases + 1
    assert within_limits(example) is within


def test_a_limit_of_nothing_is_no_limit() -> None:
    assert within_limits(Example(["w"] * 999, [Phrase(("w",), PRESENT)] * 99), 0, 0)


def test_an_example_is_two_lines() -> None:
    example = make_example("Graph Trees (2nd ed.)", "We cut 3 trees.", ["Roots", "TREE", "graphs"], Rules(), Counter())
    assert example.src_line == f"graph trees ( {DIGIT} ed . ) {SEPARATOR} we cut {DIGIT} trees ."
    assert example.tgt_line == "<p_start> graphs ; <p_start> tree ; <a_start> roots ;"


@pytest.mark.parametrize(
    ("title", "body", "keywords", "kind", "detail"),
    [
        ("", " [1] ", ["graph"], "empty document", "no words"),
        ("Graph", "", [], "no keyphrases", "it has no keyphrases"),
        ("Graph", "", ["(x)", "a b c d e f g"], "no keyphrases", "1 to 6 words"),
    ],
)
def test_a_document_that_gives_nothing_says_why(
    title: str, body: str, keywords: list[str], kind: str, detail: str
) -> None:
    with pytest.raises(Unusable, match=detail) as caught:
        make_example(title, body, keywords, NO_RULES, Counter())
    assert caught.value.kind == kind and not isinstance(caught.value, Filtered)


@pytest.mark.parametrize(
    ("rules", "kind"),
    [
        (Rules(max_source=2), "too long"),
        (Rules(max_target=2), "too long"),
        (Rules(vocabulary=frozenset({"tree"})), "only unknown keyphrases"),
    ],
)
def test_a_document_that_a_rule_leaves_out_is_not_called_bad(rules: Rules, kind: str) -> None:
    with pytest.raises(Filtered) as caught:
        make_example("A long graph", "", ["zorn"], rules, Counter())
    assert caught.value.kind == kind
    assert texts(make_example("A long graph", "", ["zorn"], Rules(), Counter()).phrases) == ["zorn"]


def test_keyphrases_left_out_are_counted_by_reason() -> None:
    removed: Counter[str] = Counter()
    rules = Rules(vocabulary=frozenset({"tree"}))
    make_example("Graphs", "", ["graph", "Graphs", "(none)", "a b c d e f g", "zorn", "tree"], rules, removed)
    assert removed == {"empty or over 6 words": 2, "duplicate after stemming": 1, "absent and unknown": 1}


def test_a_vocabulary_is_read_with_or_without_counts(tmp_path: Path) -> None:
    path = tmp_path / "vocab"
    path.write_text("<unk>\ngraph\t17\n\ntree\n", encoding="utf-8")
    assert read_vocabulary(path) == {"<unk>", "graph", "tree"}


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "cannot be read"), (b"\xff\xfe", "not UTF-8"), (b"\n", "no tokens")]
)
def test_a_vocabulary_that_cannot_be_used_is_refused(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "vocab"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ExhirdError, match=reason):
        read_vocabulary(path)


@pytest.mark.skipif(not CORPORA.exists(), reason="the corpora are not here")
@pytest.mark.parametrize(
    ("name", "present", "absent"), [("kp20k_small", 3.25, 1.97), ("inspec", 7.82, 1.98), ("krapivin", 3.3, 2.55)]
)
def test_real_corpora_have_the_counts_found_by_another_program(name: str, present: float, absent: float) -> None:
    tags: Counter[str] = Counter()
    with gzip.open(CORPORA / name / "test.jsonl.gz", "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    for record in records:
        example = make_example(record["title"], record["abstract"], record["keywords"], NO_RULES, Counter())
        assert tokenize(example.src_line) == example.src
        tags.update(phrase.tag for phrase in example.phrases)
    # That program deletes no brackets and keeps longer phrases, so not to the last digit.
    assert tags[PRESENT] / len(records) == pytest.approx(present, rel=0.03)
    assert tags[ABSENT] / len(records) == pytest.approx(absent, rel=0.03)
