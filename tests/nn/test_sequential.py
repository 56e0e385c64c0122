"""catSeqD and catSeqCorr as wholes: equal to their equations in loops, step by step or at once, whatever the batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.nn_reference import EMBEDDING, HIDDEN, Batch
from helpers.sequential_reference import Model, decode, make_batch, slow_catseqcorr, slow_catseqd
from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird.nn.catseqcorr import CatSeqCorr
from onmt_exhird.nn.catseqd import CatSeqD
from onmt_exhird.nn.hierarchical import Memory

KINDS = [CatSeqD, CatSeqCorr]
sizes = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 7)), min_size=1, max_size=4)


@pytest.mark.parametrize(("kind", "slow"), [(CatSeqD, slow_catseqd), (CatSeqCorr, slow_catseqcorr)])
@settings(max_examples=8)
@given(seed=st.integers(0, 1000), sizes=sizes)
def test_agrees_with_the_equations_in_value_and_gradient(kind: Any, slow: Any, seed: int, sizes: list) -> None:
    model = Model(kind, seed)
    batch = make_batch(seed, sizes)
    outputs = decode(model, batch)[:-1]
    ours, theirs = [], []
    for row, document in enumerate(batch.documents):
        src_len, tgt_len = len(document.source), len(document.target)
        reference = slow(model, document, batch.states[row, :src_len], batch.h_0[row])
        for output, expected in zip(outputs, reference, strict=True):
            ours.append(output[row, :tgt_len, : expected.size(1)])
            theirs.append(expected)
    torch.testing.assert_close(ours, theirs)
    weights = [torch.randn_like(tensor) for tensor in ours]
    inputs = [batch.states, batch.h_0, *model.parameters()]
    gradients = [
        torch.autograd.grad(sum((w * t).sum() for w, t in zip(weights, side, strict=True)), inputs, allow_unused=True)
        for side in (ours, theirs)
    ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("kind", KINDS)
def test_step_by_step_gives_the_same_numbers_and_gradients_as_at_once(kind: Any) -> None:
    model = Model(kind, 0)
    batch = make_batch(0, [(3, 5), (1, 7), (4, 3)])
    at_once = decode(model, batch)
    memory = Memory.of(batch.states, batch.lengths)
    state, steps = model.decoder.first_state(batch.h_0, memory), []
    for embedded in model.embedding(batch.inputs).split(1, 1):
        *outputs, state = model.decoder(embedded, memory, state)
        steps.append(outputs)
    by_steps = [torch.cat(tensors, 1) for tensors in zip(*steps, strict=True)]
    torch.testing.assert_close(list(at_once[:-1]), by_steps)
    torch.testing.assert_close(at_once.state, state)
    inputs = [batch.states, batch.h_0, *model.parameters()]
    gradients = [
        torch.autograd.grad(sum(t.pow(3).sum() for t in side), inputs, allow_unused=True)
        for side in (at_once[:-1], by_steps)
    ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8)
@given(seed=st.integers(0, 1000), sizes=sizes, extra=st.integers(0, 3))
def test_padding_and_batch_mates_do_not_matter(kind: Any, seed: int, sizes: list, extra: int) -> None:
    model = Model(kind, seed)
    batch = make_batch(seed, sizes, extra=extra)
    together = decode(model, batch)
    for row, document in enumerate(batch.documents):
        alone = decode(model, Batch.of([document]))
        src_len, tgt_len = len(document.source), len(document.target)
        torch.testing.assert_close(together.attentional[row, :tgt_len], alone.attentional[0])
        torch.testing.assert_close(together.attention[row, :tgt_len, :src_len], alone.attention[0])
        assert together.attention[row, :, src_len:].eq(0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [0, 3])
def test_states_can_be_reordered_and_repeated_along_the_batch(kind: Any, steps: int) -> None:
    model = Model(kind, 5)
    batch = make_batch(5, [(2, 3), (1, 5)])
    memory = Memory.of(batch.states, batch.lengths)
    state = model.decoder.first_state(batch.h_0, memory)
    if steps:
        state = model.decoder(model.embedding(batch.inputs[:, :steps]), memory, state).state
    rows = torch.tensor([2, 0, 0, 1, 2])
    token = torch.randn(3, 1, EMBEDDING, dtype=torch.float64)
    after = model.decoder(token, memory, state)
    tiled = model.decoder(token[rows], memory.map(lambda t: t[rows]), state.map(lambda t: t[rows]))
    torch.testing.assert_close(tiled.state, after.state.map(lambda t: t[rows]))
    torch.testing.assert_close(tiled.attention, after.attention[rows])


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_without_tokens_gives_no_nan(kind: Any) -> None:
    batch = make_batch(4, [(2, 3)])
    decoded = decode(Model(kind, 4), batch._replace(lengths=torch.tensor([3, 0])))
    assert torch.isfinite(decoded.attentional).all()


@pytest.mark.parametrize("kind", KINDS)
def test_under_autocast_the_decoder_keeps_full_precision(kind: Any) -> None:
    model = Model(kind, 6).float()
    batch = make_batch(6, [(2, 3)])
    batch = batch._replace(states=batch.states.float(), h_0=batch.h_0.float())
    plain = decode(model, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = decode(model, batch)
    torch.testing.assert_close(mixed.attentional, plain.attentional)


def test_what_is_generated_does_not_train_the_target_encoder() -> None:
    model = Model(CatSeqD, 7)
    decoded = decode(model, make_batch(7, [(2, 3)]))
    (decoded.attentional.sum() + decoded.attention.pow(2).sum() + decoded.hidden.sum()).backward()
    assert all(parameter.grad is None for parameter in model.decoder.target_encoder.parameters())
    assert model.decoder.step.cell.weight_ih.grad.abs().min() > 0  # it is heard, though


def test_coverage_is_the_sum_of_attentions() -> None:
    decoded = decode(Model(CatSeqCorr, 9), make_batch(9, [(2, 4), (3, 5)]))
    torch.testing.assert_close(decoded.state.coverage, decoded.attention.sum(1))


@pytest.mark.parametrize("kind", KINDS)
def test_no_parameter_is_a_scalar_and_all_start_within_a_tenth(kind: Any) -> None:
    for name, parameter in kind(EMBEDDING, HIDDEN).named_parameters():
        assert parameter.dim() > 0 and parameter.abs().max() <= 0.1, name


def test_parameters_are_those_of_the_equations() -> None:
    catseq = 900 * (300 + 100) + 900 * 300 + 2 * 900 + 300 * 300 + 300 * 600
    reader = 3 * 64 * (100 + 64 + 2)
    assert sum(p.numel() for p in CatSeqD(100, 300).parameters()) == catseq + 900 * 64 + reader + 64 * 300
    review = 900 * 300 + 300 * 300 + 300 * 600
    assert sum(p.numel() for p in CatSeqCorr(100, 300).parameters()) == catseq + review + 300
