"""What is known of pieces, by itself: numbers, tables, what is remembered."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from onmt_exhird.search import pieces
from onmt_exhird.search.pieces import LONGEST, POWERS, Index, Kind, PieceTable, fingerprint, signed

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


def test_an_index_of_nothing_finds_nothing() -> None:
    index = Index(torch.tensor([], dtype=torch.long), torch.tensor([4, 5]))
    assert index.find(torch.tensor([[4, 5]]), filler=1).tolist() == [[1, 1]]
    assert index.one_of_each.tolist() == []


def test_a_long_piece_counts_as_one_character() -> None:
    long = "▁" + "x" * (LONGEST - 1)  # with the blank before it
    described = make_table().out_of_vocabulary([[long, long + "x"]], split=False)
    assert described[0, :, 1].tolist() == [64, 1]


def test_no_pieces_spell_a_marker() -> None:
    table = make_table()
    spelt = table.look_up(torch.tensor([[7, 8, 9]]), None)
    run = table.runs(spelt, torch.tensor([[2, 2, 2]]))[0, 0]
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
    found = table.look_up(torch.tensor([[4, 7, 8, 4, 7, 9, 4, 7]]), None)  # < digit, < >, <

    def look(first: int, end: int) -> int:
        run = table.runs(found, torch.full((1, 8), end))[:, first]
        return int(table.keys_of(run, found, torch.tensor([[0, first]]), torch.tensor([end])))

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
    sequence = len(TOKENS) + torch.arange(7).repeat(2, 1)
    sequence[1, 1:] = 7
    found = table.look_up(sequence, described)
    assert torch.stack(found, 2)[0].equal(described[0]) and found.values[1, 0] == described[1, 0, 0]
    assert table.kinds_of(sequence, described).equal(found.kinds.to(torch.int8))
    assert found.values[1, 1:].eq(table.vocabulary.values[7]).all()


def test_a_hypothesis_with_too_many_characters_is_no_error() -> None:
    table = make_table()
    found = table.look_up(torch.tensor([[7, 7, 7]]), None)._replace(lengths=torch.tensor([[POWERS, 9, 9]]))
    assert table.runs(found, torch.tensor([[0, 1, 2]]))[0, 0] == table.vocabulary.values[7]
