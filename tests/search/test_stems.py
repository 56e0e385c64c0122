"""Stem classes against comparing stems."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird.search.stems import NO_WORD, SPLIT, StemTable
from onmt_exhird.text import stem

VOCABULARY = ["tree", "graph", "graphs", "sorted", "graphing", "sorting", "heap"]
UNKNOWN = [["zeta", "heaps", "zetas", "eta"], [], ["omega", "a/b", "trees", "a/b c"]]
WIDTH = max(map(len, UNKNOWN))
TABLE = StemTable(VOCABULARY)
OOV = TABLE.out_of_vocabulary(UNKNOWN)


def known(row: int) -> list[str]:
    return VOCABULARY + UNKNOWN[row]


def test_words_of_one_stem_and_no_others_are_of_one_class() -> None:
    for row in range(len(UNKNOWN)):
        words = known(row)
        classes = TABLE.classes_of(torch.arange(len(words)).unsqueeze(0), OOV[row : row + 1])[0].tolist()
        for one, word in enumerate(words):
            for other, second in enumerate(words):
                if "/" not in word + second:
                    assert (classes[one] == classes[other]) == (stem(word) == stem(second))
        assert [number == SPLIT for number in classes] == ["/" in word for word in words]


@settings(max_examples=50)
@given(st.data())
def test_all_words_of_some_classes_are_found(data: st.DataObject) -> None:
    chosen = [data.draw(st.lists(st.integers(-1, len(known(row)) - 1), min_size=3, max_size=3)) for row in range(3)]
    found = TABLE.ids_of(TABLE.classes_of(torch.tensor(chosen), OOV), OOV)
    assert found.shape == (3, 3 * 3 + WIDTH)
    for row, ids in enumerate(found.tolist()):
        words = known(row)
        stems = {"/" if "/" in words[index] else stem(words[index]) for index in chosen[row] if index != NO_WORD}
        same = {number for number, word in enumerate(words) if ("/" if "/" in word else stem(word)) in stems}
        assert set(ids) - {NO_WORD} == same


def test_documents_without_unknown_words_have_a_column_too() -> None:
    assert TABLE.out_of_vocabulary([[], []]).tolist() == [[NO_WORD], [NO_WORD]]
    assert TABLE.out_of_vocabulary([["zeta"], []]).tolist() == [[TABLE.size], [NO_WORD]]
    assert TABLE.out_of_vocabulary([]).tolist() == []
    assert NO_WORD != SPLIT and max(NO_WORD, SPLIT) < 0


def test_words_of_which_nothing_is_known_have_no_class() -> None:
    ids = torch.arange(len(VOCABULARY), len(VOCABULARY) + 5).unsqueeze(0)
    assert TABLE.classes_of(ids, torch.tensor([[NO_WORD]])).tolist() == [[NO_WORD] * 5]
