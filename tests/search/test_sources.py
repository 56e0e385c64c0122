"""The documents of a search, and some of them."""

from __future__ import annotations

import torch

from onmt_exhird.search.sources import Sources

SOURCES = Sources(
    torch.tensor([[7, 8, 9, 0, 0], [7, 1, 1, 1, 1], [9, 8, 7, 1, 1]]),
    torch.tensor([5, 1, 3]),
    torch.tensor([[7, 8, 9, 11, 12], [7, 1, 1, 1, 1], [9, 8, 7, 1, 1]]),
    [["zeta", "eta"], [], []],
)


def test_some_documents_are_in_the_order_asked_for_and_no_wider_than_they_need() -> None:
    some = SOURCES.some(torch.tensor([2, 1]))
    assert some.ids.tolist() == [[9, 8, 7], [7, 1, 1]]
    assert some.extended.tolist() == [[9, 8, 7], [7, 1, 1]]
    assert some.lengths.tolist() == [3, 1]
    assert some.words == [[], []]
    assert SOURCES.some(torch.tensor([0])).words == [["zeta", "eta"]]


def test_there_are_as_many_extended_ids_as_the_document_with_most_unknown_words_needs() -> None:
    assert SOURCES.extended_size(11) == 13
    assert SOURCES.some(torch.tensor([1, 2])).extended_size(11) == 11
    nothing = torch.empty(0, 0, dtype=torch.long)
    assert Sources(nothing, nothing.flatten(), nothing, []).extended_size(11) == 11
