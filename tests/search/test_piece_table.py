"""What is known of pieces, by itself: numbers, tables, what is remembered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from onmt_exhird.search import pieces
from onmt_exhird.search.pieces import LONGEST, POWERS, Kind, Pieces, PieceTable, Spelling, fingerprint, signed

TOKENS = ["<unk>", "<blank>", "<s>", "</s>", "<p_start>", "<a_start>", ";", "▁<", "digit", ">", "<digit>"]


def make_table(asked: list[str] | None = None) -> PieceTable:
    """Words are compared by their first letter; what is asked for is written down."""

    def key(words: Sequence[str]) -> list[str]:
        if asked is not None:
            asked.append(" ".join(words))
        return [word[0] for word in words]

    return PieceTable(TOKENS, range(1, 7), False, key, "cpu")


def test_numbers_are_those_that_torch_can_hold() -> None:
    highest = (1 << 63) - 1
    assert [signed(number) for number in (highest, highest + 1, -1)] == [highest, -highest - 1, -1]


def test_characters_have_the_numbers_of_splitmix64() -> None:
    """Those that its authors' program gives first when it begins with 0."""
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [fingerprint(character) for character in "\0\1\2"] == [signed(number) for number in published]


def test_kinds_are_numbered_as_is_said() -> None:
    assert [kind.name for kind in Kind if kind % 2] == ["BEGINS", "WHOLE"]
    assert [kind.name for kind in Kind if kind % 4 == 0] == ["STRUCTURE", "TAG"]


def test_whole_words_are_found_by_what_they_spell_or_are_compared_by() -> None:
    table, unknown, digit = make_table(), TOKENS.index("<unk>"), TOKENS.index("<digit>")
    by_values = table.whole_words(by_keys=False)
    assert by_values == {int(table.vocabulary.values[index]): [index] for index in (unknown, digit)}
    assert table.whole_words(by_keys=True) == {hash("<"): [unknown, digit]}


def test_a_long_piece_counts_as_one_character() -> None:
    long = "▁" + "x" * (LONGEST - 1)  # with the blank before it
    described = make_table().out_of_vocabulary([[long, long + "x"]], split=False)
    assert described[0, :, 1].tolist() == [64, 1]


def test_no_pieces_spell_a_marker() -> None:
    table = make_table()
    values, lengths = table.look_up(np.array([[4, 7, 8, 9]]), None, "values", "lengths")
    run = Spelling(values, lengths).runs(np.array([1]), np.array([4]))
    assert run == fingerprint(" <digit>") and run != table.vocabulary.values[TOKENS.index("<digit>")]


def test_documents_with_fewer_pieces_of_their_own_are_filled_up_with_structure() -> None:
    table = make_table()
    described = table.out_of_vocabulary([["▁a", "▁a/b"], []], split=True)
    assert described.shape == (2, 2, 4) and described[0, 0, 2] == Kind.BEGINS
    assert not described[0, 1].any() and not described[1].any()


@pytest.mark.parametrize("words", [[], [[]]])
def test_there_is_always_room_for_one(words: list[list[str]]) -> None:
    described = make_table().out_of_vocabulary(words, split=True)
    assert described.shape == (len(words), 1, 4) and described.dtype == torch.long


def test_what_words_are_compared_by_is_asked_once_and_forgotten_when_it_is_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pieces, "REMEMBERED", 2)
    asked: list[str] = []
    table = make_table(asked)
    asked.clear()  # of the vocabulary's own whole words
    values, lengths = table.look_up(np.array([[4, 7, 8, 4, 7, 9, 4, 7]]), None, "values", "lengths")  # < digit, < >, <

    def look(first: int, last: int) -> int:
        run = np.array([first]), np.array([last + 1])
        return int(table.keys_of(Spelling(values, lengths).runs(*run), values.ravel(), *run)[0])

    look(1, 2), look(4, 5), look(1, 2)
    assert asked == ["<digit", "<>"]
    look(7, 7)
    look(1, 2)  # three were remembered
    assert asked == ["<digit", "<>", "<", "<digit"]
    assert look(1, 2) == look(4, 5) == hash("<")


def test_what_is_looked_up_is_what_is_known_of_each_document_s_own_pieces() -> None:
    table = make_table()
    own = [["▁a", "b", "▁c", "d", "▁e", "f", "▁<unk"], ["g"]]
    described = table.out_of_vocabulary(own, split=False)
    pieces = Pieces.of(described, np.array([1, 0]))
    sequence = len(TOKENS) + np.arange(7)[None].repeat(2, 0)
    sequence[0, 1:] = 7
    values, kinds = table.look_up(sequence, pieces, "values", "kinds")
    assert values[1].tolist() == described[0, :, 0].tolist() and values[0, 0] == described[1, 0, 0]
    assert kinds[1].tolist() == described[0, :, 2].tolist() and kinds[0, 0] == Kind.CONTINUES
    assert (values[0, 1:] == table.vocabulary.values[7]).all() and (kinds[0, 1:] == Kind.BEGINS).all()


def test_copied_pieces_of_which_nothing_is_known_are_no_error() -> None:
    (kinds,) = make_table().look_up(np.array([[4, len(TOKENS) + 2]]), None, "kinds")
    assert kinds.shape == (1, 2)


def test_a_hypothesis_with_too_many_characters_is_no_error() -> None:
    values, lengths = np.array([[5, 7, 9, 11]]), np.array([[1, POWERS, 9, 9]])
    assert Spelling(values, lengths).runs(np.array([1]), np.array([2])).tolist() == [7]
