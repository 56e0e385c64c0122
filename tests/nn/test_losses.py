"""The losses: equal to Algorithm 1 in loops, never infinite, independent of padding and batch mates."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.nn_reference import (
    BOS,
    END,
    EOS,
    PAD,
    TAGS,
    UNK,
    VOCAB,
    Batch,
    Document,
    Model,
    random_document,
    slow_decode,
    slow_losses,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird.nn.copying import restrict
from onmt_exhird.nn.hierarchical import HierarchicalState, Memory, read_boundaries
from onmt_exhird.nn.losses import StreamLosses, exclusion, find_rivals, stream_losses

A, B, C = 8, 9, 10
PRESENT, ABSENT = TAGS


def random_documents(seed: int, phrases: list[int]) -> list[Document]:
    generator = torch.Generator().manual_seed(seed)
    return [random_document(generator, n, 3 + n % 4) for n in phrases]


def losses(model: Model, batch: Batch, window: int | None) -> StreamLosses:
    ids, starts = read_boundaries(batch.inputs, BOS, END)
    memory = Memory.of(batch.states, batch.lengths)
    first = HierarchicalState.first(batch.h_0)
    decoded = model.decoder(model.embedding(ids), starts, batch.tgt_len, memory, first)
    rivals = None if window is None else find_rivals(batch.target, TAGS, window, PAD)
    return stream_losses(model.generator, decoded.attentional, decoded.attention, batch.source, batch.target, rivals)


def rivals_of(target: list[int], window: int, compared: list[int] | None = None) -> dict[int, list[int]]:
    """The rivals that count, by position."""
    ids, counts = find_rivals(
        torch.tensor([target]), TAGS, window, PAD, None if compared is None else torch.tensor([compared])
    )
    found = {t: ids[0, t][counts[0, t]].tolist() for t in range(len(target))}
    return {t: words for t, words in found.items() if words}


def test_rivals_are_the_first_words_of_the_last_phrases():
    target = [PRESENT, A, B, END, PRESENT, B, END, ABSENT, C, A, END, EOS]
    assert rivals_of(target, 1) == {5: [A], 8: [B]}
    assert rivals_of(target, 2) == {5: [A], 8: [B, A]}
    assert rivals_of(target, 100) == {5: [A], 8: [B, A]}


def test_a_rival_that_equals_the_target_does_not_count():
    target = [PRESENT, A, END, PRESENT, B, END, ABSENT, A, END, EOS]
    assert rivals_of(target, 2) == {4: [A], 7: [B]}


def test_an_equal_rival_still_takes_its_place_in_the_window():
    target = [PRESENT, B, END, PRESENT, A, END, PRESENT, A, END, EOS]
    assert rivals_of(target, 1) == {4: [B]}


def test_two_rivals_of_the_same_id_count_twice():
    target = [PRESENT, A, END, PRESENT, A, END, PRESENT, B, END, EOS]
    assert rivals_of(target, 2) == {7: [A, A]}


def test_the_caller_may_say_which_ids_decide_equality():
    target = [PRESENT, VOCAB, END, PRESENT, VOCAB + 1, END, EOS]
    by_vocabulary = restrict(torch.tensor(target), VOCAB, UNK).tolist()
    assert rivals_of(target, 1) == {4: [VOCAB]}
    assert rivals_of(target, 1, compared=by_vocabulary) == {}


def test_one_phrase_or_none_has_no_rivals():
    assert rivals_of([PRESENT, A, END, EOS], 4) == {}
    assert rivals_of([EOS], 4) == {}


def test_padding_after_a_tag_is_no_first_word():
    assert rivals_of([PRESENT, A, END, PRESENT, PAD], 4) == {}


@settings(max_examples=12)
@given(seed=st.integers(0, 1000), phrases=st.lists(st.integers(0, 5), min_size=1, max_size=3), window=st.integers(0, 5))
def test_agree_with_algorithm_1_in_loops_in_value_and_gradient(seed: int, phrases: list[int], window: int):
    model = Model(seed)
    batch = Batch.of(random_documents(seed, phrases))
    fast = losses(model, batch, window)
    total = torch.zeros((), dtype=torch.float64)
    for row, document in enumerate(batch.documents):
        steps = slow_decode(model, document, batch.states[row, : len(document.source)], batch.h_0[row])
        generation, exclusive = slow_losses(model, document, steps, window)
        torch.testing.assert_close(fast.generation[row].sum(), generation)
        torch.testing.assert_close(fast.exclusive[row].sum(), exclusive)
        total = total + generation + 0.5 * exclusive
    inputs = [batch.states, batch.h_0, *model.parameters()]
    fast_gradients = torch.autograd.grad(fast.joint(0.5), inputs)
    torch.testing.assert_close(fast_gradients, torch.autograd.grad(total, inputs), atol=1e-7, rtol=1e-5)


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), phrases=st.lists(st.integers(0, 4), min_size=2, max_size=4), extra=st.integers(0, 3))
def test_padding_and_batch_mates_do_not_matter(seed: int, phrases: list[int], extra: int):
    model = Model(seed)
    documents = random_documents(seed, phrases)
    together = losses(model, Batch.of(documents, extra=extra), 2)
    for row, document in enumerate(documents):
        alone = losses(model, Batch.of([document]), 2)
        torch.testing.assert_close(together.generation[row].sum(), alone.generation.sum())
        torch.testing.assert_close(together.exclusive[row].sum(), alone.exclusive.sum())
        assert (together.generation[row, len(document.target) :] == 0).all()


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), phrases=st.lists(st.integers(0, 4), min_size=1, max_size=3))
def test_weight_zero_and_window_zero_equal_the_plain_loss(seed: int, phrases: list[int]):
    model = Model(seed)
    batch = Batch.of(random_documents(seed, phrases))
    inputs = [batch.states, batch.h_0, *model.parameters()]

    def value_and_gradients(loss: torch.Tensor) -> list[torch.Tensor]:
        return [loss, *torch.autograd.grad(loss, inputs)]

    plain = value_and_gradients(losses(model, batch, None).joint())
    torch.testing.assert_close(value_and_gradients(losses(model, batch, 0).joint()), plain)
    torch.testing.assert_close(value_and_gradients(losses(model, batch, 4).joint(0.0)), plain)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exclusion_is_finite_for_every_probability(dtype: torch.dtype):
    eps = torch.finfo(dtype).eps
    log_p = torch.tensor([-1e5, -800.0, -1.0, -eps, 0.0, eps, 1e-3], dtype=dtype, requires_grad=True)
    values = exclusion(log_p)
    values.sum().backward()
    assert torch.isfinite(values).all()
    assert torch.isfinite(log_p.grad).all()
    assert values[0] == 0
    assert values[4].item() == pytest.approx(-math.log(eps))


def test_exclusion_is_exact_for_small_probabilities():
    log_p = torch.tensor([-30.0], dtype=torch.float32)
    assert exclusion(log_p).item() == pytest.approx(math.exp(-30.0), rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_extreme_models_give_finite_losses_and_gradients(dtype: torch.dtype, scale: float):
    model = Model(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    model.to(dtype)
    batch = Batch.of(random_documents(7, [5, 0, 3]))
    batch = batch._replace(states=batch.states.detach().to(dtype).requires_grad_(), h_0=batch.h_0.detach().to(dtype))
    found = losses(model, batch, 4)
    found.joint().backward()
    assert torch.isfinite(found.generation).all()
    assert torch.isfinite(found.exclusive).all()
    assert torch.isfinite(batch.states.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_the_exclusive_loss_alone_has_no_part_in_the_generation_loss():
    model = Model(8)
    batch = Batch.of(random_documents(8, [4, 2]))
    found = losses(model, batch, 2)
    torch.testing.assert_close(found.generation, losses(model, batch, None).generation)
    assert found.exclusive.sum() > 0
    torch.testing.assert_close(found.joint(2.0), found.generation.sum() + 2 * found.exclusive.sum())
