"""The sequential baselines: equal to their equations in loops, step by step or at once, whatever the batch."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nn_reference import BOS, EMBEDDING, END, EOS, HIDDEN, VOCAB, Batch, Document, gru, random_document, restricted
from torch import Tensor, nn

from onmt_exhird.nn.hierarchical import Memory
from onmt_exhird.nn.sequential import TARGET_SIZE, CatSeqCorr, CatSeqD, DocumentQueue, orthogonal_loss

EMPTY = Document([8, 9], [[EOS]])
KINDS = [CatSeqD, CatSeqCorr]
sizes = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 7)), min_size=1, max_size=4)


class Model(nn.Module):
    """Embedding and decoder with large random weights, in float64."""

    def __init__(self, kind: type[CatSeqD] | type[CatSeqCorr], seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(VOCAB, EMBEDDING)
        self.decoder = kind(EMBEDDING, HIDDEN)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -1, 1)
        self.double()


def make_batch(seed: int, sizes: list[tuple[int, int]], **kwargs: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return Batch.of([random_document(generator, phrases, src_len) for phrases, src_len in sizes] + [EMPTY], **kwargs)


def decode(model: Model, batch: Batch) -> Any:
    memory = Memory.of(batch.states, batch.lengths)
    return model.decoder(model.embedding(batch.inputs), memory, model.decoder.first_state(batch.h_0, memory))


def inputs_of(document: Document) -> list[int]:
    return [BOS, *map(restricted, document.target[:-1])]


def softmax(values: list[Tensor]) -> list[Tensor]:
    total = sum(torch.exp(value) for value in values)
    return [torch.exp(value) / total for value in values]


def weighted_sum(weights: list[Tensor], vectors: list[Tensor]) -> Tensor:
    return sum(weight * vector for weight, vector in zip(weights, vectors, strict=True))


def slow_step(step: Any, x: Tensor, m: list[Tensor], h: Tensor, h_tilde: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """catSeq, one token of one document."""
    h = gru(step.cell, torch.cat([h_tilde, x]), h)
    alpha = softmax([h @ step.attention @ m_n for m_n in m])
    h_tilde = torch.tanh(step.combine @ torch.cat([h, weighted_sum(alpha, m)]))
    return h, h_tilde, torch.stack(alpha)


def target_cell(reader: nn.GRU) -> Any:
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return SimpleNamespace(**{name: getattr(reader, f"{name}_l0") for name in names})


def slow_catseqd(model: Model, document: Document, m: Tensor, h_0: Tensor) -> tuple[Tensor, ...]:
    """-> h, h~, alpha, g, each (tgt_len, ...)."""
    decoder, steps = model.decoder, []
    h, h_tilde, g = h_0, torch.zeros_like(h_0), h_0.new_zeros(TARGET_SIZE)
    for token in inputs_of(document):
        e = model.embedding.weight[token]
        g = gru(target_cell(decoder.target_reader), e, g)
        h, h_tilde, alpha = slow_step(decoder.step, torch.cat([e, g.detach()]), list(m), h, h_tilde)
        steps.append((h, h_tilde, alpha, g))
    return tuple(torch.stack(tensors) for tensors in zip(*steps, strict=True))


def slow_review(decoder: CatSeqCorr, earlier: list[Tensor]) -> Tensor:
    rho = softmax([earlier[-1] @ decoder.review_attention @ h_k for h_k in earlier])
    return torch.tanh(decoder.review_combine @ torch.cat([earlier[-1], weighted_sum(rho, earlier)]))


def slow_catseqcorr(model: Model, document: Document, m: Tensor, h_0: Tensor) -> tuple[Tensor, ...]:
    """-> h~, alpha, each (tgt_len, ...)."""
    decoder, steps, earlier = model.decoder, [], []
    h, h_tilde, coverage = h_0, torch.zeros_like(h_0), h_0.new_zeros(len(m))
    for token in inputs_of(document):
        r = slow_review(decoder, earlier) if earlier else torch.zeros_like(h_0)
        covered = [torch.tanh(m_n + c_n * decoder.cover) for m_n, c_n in zip(m, coverage, strict=True)]
        h, h_tilde, alpha = slow_step(decoder.step, torch.cat([model.embedding.weight[token], r]), covered, h, h_tilde)
        coverage = coverage + alpha
        earlier.append(h)
        steps.append((h_tilde, alpha))
    return tuple(torch.stack(tensors) for tensors in zip(*steps, strict=True))


@pytest.mark.parametrize(("kind", "slow"), [(CatSeqD, slow_catseqd), (CatSeqCorr, slow_catseqcorr)])
@settings(deadline=None, max_examples=8)
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
@settings(deadline=None, max_examples=8)
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
    assert all(parameter.grad is None for parameter in model.decoder.target_reader.parameters())
    assert model.decoder.step.cell.weight_ih.grad.abs().min() > 0  # it is heard, though


def test_the_review_is_nothing_before_the_first_state_and_an_attention_over_all_after_it() -> None:
    decoder = Model(CatSeqCorr, 8).decoder
    states = torch.randn(3, 5, HIDDEN, dtype=torch.float64)
    assert torch.equal(decoder.review(states[:, :0]), torch.zeros(3, HIDDEN, dtype=torch.float64))
    for row in range(3):
        for steps in (1, 2, 5):
            expected = slow_review(decoder, list(states[row, :steps]))
            torch.testing.assert_close(decoder.review(states[:, :steps])[row], expected)


def test_coverage_is_the_sum_of_attentions() -> None:
    decoded = decode(Model(CatSeqCorr, 9), make_batch(9, [(2, 4), (3, 5)]))
    torch.testing.assert_close(decoded.state.coverage, decoded.attention.sum(1))


def test_coverage_acts_through_its_weight_alone() -> None:
    model = Model(CatSeqCorr, 10)
    batch = make_batch(10, [(2, 4)])
    nn.init.zeros_(model.decoder.cover)
    memory = Memory.of(batch.states, batch.lengths)
    state = model.decoder.first_state(batch.h_0, memory)
    embedded = model.embedding(batch.inputs)
    much = state._replace(coverage=state.coverage + 3)
    torch.testing.assert_close(
        model.decoder(embedded, memory, state).attention, model.decoder(embedded, memory, much).attention
    )


@settings(deadline=None, max_examples=20)
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


def test_the_target_encoders_loss_is_that_of_picking_the_own_document_in_loops() -> None:
    model = Model(CatSeqD, 11)
    batch = make_batch(11, [(3, 4), (1, 2), (2, 5)])
    queue = DocumentQueue(size=7)
    queue.put(torch.randn(7, HIDDEN, dtype=torch.float64))
    others = queue.draw(4, count=5)
    assert others is not None
    is_end = batch.inputs == END
    target = decode(model, batch).target
    losses = model.decoder.recognition_loss(target, is_end, batch.h_0, others)
    for row in range(4):
        expected = torch.zeros((), dtype=torch.float64)
        for t in is_end[row].nonzero().flatten().tolist():
            key = target[row, t] @ model.decoder.recognise
            candidates = [key @ batch.h_0[row], *(key @ other for other in others[row])]
            expected = expected - torch.log(softmax(candidates)[0])
        torch.testing.assert_close(losses[row], expected)
    assert losses[3] == 0  # no phrase, nothing to be recognised by

    losses.sum().backward()
    assert batch.h_0.grad is None
    assert all(p.grad.abs().sum() > 0 for p in (model.decoder.recognise, *model.decoder.target_reader.parameters()))


def test_the_target_encoder_can_learn_to_recognise_documents() -> None:
    torch.manual_seed(12)
    decoder = CatSeqD(EMBEDDING, HIDDEN)
    documents, embedded = torch.randn(6, HIDDEN), torch.randn(6, 3, EMBEDDING)
    last = torch.tensor([[False, False, True]]).expand(6, 3)
    others = torch.stack([documents[[k for k in range(6) if k != row]] for row in range(6)])  # (6, 5, d)
    optimizer = torch.optim.Adam(decoder.parameters(), lr=0.02)
    totals = []
    for _ in range(80):
        target, _ = decoder.target_reader(embedded)
        loss = decoder.recognition_loss(target, last, documents, others).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        totals.append(loss.item())
    assert totals[0] == pytest.approx(6 * math.log(6), rel=0.2) and totals[-1] < 0.3 * totals[0]


def test_the_queue_keeps_the_latest_documents() -> None:
    queue = DocumentQueue(size=5)
    for first in (0.0, 3.0, 6.0):
        queue.put(torch.arange(first, first + 3).unsqueeze(1).requires_grad_())
    assert queue.vectors is not None and not queue.vectors.requires_grad
    assert queue.vectors.flatten().tolist() == [4, 5, 6, 7, 8]


def test_draws_are_different_vectors_of_the_queue_and_repeat_with_the_seed() -> None:
    queue = DocumentQueue(size=7)
    queue.put(torch.arange(7.0).unsqueeze(1))
    torch.manual_seed(13)
    drawn = queue.draw(50, count=5)
    assert drawn is not None and drawn.shape == (50, 5, 1)
    assert all(len(set(row)) == 5 for row in drawn.squeeze(2).tolist())
    assert set(drawn.flatten().tolist()) == set(range(7))
    torch.manual_seed(13)
    assert torch.equal(queue.draw(50, count=5), drawn)


@pytest.mark.parametrize("held", [0, 4])
def test_nothing_is_drawn_while_too_few_are_there(held: int) -> None:
    queue = DocumentQueue()
    if held:
        queue.put(torch.randn(held, 3))
    assert queue.draw(2, count=5) is None


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
