"""The encoder of a search: what `onmt_exhird.nn.gru` computes, where nobody wants a gradient.

The longest documents come first, so that those that still have tokens are the first rows of a step: some steps at a
time the others are left out. At what padding remains the update gate is one: a state that has read all of its document,
or has not begun, stays as it is. What a word's embedding gives the first layer is computed once for all its places.

D is the number of directions, T the longest document, B the batch, h the hidden size, i the input's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onmt_exhird.nn.gru import directions_of

_CACHED = 2**18  # numbers of the gates of some steps, which stay in a core's cache
_FEWER = 4  # rows by which steps become smaller: each size needs views of its own

# Writes the input's part of the gates of some steps into (count, rows, 4h).
_Enter = Callable[["_Block", Tensor], None]


class _Block(NamedTuple):
    """Some steps, and the documents that may have tokens there: the first ``rows``."""

    first: int
    end: int
    rows: int

    @property
    def place(self) -> tuple[slice, slice]:
        """In what is (T, B, ...)."""
        return slice(self.first, self.end), slice(self.rows)


def _blocks(lengths: Tensor, size: int) -> list[_Block]:
    """All steps of documents, the longest first, with so many numbers for a token.

    >>> _blocks(torch.tensor([5, 4, 4, 4, 2]), 2**15)
    [_Block(first=0, end=1, rows=5), _Block(first=1, end=2, rows=5), _Block(first=2, end=4, rows=4), \
_Block(first=4, end=5, rows=4)]
    """
    blocks: list[_Block] = []
    batch, steps, first = len(lengths), int(lengths[0]), 0
    while first < steps:
        rows = min(batch, -(-int((lengths > first).sum()) // _FEWER) * _FEWER)
        end = min(steps, first + max(1, _CACHED // (rows * size)))
        blocks.append(_Block(first, end, rows))
        first = end
    return blocks


class _Weights(NamedTuple):
    """A layer's in one direction, for gates in the order c_n, r, z, a_n: what meets the hidden state is together.

    Those of n are doubled, since tanh x = 2 sigmoid 2x - 1, and a sigmoid is much quicker.
    """

    of_input: Tensor  # (i, 3h)
    of_hidden: Tensor  # (h, 3h)
    bias: Tensor  # (4h)

    @classmethod
    def of(cls, gru: nn.GRU, layer: int, direction: int) -> _Weights:
        name = f"l{layer}{'_reverse' if direction else ''}"
        of_input, of_hidden, input_bias, hidden_bias = (
            torch.cat([gates, new * 2])
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            for gates, new in [getattr(gru, f"{kind}_{name}").split([2 * gru.hidden_size, gru.hidden_size])]
        )
        size = gru.hidden_size
        gates = input_bias[: 2 * size] + hidden_bias[: 2 * size]
        bias = torch.cat([hidden_bias[2 * size :], gates, input_bias[2 * size :]])
        return cls(of_input.t().contiguous(), of_hidden.roll(size, 0).t().contiguous(), bias)


@torch.no_grad()
def read(gru: nn.GRU, embedding: Tensor, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """What ``gru`` makes of padded documents: equal to packing them, up to rounding.

    embedding (V, i), ids (B, T), lengths (B) -> states (B, T, D * h), zero at padding, and the last layer's final ones
    (B, D * h)
    """
    directions, size, (batch, steps) = directions_of(gru), gru.hidden_size, ids.shape
    lengths, order = lengths.sort(descending=True, stable=True)
    padding = torch.arange(steps, device=lengths.device).unsqueeze(1) >= lengths  # (T, B)
    words, numbers = ids.t().index_select(1, order).unique(return_inverse=True)
    numbers.masked_fill_(padding, len(words))  # (T, B): a number of its own for padding
    embedded, states, blocks = embedding[words], embedding.new_empty(0), _blocks(lengths, 4 * size)
    for layer in range(gru.num_layers):
        before, states = states, embedding.new_empty(steps, batch, directions * size)
        for direction, part in enumerate(states.split(size, 2)):
            weights = _Weights.of(gru, layer, direction)
            enter = _states(weights, before, padding) if layer else _words(weights, embedded, numbers)
            _run(enter, weights, part, blocks[::-1] if direction else blocks, backwards=direction == 1)
    last = states[lengths - 1, torch.arange(batch, device=lengths.device), :size]
    document = torch.cat([last, states[0, :, size:]], 1)  # (B, D * h)
    states.masked_fill_(padding.unsqueeze(2), 0.0)
    if not order.equal(order.sort().values):
        states, document = states.index_select(1, order.argsort()), document.index_select(0, order.argsort())
    return states.transpose(0, 1), document


def _words(weights: _Weights, embedded: Tensor, numbers: Tensor) -> _Enter:
    """The first layer: rows of a table, given the words' embeddings (words, i), and which word is where (T, B)."""
    size = len(weights.of_hidden)
    table = weights.bias.repeat(len(embedded) + 1, 1)  # (words + 1, 4h); the last row is padding's
    table[:-1, size:].addmm_(embedded, weights.of_input)
    table[-1, 2 * size : 3 * size] = torch.inf

    def enter(block: _Block, out: Tensor) -> None:
        torch.index_select(table, 0, numbers[block.place].flatten(), out=out.flatten(0, 1))

    return enter


def _states(weights: _Weights, before: Tensor, padding: Tensor) -> _Enter:
    """A further layer: products with the states (T, B, D * h) of the layer before."""
    size = len(weights.of_hidden)

    def enter(block: _Block, out: Tensor) -> None:
        out[..., :size] = weights.bias[:size]
        tokens = before[block.place].flatten(0, 1)  # (count * rows, D * h)
        torch.addmm(weights.bias[size:], tokens, weights.of_input, out=out.flatten(0, 1)[:, size:])
        if padding[block.end - 1, block.rows - 1]:  # the shortest document's last token: there is padding
            out[..., 2 * size : 3 * size].masked_fill_(padding[block.place].unsqueeze(2), torch.inf)

    return enter


def _run(enter: _Enter, weights: _Weights, states: Tensor, blocks: list[_Block], backwards: bool) -> None:
    """Write the states (T, B, h) of a layer in one direction, where documents have tokens."""
    size = states.size(2)
    gates = room = states.new_empty(max((block.end - block.first) * block.rows for block in blocks) * 4 * size)
    hidden, minus_one = states.new_zeros(blocks[0].rows, size), states.new_tensor(-1.0)
    views: list[tuple[Tensor, ...]] = []
    for block in blocks:
        shape = block.end - block.first, block.rows, 4 * size
        if gates.shape != shape:  # making views takes as long as working on them
            gates = room[: math.prod(shape)].view(shape)
            columns = gates[..., : 3 * size], gates[..., size : 3 * size], *gates.split(size, 2)
            views = list(zip(*(tensor.unbind(0) for tensor in columns), strict=True))
        enter(block, gates)
        hidden = F.pad(hidden[: block.rows], (0, 0, 0, max(0, block.rows - len(hidden))))  # or those that begin
        steps = list(zip(views, states[block.place].unbind(0), strict=True))
        for (of_hidden, sigmoids, recurrent, reset, update, new), after in reversed(steps) if backwards else steps:
            of_hidden.addmm_(hidden, weights.of_hidden)
            sigmoids.sigmoid_()
            torch.add(minus_one, new.addcmul_(reset, recurrent).sigmoid_(), alpha=2, out=new)
            hidden = torch.lerp(new, hidden, update, out=after)
