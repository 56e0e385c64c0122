"""Our GRU equals torch's over packed documents: states, final states and every gradient."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from onmt_exhird.nn import gru as module
from onmt_exhird.nn.gru import encode, reading_order


def packed(gru, embedded, lengths):
    states, final = gru(pack_padded_sequence(embedded, lengths.tolist(), batch_first=True, enforce_sorted=False))
    return pad_packed_sequence(states, batch_first=True)[0], final


def outcome(function, gru, embedded, lengths):
    """States and gradients of a loss in which every number counts differently."""
    gru.zero_grad()
    embedded = embedded.clone().requires_grad_()
    states, final = function(gru, embedded, lengths)
    weigh = torch.Generator().manual_seed(7)
    loss = sum((t * torch.randn(t.shape, generator=weigh, dtype=t.dtype)).sum() for t in (states, final))
    loss.backward()
    return [states, final, embedded.grad, *(p.grad for p in gru.parameters())]


@pytest.mark.parametrize("cached", [1, 200, 2**18], ids=["step by step", "in chunks", "at once"])
@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (2, True), (3, True)])
def test_equals_torchs_gru_over_packed_documents(layers, bidirectional, cached, monkeypatch):
    monkeypatch.setattr(module, "_CACHED", cached)
    torch.manual_seed(3)
    gru = nn.GRU(3, 5, layers, batch_first=True, bidirectional=bidirectional).double()
    embedded = torch.randn(4, 7, 3, dtype=torch.float64)
    lengths = torch.tensor([5, 7, 1, 4])
    for ours, theirs in zip(
        outcome(encode, gru, embedded, lengths), outcome(packed, gru, embedded, lengths), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_what_stands_at_padding_changes_nothing():
    torch.manual_seed(3)
    gru = nn.GRU(3, 5, 2, batch_first=True, bidirectional=True).double()
    embedded, lengths = torch.randn(2, 7, 3, dtype=torch.float64), torch.tensor([7, 4])
    other = embedded.clone()
    other[1, 4:] = 99.0
    for first, second in zip(
        outcome(encode, gru, embedded, lengths), outcome(encode, gru, other, lengths), strict=True
    ):
        torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_a_document_gets_the_same_states_alone_and_in_a_batch():
    torch.manual_seed(3)
    gru = nn.GRU(3, 5, 2, batch_first=True, bidirectional=True).double()
    embedded, lengths = torch.randn(3, 7, 3, dtype=torch.float64), torch.tensor([7, 4, 6])
    together, _ = encode(gru, embedded, lengths)
    alone, final = encode(gru, embedded[1:2, :4], lengths[1:2])
    torch.testing.assert_close(together[1:2, :4], alone)
    assert final.shape == (4, 1, 5)


def test_dropout_falls_between_layers_in_training_only():
    torch.manual_seed(3)
    gru = nn.GRU(3, 5, 2, batch_first=True, bidirectional=True, dropout=0.5)
    embedded, lengths = torch.randn(2, 7, 3), torch.tensor([7, 4])
    first, second = encode(gru, embedded, lengths)[0], encode(gru, embedded, lengths)[0]
    assert not torch.equal(first, second)
    gru.eval()
    torch.testing.assert_close(encode(gru, embedded, lengths)[0], packed(gru, embedded, lengths)[0])


def test_each_direction_reads_every_token_once():
    order = reading_order(torch.tensor([5, 3, 4]), 5, 2)
    assert order.sort(1).values.tolist() == [list(range(15))] * 2
