"""Where a hypothesis stands, in vocabularies and hypotheses that are out of the ordinary."""

from __future__ import annotations

import torch

from onmt_exhird.search import SearchSettings, State
from onmt_exhird.search.phrases import StreamIds
from onmt_exhird.search.states import StateReader


def names(reader: StateReader, *rows: list[int]) -> list[str]:
    return [State(state).name for state in reader(torch.tensor(rows)).tolist()]


def test_structure_tokens_may_be_the_last_of_the_vocabulary() -> None:
    reader = StateReader(StreamIds(pad=0, start=1, eos=2, present=5, absent=6, end=7), 8, SearchSettings(), 20)
    assert names(reader, [1, 5, 3, 7], [1, 5, 3, 4], [1, 6, 8, 9], [1, 5, 3, 2]) == [
        "EITHER",
        "INSIDE",
        "INSIDE",
        "CLOSE",
    ]


def test_more_phrases_than_permitted_end_the_stream() -> None:
    """A beam may keep such a row to fill its places."""
    reader = StateReader(StreamIds(pad=1, start=2, eos=3, present=4, absent=5, end=6), 9, SearchSettings(), 2)
    assert names(reader, [2, 4, 7, 6, 6, 6, 6], [2, 4, 7, 6, 4, 7, 6], [2, 4, 7, 7, 7, 7, 6]) == [
        "CLOSE",
        "CLOSE",
        "EITHER",
    ]
