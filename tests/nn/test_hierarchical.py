"""The hierarchical decoder: equal to the paper's equations in loops, step by step or at once, whatever the batch."""

from __future__ import annotations

import pytest
import torch
from helpers.nn_reference import (
    BOS,
    EMBEDDING,
    END,
    EOS,
    HIDDEN,
    PAD,
    Batch,
    Document,
    Model,
    random_document,
    slow_decode,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from onmt_exhird.nn.attention import padding_bias
from onmt_exhird.nn.hierarchical import Decoded, HierarchicalDecoder, HierarchicalState, Memory, read_boundaries
from onmt_exhird.nn.recurrence import Recurrence

EMPTY = Document([8, 9], [[EOS]])


def random_documents(seed: int, sizes: list[tuple[int, int]]) -> list[Document]:
    generator = torch.Generator().manual_seed(seed)
    return [random_document(generator, phrases, src_len) for phrases, src_len in sizes]


def decode(model: Model, batch: Batch) -> Decoded:
    ids, starts = read_boundaries(batch.inputs, BOS, END)
    memory = Memory.of(batch.states, batch.lengths)
    first = HierarchicalState.first(batch.h_0)
    return model.decoder(model.embedding(ids), starts, batch.tgt_len, memory, first)


def decode_by_steps(model: Model, batch: Batch) -> Decoded:
    ids, starts = read_boundaries(batch.inputs, BOS, END)
    memory = Memory.of(batch.states, batch.lengths)
    state = HierarchicalState.first(batch.h_0)
    attentionals, attentions, phrase_scores = [], [], []
    for t in range(ids.size(1)):
        state, attention = model.decoder.step(model.embedding(ids[:, t]), starts[:, t], memory, state)
        attentionals.append(state.attentional)
        attentions.append(attention)
        phrase_scores.append(model.decoder.phrase_scores(state, memory))
    return Decoded(torch.stack(attentionals, 1), torch.stack(attentions, 1), torch.stack(phrase_scores, 1))


sizes = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 7)), min_size=1, max_size=4)


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), sizes=sizes)
def test_agrees_with_the_equations_of_the_paper_in_value_and_gradient(seed: int, sizes: list[tuple[int, int]]):
    model = Model(seed)
    batch = Batch.of(random_documents(seed, sizes))
    fast = decode(model, batch)
    fast_loss, slow_loss = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for row, document in enumerate(batch.documents):
        src_len, tgt_len = len(document.source), len(document.target)
        slow = slow_decode(model, document, batch.states[row, :src_len], batch.h_0[row])
        ours = (fast.attentional[row, :tgt_len], fast.attention[row, :tgt_len, :src_len])
        theirs = (torch.stack(slow.attentional), torch.stack(slow.attention))
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-7)
        beta = fast.phrase_scores.softmax(2)[row, :tgt_len, :src_len]
        torch.testing.assert_close(beta, torch.stack(slow.phrase_attention), atol=1e-9, rtol=1e-7)
        torch.manual_seed(row)
        for mine, reference in zip(ours, theirs, strict=True):
            weights = torch.randn(mine.shape, dtype=torch.float64)
            fast_loss = fast_loss + (mine * weights).sum()
            slow_loss = slow_loss + (reference * weights).sum()
    inputs = [batch.states, batch.h_0, model.embedding.weight, *model.decoder.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(fast_loss, inputs), torch.autograd.grad(slow_loss, inputs), atol=1e-8, rtol=1e-6
    )


def test_step_by_step_gives_the_same_numbers_and_gradients_as_at_once():
    model = Model(0)
    batch = Batch.of([*random_documents(0, [(3, 5), (1, 7), (4, 3)]), EMPTY])
    at_once, by_steps = (
        Decoded(*(tensor[batch.is_real] for tensor in run(model, batch))) for run in (decode, decode_by_steps)
    )
    torch.testing.assert_close(at_once, by_steps)
    inputs = [batch.states, batch.h_0, model.embedding.weight, *model.decoder.parameters()]
    weights = torch.randn_like(by_steps.attentional)
    gradients = [
        torch.autograd.grad((h_tilde * weights).sum() + (alpha**2).sum(), inputs)
        for h_tilde, alpha in (at_once[:2], by_steps[:2])
    ]
    torch.testing.assert_close(*gradients)


def test_targets_go_on_from_the_state_they_are_given():
    model = Model(1)
    batch = Batch.of(random_documents(1, [(3, 5), (2, 4)]))
    ids, starts = read_boundaries(batch.inputs, BOS, END)
    memory = Memory.of(batch.states, batch.lengths)
    embedded = model.embedding(ids)
    state = HierarchicalState.first(batch.h_0)
    for t in range(4):
        state, _ = model.decoder.step(embedded[:, t], starts[:, t], memory, state)
    rest = model.decoder(embedded[:, 4:], starts[:, 4:], batch.tgt_len - 4, memory, state)
    real = batch.is_real[:, 4:]
    torch.testing.assert_close(rest.attentional[real], decode(model, batch).attentional[:, 4:][real])


def test_the_gradient_agrees_with_finite_differences():
    model = Model(2)
    # Without padding: the change of a score is lost in the bias there.
    batch = Batch.of(random_documents(2, [(2, 3), (1, 3)]))
    _, starts = read_boundaries(batch.inputs, BOS, END)
    memory = Memory.of(batch.states.detach(), batch.lengths)
    weights = [weight.detach().requires_grad_() for weight in model.decoder._weights()]
    sizes = batch.is_real.sum(0)  # the first target is the longer one
    state = [torch.randn(2, size, dtype=torch.float64, requires_grad=True) for size in (HIDDEN, 3, HIDDEN, HIDDEN)]
    projected = torch.randn(int(sizes.sum()), 3 * HIDDEN, dtype=torch.float64, requires_grad=True)

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        projected, memory_states, *rest = tensors
        packed = starts.t()[batch.is_real.t()]
        return Recurrence.apply(projected, packed, sizes, memory_states, memory.bias, *rest)[:2]

    states = memory.states.detach().requires_grad_()
    starts[:, 0] = torch.tensor([True, False])  # one row goes on with the state it is given
    assert torch.autograd.gradcheck(function, (projected, states, *state, *weights))


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), sizes=sizes, extra=st.integers(0, 3))
def test_padding_and_batch_mates_do_not_matter(seed: int, sizes: list[tuple[int, int]], extra: int):
    model = Model(seed)
    documents = [*random_documents(seed, sizes), EMPTY]
    together = decode(model, Batch.of(documents, extra=extra))
    for row, document in enumerate(documents):
        alone = decode(model, Batch.of([document]))
        src_len, tgt_len = len(document.source), len(document.target)
        torch.testing.assert_close(together.attentional[row, :tgt_len], alone.attentional[0])
        torch.testing.assert_close(together.attention[row, :tgt_len, :src_len], alone.attention[0])
        assert (together.attention[row, :tgt_len, src_len:] == 0).all()


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), sizes=sizes)
def test_attentions_sum_to_one(seed: int, sizes: list[tuple[int, int]]):
    batch = Batch.of(random_documents(seed, sizes), extra=1)
    decoded = decode(Model(seed), batch)
    for attention in (decoded.attention, decoded.phrase_scores.softmax(2)):
        sums = attention.sum(2)[batch.is_real]
        torch.testing.assert_close(sums, torch.ones_like(sums))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e3, 1e4])
def test_peaked_attentions_give_neither_nan_nor_infinite_gradients(dtype: torch.dtype, scale: float):
    model = Model(3)
    with torch.no_grad():
        # Opposed attentions: each gives all its weight to a word to which the other gives none.
        model.decoder.word_attention.mul_(scale)
        model.decoder.phrase_attention.copy_(-model.decoder.word_attention)
    model.to(dtype)
    batch = Batch.of(random_documents(3, [(4, 6), (2, 3)]))
    batch = batch._replace(states=batch.states.detach().to(dtype).requires_grad_(), h_0=batch.h_0.detach().to(dtype))
    decoded = decode(model, batch)
    (decoded.attentional.sum() + decoded.attention.pow(2).sum()).backward()
    for tensor in (decoded.attentional, decoded.attention, decoded.phrase_scores, batch.states.grad):
        assert torch.isfinite(tensor).all()
    assert all(torch.isfinite(p.grad).all() for p in model.decoder.parameters())


def test_a_document_without_tokens_gives_no_nan():
    model = Model(4)
    batch = Batch.of(random_documents(4, [(2, 3), (1, 2)]))
    decoded = decode(model, batch._replace(lengths=torch.tensor([3, 0])))
    assert torch.isfinite(decoded.attentional).all()


def test_a_phrase_begins_with_the_start_tokens_embedding_whatever_the_input():
    ids, starts = read_boundaries(torch.tensor([[BOS, 5, 8, END], [BOS, 6, END, PAD]]), BOS, END)
    assert ids.tolist() == [[BOS, 5, 8, BOS], [BOS, 6, BOS, PAD]]
    assert starts.tolist() == [[True, False, False, True], [True, False, True, False]]


def test_states_can_be_reordered_and_repeated_along_the_batch():
    model = Model(5)
    batch = Batch.of(random_documents(5, [(2, 3), (1, 5), (3, 4)]))
    memory = Memory.of(batch.states, batch.lengths)
    starts = torch.tensor([True, False, True])
    state = HierarchicalState.first(batch.h_0)
    for _ in range(2):
        state, _ = model.decoder.step(torch.randn(3, EMBEDDING, dtype=torch.float64), starts, memory, state)
    rows = torch.tensor([2, 0, 0, 1, 2])
    token = torch.randn(3, EMBEDDING, dtype=torch.float64)
    after, attention = model.decoder.step(token, starts, memory, state)
    tiled, tiled_attention = model.decoder.step(
        token[rows], starts[rows], memory.map(lambda t: t[rows]), state.map(lambda t: t[rows])
    )
    torch.testing.assert_close(tiled, after.map(lambda t: t[rows]))
    torch.testing.assert_close(tiled_attention, attention[rows])


def test_beams_of_a_document_may_share_its_memory():
    model = Model(7)
    batch = Batch.of(random_documents(7, [(2, 3), (1, 5)] * 6))  # more documents than are attended to at once
    rows = torch.arange(len(batch.documents)).repeat_interleave(3)
    memory = Memory.of(batch.states, batch.lengths).map(lambda t: t[rows])
    state = HierarchicalState(*(torch.randn_like(t) for t in HierarchicalState.first(batch.h_0[rows])))
    token = torch.randn(len(rows), EMBEDDING, dtype=torch.float64)
    starts = torch.rand(len(rows)) < 0.5
    apart = model.decoder.step(token, starts, memory, state)
    together = model.decoder.step(token, starts, memory, state, beams=3)
    torch.testing.assert_close(together, apart)


def test_parameters_are_those_of_the_paper():
    decoder = HierarchicalDecoder(100, 300)
    # GRU_1, GRU_2, W_1, W_alpha, W_2
    expected = 2 * 900 * 300 + 2 * 900 + 900 * 400 + 900 * 300 + 2 * 900 + 2 * 300 * 300 + 300 * 600
    assert sum(p.numel() for p in decoder.parameters()) == expected


def test_under_autocast_the_recurrence_keeps_full_precision():
    model = Model(6).float()
    batch = Batch.of(random_documents(6, [(2, 3)]))
    batch = batch._replace(states=batch.states.float(), h_0=batch.h_0.float())
    plain = decode(model, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = decode(model, batch)
    torch.testing.assert_close(mixed.attentional, plain.attentional)


def test_padding_bias_hides_padding_from_a_softmax():
    attention = padding_bias(torch.tensor([1, 3]), 3, torch.float32).softmax(1)
    torch.testing.assert_close(attention, torch.tensor([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]]))
