"""The encoder of a search: what `onmt_exhird.nn.gru` computes, where nobody wants a gradient.

Each direction writes its states where they are wanted, the second from the end of the longest document. At padding the
update gate is one: a state that has read all of its document, or has not begun, stays as it is. So nothing is put into
another order before or after. What a word's embedding gives the first layer is computed once for all its places.

D is the number of directions, T the longest document, B the batch, h the hidden size, i the input's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from onmt_exhird.nn.gru import directions_of

_CACHED = 2**18  # numbers of the gates of some steps, which stay in a core's cache

# Writes the input's part of the gates of some steps, a slice of T, into (count, B, 4h).
_Enter = Callable[[slice, Tensor], None]


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
    padding = torch.arange(steps, device=lengths.device).unsqueeze(1) >= lengths  # (T, B)
    words, numbers = ids.t().unique(return_inverse=True)
    numbers.masked_fill_(padding, len(words))  # (T, B): a number of its own for padding
    embedded, states = embedding[words], embedding.new_empty(0)
    for layer in range(gru.num_layers):
        before, states = states, embedding.new_empty(batch, steps, directions * size)
        for direction, part in enumerate(states.split(size, 2)):
            weights = _Weights.of(gru, layer, direction)
            enter = _states(weights, before, padding) if layer else _words(weights, embedded, numbers)
            _run(enter, weights, part, backwards=direction == 1)
    document = torch.cat([states[:, steps - 1, :size], states[:, 0, size:]], 1)
    return states.masked_fill_(padding.t().unsqueeze(2), 0.0), document


def _words(weights: _Weights, embedded: Tensor, numbers: Tensor) -> _Enter:
    """The first layer: rows of a table, given the words' embeddings (words, i), and which word is where (T, B)."""
    size = len(weights.of_hidden)
    table = weights.bias.repeat(len(embedded) + 1, 1)  # (words + 1, 4h); the last row is padding's
    table[:-1, size:].addmm_(embedded, weights.of_input)
    table[-1, 2 * size : 3 * size] = torch.inf

    def enter(steps: slice, out: Tensor) -> None:
        torch.index_select(table, 0, numbers[steps].flatten(), out=out.flatten(0, 1))

    return enter


def _states(weights: _Weights, before: Tensor, padding: Tensor) -> _Enter:
    """A further layer: products with the states (B, T, D * h) of the layer before."""
    size = len(weights.of_hidden)
    whole = int((~padding).sum(0).min())  # steps without padding

    def enter(steps: slice, out: Tensor) -> None:
        out[..., :size] = weights.bias[:size]
        tokens = before[:, steps].transpose(0, 1).flatten(0, 1)  # (count * B, D * h)
        torch.addmm(weights.bias[size:], tokens, weights.of_input, out=out.flatten(0, 1)[:, size:])
        if steps.stop > whole:
            out[..., 2 * size : 3 * size].masked_fill_(padding[steps].unsqueeze(2), torch.inf)

    return enter


def _run(enter: _Enter, weights: _Weights, states: Tensor, backwards: bool) -> None:
    """Write the states (B, T, h) of a layer in one direction."""
    batch, steps, size = states.shape
    at_once = min(steps, max(1, _CACHED // max(1, batch * 4 * size)))
    gates = states.new_empty(at_once, batch, 4 * size)
    hidden, after, minus_one = states.new_zeros(batch, size), states.unbind(1), states.new_tensor(-1.0)
    # Views are made once: making them takes as long as working on them.
    columns = gates[..., : 3 * size], gates[..., size : 3 * size], *gates.split(size, 2)
    views = list(zip(*(tensor.unbind(0) for tensor in columns), strict=True))
    firsts = range(0, steps, at_once)
    for first in reversed(firsts) if backwards else firsts:
        count = min(at_once, steps - first)
        enter(slice(first, first + count), gates[:count])
        numbers = range(count)
        for number in reversed(numbers) if backwards else numbers:
            of_hidden, sigmoids, recurrent, reset, update, new = views[number]
            of_hidden.addmm_(hidden, weights.of_hidden)
            sigmoids.sigmoid_()
            torch.add(minus_one, new.addcmul_(reset, recurrent).sigmoid_(), alpha=2, out=new)
            hidden = torch.lerp(new, hidden, update, out=after[first + number])
