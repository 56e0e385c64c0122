"""Coverage: equal to its equation, position by position."""

from __future__ import annotations

import torch
from helpers.nn_reference import HIDDEN
from helpers.sequential_reference import slow_coverage, with_large_weights
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from onmt_exhird.nn.coverage import Coverage


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), batch=st.integers(1, 3), src_len=st.integers(1, 7))
def test_each_position_is_moved_by_what_it_has_received(seed: int, batch: int, src_len: int) -> None:
    cover = with_large_weights(Coverage(HIDDEN), seed)
    states = torch.randn(batch, src_len, HIDDEN, dtype=torch.float64)
    coverage = torch.rand(batch, src_len, dtype=torch.float64)
    covered = cover(states, coverage)
    for row in range(batch):
        torch.testing.assert_close(list(covered[row]), slow_coverage(cover, states[row], coverage[row]))


def test_it_acts_through_its_weight_alone() -> None:
    cover = Coverage(HIDDEN)
    nn.init.zeros_(cover.weight)
    states = torch.randn(3, 5, HIDDEN)
    torch.testing.assert_close(cover(states, torch.full((3, 5), 7.0)), torch.tanh(states))


def test_no_coverage_is_none() -> None:
    cover = with_large_weights(Coverage(HIDDEN), 2)
    states = torch.randn(3, 5, HIDDEN, dtype=torch.float64)
    torch.testing.assert_close(cover(states, torch.zeros(3, 5, dtype=torch.float64)), torch.tanh(states))
