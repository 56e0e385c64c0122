"""One step of catSeq: equal to its equations in loops."""

from __future__ import annotations

import pytest
import torch
from helpers.nn_reference import HIDDEN
from helpers.sequential_reference import slow_step, with_large_weights
from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird.nn.catseq import CatSeqStep
from onmt_exhird.nn.hierarchical import Memory


def inputs(seed: int, lengths: list[int]) -> tuple[torch.Tensor, Memory, torch.Tensor, torch.Tensor]:
    """x (batch, 5), a memory, h and h~ (batch, d)."""
    torch.manual_seed(seed)
    batch = len(lengths)
    states = torch.randn(batch, max(lengths), HIDDEN, dtype=torch.float64)
    x, hidden, attentional = (torch.randn(batch, size, dtype=torch.float64) for size in (5, HIDDEN, HIDDEN))
    return x, Memory.of(states, torch.tensor(lengths)), hidden, attentional


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), lengths=st.lists(st.integers(1, 7), min_size=1, max_size=3))
def test_a_step_agrees_with_the_equations(seed: int, lengths: list[int]) -> None:
    step = with_large_weights(CatSeqStep(5, HIDDEN), seed)
    x, memory, hidden, attentional = inputs(seed, lengths)
    outputs = step(x, memory, hidden, attentional)
    for row, length in enumerate(lengths):
        expected = slow_step(step, x[row], list(memory.states[row, :length]), hidden[row], attentional[row])
        for output, value in zip(outputs, expected, strict=True):
            torch.testing.assert_close(output[row, : len(value)], value)
        assert outputs[2][row, length:].eq(0).all()


def test_every_parameter_and_input_is_heard() -> None:
    step = with_large_weights(CatSeqStep(5, HIDDEN), 3)
    x, memory, hidden, attentional = inputs(3, [3, 7])
    given_tensors = [x, memory.states, hidden, attentional]
    for tensor in given_tensors:
        tensor.requires_grad_()
    outputs = step(x, memory, hidden, attentional)
    sum(output.pow(3).sum() for output in outputs).backward()
    for tensor in [*given_tensors, *step.parameters()]:
        assert tensor.grad is not None and tensor.grad.abs().sum() > 0


def test_a_wrong_input_size_is_refused() -> None:
    step = CatSeqStep(5, HIDDEN).double()
    x, memory, hidden, attentional = inputs(4, [3])
    with pytest.raises(RuntimeError):
        step(x[:, :3], memory, hidden, attentional)
