"""The grammar of the stream."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird import stream
from onmt_exhird.stream import (
    ABSENT,
    END,
    PRESENT,
    STRUCTURE,
    TAGS,
    Phrase,
    StreamError,
    parse,
    read_leniently,
    render,
)

WORDS = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1).filter(
    lambda word: END not in word and word not in STRUCTURE
)
PHRASES = st.lists(
    st.builds(Phrase, st.lists(WORDS, min_size=1, max_size=5).map(tuple), st.sampled_from(TAGS)), max_size=7
)
quick = settings(max_examples=100)


@quick
@given(PHRASES)
def test_parse_reads_what_render_writes(phrases: list[Phrase]) -> None:
    assert parse(render(phrases)) == phrases


@quick
@given(PHRASES)
def test_the_lenient_reader_agrees_with_the_strict_one_on_streams(phrases: list[Phrase]) -> None:
    assert read_leniently(render(phrases)) == phrases


@quick
@given(st.text())
def test_the_lenient_reader_never_fails_and_gives_no_empty_phrase(line: str) -> None:
    texts = [phrase.text for phrase in read_leniently(line)]
    assert all(text and text == " ".join(text.split()) for text in texts)


def test_every_phrase_is_closed_also_the_last() -> None:
    assert render([Phrase(("a", "b"), PRESENT), Phrase(("c",), ABSENT)]) == "<p_start> a b ; <a_start> c ;"


def test_an_empty_line_is_an_empty_stream() -> None:
    assert parse("") == [] == parse("  \n")
    assert render([]) == ""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("graph ;", "token 1 is 'graph'"),
        ("<p_start> graph", "not closed"),
        ("<p_start> ;", "token 2 closes a phrase that has no words"),
        ("<p_start> a <a_start> b ;", "token 3 is the tag <a_start> inside a phrase"),
        ("<p_start> a ; ;", "token 4 is ';'"),
        ("<p_start> a ; </s>", "token 4 is '</s>'"),
    ],
)
def test_what_is_no_stream_is_refused_with_position_and_reason(line: str, reason: str) -> None:
    with pytest.raises(StreamError, match=reason):
        parse(line)


@pytest.mark.parametrize(
    ("line", "phrases"),
    [
        ("a b ; c", ["a b", "c"]),
        ("a;;c ;", ["a", "c"]),
        ("<p_start> a <a_start> b ;", ["a b"]),
        ("<p_start> ; <a_start>", []),
        ("", []),
    ],
)
def test_any_output_line_gives_its_phrases(line: str, phrases: list[str]) -> None:
    assert [phrase.text for phrase in read_leniently(line)] == phrases


def test_a_phrase_without_a_tag_has_an_empty_one() -> None:
    assert [phrase.tag for phrase in read_leniently("a ; <a_start> b ; c <p_start> d")] == ["", ABSENT, ""]


def test_tokens_are_spelt_as_in_files_and_vocabularies_that_exist() -> None:
    assert (stream.UNK, stream.PAD, stream.BOS, stream.EOS) == ("<unk>", "<blank>", "<s>", "</s>")
    assert (stream.DIGIT, stream.SEPARATOR, stream.MASK) == ("<digit>", "<sep>", "<mask>")
    assert STRUCTURE == ("<p_start>", "<a_start>", ";")
