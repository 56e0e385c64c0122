"""The target encoder, its loss in loops, and the queue of documents to tell apart."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.nn_reference import EMBEDDING, HIDDEN
from helpers.sequential_reference import slow_target_encoder, softmax, with_large_weights
from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird.nn.target_encoder import TARGET_SIZE, DocumentQueue, TargetEncoder


def numbered(first: int, count: int) -> torch.Tensor:
    """Documents' vectors (count, 1) that can be told apart."""
    return torch.arange(float(first), first + count).unsqueeze(1)


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), batch=st.integers(1, 3), length=st.integers(1, 5))
def test_it_reads_the_tokens_one_after_another(seed: int, batch: int, length: int) -> None:
    encoder = with_large_weights(TargetEncoder(EMBEDDING, HIDDEN), seed)
    embedded = torch.randn(batch, length, EMBEDDING, dtype=torch.float64)
    states = encoder(embedded, embedded.new_zeros(batch, TARGET_SIZE))
    for row in range(batch):
        torch.testing.assert_close(list(states[row]), slow_target_encoder(encoder, list(embedded[row])))


def test_it_goes_on_from_where_it_was() -> None:
    encoder = with_large_weights(TargetEncoder(EMBEDDING, HIDDEN), 2)
    embedded = torch.randn(3, 5, EMBEDDING, dtype=torch.float64)
    whole = encoder(embedded, embedded.new_zeros(3, TARGET_SIZE))
    torch.testing.assert_close(encoder(embedded[:, 2:], whole[:, 1]), whole[:, 2:])


def test_its_loss_is_that_of_picking_the_own_document_in_loops() -> None:
    encoder = with_large_weights(TargetEncoder(EMBEDDING, HIDDEN), 11)
    embedded = torch.randn(3, 5, EMBEDDING, dtype=torch.float64)
    chosen = torch.tensor([[0, 1, 0, 0, 1], [1, 0, 1, 1, 0], [0, 0, 0, 0, 0]]).bool()
    document = torch.randn(3, HIDDEN, dtype=torch.float64, requires_grad=True)
    others = torch.randn(3, 7, HIDDEN, dtype=torch.float64, requires_grad=True)
    target = encoder(embedded, embedded.new_zeros(3, TARGET_SIZE))
    losses = encoder.recognition_loss(target, chosen, document, others)
    for row in range(3):
        expected = torch.zeros((), dtype=torch.float64)
        for t in chosen[row].nonzero().flatten().tolist():
            key = target[row, t] @ encoder.recognise
            candidates = [key @ document[row], *(key @ other for other in others[row])]
            expected = expected - torch.log(softmax(candidates)[0])
        torch.testing.assert_close(losses[row], expected)
    assert losses[2] == 0  # no phrase, nothing to be recognised by

    losses.sum().backward()
    assert document.grad is None and others.grad is None
    assert all(parameter.grad.abs().sum() > 0 for parameter in encoder.parameters())


def test_it_can_learn_to_recognise_documents() -> None:
    torch.manual_seed(12)
    encoder = TargetEncoder(EMBEDDING, HIDDEN)
    documents, embedded = torch.randn(6, HIDDEN), torch.randn(6, 3, EMBEDDING)
    last = torch.tensor([[False, False, True]]).expand(6, 3)
    others = torch.stack([documents[[k for k in range(6) if k != row]] for row in range(6)])  # (6, 5, d)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=0.02)
    totals = []
    for _ in range(80):
        target = encoder(embedded, torch.zeros(6, TARGET_SIZE))
        loss = encoder.recognition_loss(target, last, documents, others).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        totals.append(loss.item())
    assert totals[0] == pytest.approx(6 * math.log(6), rel=0.2) and totals[-1] < 0.3 * totals[0]


@settings(max_examples=20)
@given(batches=st.lists(st.integers(0, 8), max_size=5))
def test_the_queue_holds_the_latest_documents(batches: list[int]) -> None:
    queue, seen = DocumentQueue(1, size=5), 0
    for size in batches:
        queue.put(numbered(seen, size).requires_grad_())
        seen += size
    assert not queue.vectors.requires_grad and queue.vectors.shape == (5, 1)
    assert queue.held().flatten().tolist() == list(range(seen))[-5:]


def test_a_queue_that_is_not_full_is_the_same_after_loading() -> None:
    queue, other = DocumentQueue(3, size=7), DocumentQueue(3, size=7)
    queue.put(torch.randn(2, 3))
    queue.put(torch.zeros(1, 3))  # a vector of zeros is a document all the same
    other.load_state_dict(queue.state_dict())
    assert torch.equal(other.held(), queue.held()) and len(other.held()) == 3
    assert all(tensor.dim() > 0 and tensor.is_floating_point() for tensor in queue.state_dict().values())


def test_draws_are_different_vectors_of_the_queue_and_repeat_with_the_seed() -> None:
    queue = DocumentQueue(1, size=9)
    queue.put(numbered(0, 7))
    torch.manual_seed(13)
    drawn = queue.draw(50, count=5)
    assert drawn is not None and drawn.shape == (50, 5, 1)
    assert all(len(set(row)) == 5 for row in drawn.squeeze(2).tolist())
    assert set(drawn.flatten().tolist()) == set(range(7))
    torch.manual_seed(13)
    assert torch.equal(queue.draw(50, count=5), drawn)


@pytest.mark.parametrize("held", [0, 4])
def test_nothing_is_drawn_while_too_few_are_there(held: int) -> None:
    queue = DocumentQueue(3)
    queue.put(torch.randn(held, 3))
    assert queue.draw(2, count=5) is None
