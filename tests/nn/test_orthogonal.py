"""Orthogonal regularisation: the Frobenius norm in loops."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird.nn.orthogonal import orthogonal_loss


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), batch=st.integers(1, 4), length=st.integers(1, 7))
def test_the_orthogonal_loss_is_the_frobenius_norm_in_loops(seed: int, batch: int, length: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(batch, length, 3, generator=generator, dtype=torch.float64)
    chosen = torch.rand(batch, length, generator=generator) < 0.5
    losses = orthogonal_loss(hidden, chosen)
    for row in range(batch):
        states = [hidden[row, t].tolist() for t in range(length) if chosen[row, t]]
        squares = 0.0
        for i, first in enumerate(states):
            for j, second in enumerate(states):
                product = sum(a * b for a, b in zip(first, second, strict=True))
                squares += (product - (i == j)) ** 2
        assert losses[row].item() == pytest.approx(math.sqrt(squares))


def test_the_orthogonal_loss_of_a_document_without_phrases_is_zero_with_a_finite_gradient() -> None:
    hidden = torch.randn(2, 3, 4, requires_grad=True)
    losses = orthogonal_loss(hidden, torch.tensor([[False] * 3, [True, False, True]]))
    losses.sum().backward()
    assert losses[0] == 0 and hidden.grad[0].eq(0).all()
    assert torch.isfinite(hidden.grad).all() and hidden.grad[1, 0].abs().sum() > 0


def test_orthonormal_states_have_no_orthogonal_loss() -> None:
    hidden = torch.eye(4).unsqueeze(0)
    assert orthogonal_loss(hidden, torch.ones(1, 4, dtype=torch.bool)).item() == 0
