"""The review: equal to its equation in loops, and nothing before the first state."""

from __future__ import annotations

import torch
from helpers.nn_reference import HIDDEN
from helpers.sequential_reference import slow_review, with_large_weights
from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird.nn.review import Review


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), batch=st.integers(1, 3), steps=st.integers(1, 5))
def test_it_is_an_attention_of_the_last_state_over_all(seed: int, batch: int, steps: int) -> None:
    review = with_large_weights(Review(HIDDEN), seed)
    states = torch.randn(batch, steps, HIDDEN, dtype=torch.float64)
    reviewed = review(states)
    for row in range(batch):
        torch.testing.assert_close(reviewed[row], slow_review(review, list(states[row])))


def test_it_is_nothing_before_the_first_state() -> None:
    assert torch.equal(Review(HIDDEN)(torch.randn(3, 0, HIDDEN)), torch.zeros(3, HIDDEN))
