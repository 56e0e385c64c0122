"""The phrases of hypotheses made of pieces, as they are read; and how little is read and stemmed for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from onmt_exhird.search import SearchSettings, piece_constraint, piece_phrases
from onmt_exhird.search.phrases import StreamIds
from onmt_exhird.search.piece_constraint import PieceConstraint
from onmt_exhird.search.piece_phrases import NEAR, OpenPhrases, Phrases
from onmt_exhird.search.pieces import Array, PieceTable, fingerprint
from onmt_exhird.text import TextRules, stem_words

TOKENS = "<unk> <blank> <s> </s> <p_start> <a_start> ; ▁un like s ▁tree <digit>".split()
IDS = StreamIds.find(TOKENS)


def rows_of(*lines: str) -> Array:
    """Ids (rows, length), each row's at the right end after padding, as greedy search has them."""
    rows = [["<s>", *line.split()] for line in lines]
    width = max(map(len, rows))
    return np.array([[TOKENS.index(token) for token in ["<blank>"] * (width - len(row)) + row] for row in rows])


def make_table(unspaced: bool = False) -> PieceTable:
    return PieceTable(TOKENS, set(IDS), unspaced, lambda words: [word[:2] for word in words], "cpu")


def read_open(*lines: str) -> OpenPhrases:
    inside = np.array([not line.endswith("start>") for line in lines])
    return OpenPhrases(rows_of(*lines), inside, None, make_table())


def test_open_phrases_are_read_from_their_last_tag_on() -> None:
    closed = "<p_start> ▁tree ▁tree ;"
    opened = "<p_start> ▁un", f"{closed} <a_start> ▁un like", f"{closed} <p_start> ▁un ▁tree s s"
    found = read_open("<p_start>", *opened, "<p_start> <digit>")
    assert found.words.tolist() == [0, 1, 1, 2, 1]
    assert found.length.tolist()[1:] == [1, 2, 3, 1]
    assert found.whole.tolist() == [False, False, False, False, True]
    assert found.in_first.tolist() == [False, True, True, False, False]


def test_a_whole_word_before_the_tag_is_not_of_the_phrase() -> None:
    assert not read_open("<digit> <p_start>").whole.any()


def test_phrases_are_one_list_of_all_rows() -> None:
    table = make_table()
    lines = "<p_start> ▁un like ▁tree ; <a_start> <digit> ; <p_start>", "<p_start> ▁tree s"
    found = Phrases(rows_of(*lines), None, table, IDS)
    assert found.row.tolist() == [0, 0, 0, 1] and found.back.tolist() == [2, 1, 0, 0]
    assert found.open.tolist() == [2, 2, 2, 3] and found.words.tolist() == [2, 1, 0, 1]
    digit = int(table.vocabulary.values[TOKENS.index("<digit>")])
    firsts, whole = found.first_words.numbers.tolist(), found.whole.numbers.tolist()
    assert [firsts[0], firsts[1], firsts[3]] == [fingerprint(" unlike"), digit, fingerprint(" trees")]
    assert whole == [fingerprint(" unlike tree"), digit, 0, fingerprint(" trees")]
    assert found.earlier(None).tolist() == [True, True, False, False]
    assert found.earlier(1).tolist() == [False, True, False, False]
    assert found.with_open(np.array([True, False, False, False])).tolist() == [True, False, True, False]


def test_a_tag_at_the_end_is_of_its_row_however_many_rows_there_are() -> None:
    assert Phrases(rows_of(*["<p_start>"] * 6), None, make_table(), IDS).row.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("unspaced", [False, True])
@pytest.mark.parametrize(
    ("line", "repeats"),
    [
        ("<p_start> ▁un ▁tree ; <p_start> ▁un like ▁tree s", True),
        ("<p_start> ▁un ▁tree ; <p_start> ▁tree ▁tree", False),
        ("<p_start> ▁un ▁tree ; <p_start> ▁un ▁un", False),
        ("<p_start> ▁un ▁tree ; <p_start> ▁un", False),
        ("<p_start> ▁un ; <p_start> ▁tree ; <p_start> ▁un s", True),
    ],
)
def test_a_phrase_repeats_an_earlier_one_by_what_all_its_words_are_compared_by(
    line: str, repeats: bool, unspaced: bool
) -> None:
    rows = Phrases(rows_of("<p_start> ▁tree", line), None, make_table(unspaced), IDS).repeated()
    assert rows.tolist() == ([1] if repeats else [])


@pytest.mark.parametrize(
    ("lines", "widths"),
    [
        (["<p_start> ▁un ; " * 16 + "<p_start> ▁un", "<p_start> ▁tree"], [48]),  # one has just begun
        (["<p_start> ▁un ; " * 16 + "<p_start> ▁un", f"<p_start> ▁tree ; <p_start> ▁un{' s' * 46}"], [48, 52]),
        (["<p_start> ▁un ; " * 15 + "<p_start> ▁un"], [48]),  # no more than that
        ([" ; ".join([f"<p_start> ▁un{' s' * 20}"] * 3)], [48]),  # two phrases, as many as are wanted
    ],
)
def test_the_last_phrases_are_found_near_the_end_or_in_the_whole(
    lines: list[str], widths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    class Noting(Phrases):
        def __init__(self, sequence: Array, *args: Any) -> None:
            read.append(sequence.shape[1])
            super().__init__(sequence, *args)

    monkeypatch.setattr(piece_phrases, "Phrases", Noting)
    found = read_open(*lines).phrases(np.arange(len(lines)), IDS, 2)
    assert NEAR == 24 and read == widths
    assert found.row[found.back == 0].tolist() == list(range(len(lines)))


def test_rows_without_a_phrase_which_only_fill_a_beam_are_no_error() -> None:
    many = "<p_start> ▁un ; " * 16 + "<p_start> ▁un"
    assert read_open(many, many, "▁un").phrases(np.arange(3), IDS, 2).have(2).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("<p_start> ▁tree ▁un ; <p_start> ▁tree", []),  # has fewer words
        ("<p_start> ▁tree ▁un ; <p_start> ▁un ▁tree s", ["tree", "un"]),  # begins otherwise
        ("<p_start> ▁tree ▁un ; <p_start> ▁tree ▁un s", ["tree", "tree un", "tree uns"]),
    ],
)
def test_open_words_are_stemmed_only_where_the_phrase_may_still_repeat_an_earlier_one(
    line: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    constraint = PieceConstraint(TOKENS, SearchSettings(exclude_phrases=True), TextRules())
    found: list[str] = []

    def noting(words: Sequence[str], rules: TextRules) -> tuple[str, ...]:
        found.append(" ".join(words))
        return stem_words(words, rules)

    monkeypatch.setattr(piece_constraint, "stem_words", noting)
    constraint.apply(torch.zeros(1, len(TOKENS)), torch.from_numpy(rows_of(line)))
    assert found == asked
