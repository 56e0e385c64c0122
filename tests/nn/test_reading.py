"""The encoder of a search equals torch's GRU over packed documents."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from onmt_exhird.nn import reading
from onmt_exhird.nn.reading import read

WORDS, INPUT, SIZE = 11, 3, 5


def make(layers, bidirectional, lengths):
    torch.manual_seed(3)
    gru = nn.GRU(INPUT, SIZE, layers, batch_first=True, bidirectional=bidirectional).double()
    return gru, torch.randn(WORDS, INPUT).double(), torch.randint(WORDS, (len(lengths), max(lengths)))


@pytest.mark.parametrize("cached", [1, 200, 2**18], ids=["step by step", "in chunks", "at once"])
@pytest.mark.parametrize("lengths", [[5, 7, 1, 4], [9, 2, 9, 4, 6, 1, 1, 3, 8, 2, 5], [6]])
@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (2, True), (3, True), (2, False)])
def test_equals_torchs_gru_over_packed_documents(layers, bidirectional, lengths, cached, monkeypatch):
    monkeypatch.setattr(reading, "_CACHED", cached)
    lengths = torch.tensor(lengths)
    gru, embedding, ids = make(layers, bidirectional, lengths.tolist())
    packed = pack_padded_sequence(embedding[ids], lengths, batch_first=True, enforce_sorted=False)
    output, final = gru(packed)
    states, document = read(gru, embedding, ids, lengths)
    wanted = pad_packed_sequence(output, batch_first=True)[0]
    torch.testing.assert_close(states, wanted, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(document, torch.cat(tuple(final[-1 - bidirectional :]), 1), rtol=1e-12, atol=1e-12)


def test_what_stands_at_padding_changes_nothing():
    lengths = torch.tensor([7, 4])
    gru, embedding, ids = make(2, True, [7, 4])
    other = ids.clone()
    other[1, 4:] = (ids[1, 4:] + 1) % WORDS
    for first, second in zip(read(gru, embedding, ids, lengths), read(gru, embedding, other, lengths), strict=True):
        torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_a_word_is_multiplied_once_for_all_its_places(monkeypatch):
    shapes = []
    words = reading._words
    monkeypatch.setattr(reading, "_words", lambda w, embedded, n: shapes.append(len(embedded)) or words(w, embedded, n))
    gru, embedding, _ = make(1, True, [4])
    read(gru, embedding, torch.tensor([[2, 5, 2, 2]]), torch.tensor([4]))
    assert shapes == [2, 2]  # two words, in each of two directions
