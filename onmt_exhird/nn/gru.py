"""GRUs with gradients of their own: a cell after its products, and layers over padded documents.

    r = sigmoid(a_r + c_r)      a = W_ih x + b_ih
    z = sigmoid(a_z + c_z)      c = W_hh h + b_hh
    n = tanh(a_n + r * c_n)
    h' = (1 - z) * n + z * h

torch's own GRU on a CPU writes, for every time step, a gradient of the size of the whole input; over packed
documents of 190 tokens that takes more than half of a training step. Here the backward loop carries one state from
step to step, and what sums over the steps is one matrix product at the end. Both directions go through the loop
together.

D is the number of directions, T the source's length, B the batch, h the hidden size, i the input's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

_CACHED = 2**18  # numbers that passes over a tape leave in a core's cache


class Gates(NamedTuple):
    """What a cell's backward pass needs of its forward pass, each (..., h)."""

    reset: Tensor
    update: Tensor
    new: Tensor
    recurrent: Tensor  # c_n
    before: Tensor  # the hidden state that entered

    def slopes(self, out: Tensor | None = None) -> Tensor:
        """The derivative of the cell's output by its pre-activations (..., 4, h).

        In the order a_n, r, z, c_n: the first three belong to the input's product, rolled by one gate,
        the last three to the hidden state's.
        """
        r, z, n, recurrent, before = self
        if out is None:
            out = r.new_empty(*r.shape[:-1], 4, r.size(-1))
        by_new, by_reset, by_update, by_recurrent = out.unbind(-2)
        rest = 1 - z
        torch.addcmul(rest, rest, n * n, value=-1, out=by_new)  # (1 - z) (1 - n^2)
        torch.mul(by_new, r, out=by_recurrent)
        by_r = by_recurrent * recurrent
        torch.addcmul(by_r, by_r, r, value=-1, out=by_reset)  # (1 - z) (1 - n^2) c_n r (1 - r)
        torch.mul((before - n).mul_(z), rest, out=by_update)  # (h - n) z (1 - z)
        return out


def tanh_(x: Tensor) -> Tensor:
    """Tensor.tanh_, which on a CPU takes six times as long as a sigmoid."""
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


def cell(from_input: Tensor, from_hidden: Tensor, hidden: Tensor) -> tuple[Tensor, Gates]:
    """A GRU cell after its two products: a (k, 3h), c (k, 3h), (k, h) -> (k, h)."""
    size = hidden.size(1)
    reset, update = torch.sigmoid(from_input[:, : 2 * size] + from_hidden[:, : 2 * size]).chunk(2, 1)
    recurrent = from_hidden[:, 2 * size :]
    new = tanh_(torch.addcmul(from_input[:, 2 * size :], reset, recurrent))
    return torch.lerp(new, hidden, update), Gates(reset, update, new, recurrent, hidden)


def reading_order(lengths: Tensor, src_len: int, directions: int) -> Tensor:
    """Which token of the flattened batch each direction reads at each step: lengths (B) -> (D, T * B).

    The second direction reads a document from its own last token; the padding stays behind it.

    >>> reading_order(torch.tensor([3, 2]), 3, 2).view(2, 3, 2).tolist()  # two documents: 0 1 2 and 3 4 (5)
    [[[0, 3], [1, 4], [2, 5]], [[2, 4], [1, 3], [0, 5]]]
    """
    step = torch.arange(src_len, device=lengths.device).unsqueeze(1)  # (T, 1)
    document = torch.arange(len(lengths), device=lengths.device)  # (B)
    backwards = torch.where(step < lengths, lengths - 1 - step, step)  # (T, B)
    steps = torch.stack([step.expand_as(backwards), backwards])[:directions]  # (D, T, B)
    return (document * src_len + steps).flatten(1)


class _Layer(torch.autograd.Function):
    """x (B, T, i), order (D, T * B), W_ih (D, 3h, i), W_hh (D, 3h, h), b_ih (D, 3h), b_hh (D, 3h) -> (B, T, D * h).

    What stands at padding is of no document: whoever reads it, or sends a gradient there, is wrong.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, order: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor, bias_hh: Tensor
    ) -> Tensor:
        batch, steps, _ = x.shape
        directions, size = weight_hh.size(0), weight_hh.size(2)
        learning = any(ctx.needs_input_grad)
        at_once = max(1, _CACHED // (directions * batch * 3 * size))
        kept = steps if learning else min(at_once, steps)  # in search nothing of it is needed again
        inputs = x.new_empty(directions, kept, batch, 3 * size)  # the input's products, become r, z, n
        recurrent = x.new_empty(directions, kept if learning else 1, batch, 3 * size)
        states = x.new_zeros(directions, steps + 1, batch, size)
        weight, bias = weight_hh.transpose(1, 2).contiguous(), bias_hh.unsqueeze(1)
        of_steps, hidden = recurrent.expand(-1, kept, -1, -1), states.unbind(1)
        entering = x.flatten(0, 1).index_select(0, order.flatten()).unflatten(0, (directions, -1))  # (D, T * B, i)

        for first in range(0, steps, at_once):
            count = min(at_once, steps - first)
            chunk = slice(first, first + count) if learning else slice(0, count)
            part = inputs[:, chunk]  # (D, count, B, 3h)
            tokens = entering[:, first * batch : (first + count) * batch]
            torch.baddbmm(bias_ih.unsqueeze(1), tokens, weight_ih.transpose(1, 2), out=part.flatten(1, 2))
            products = of_steps[:, chunk]
            for before, after, product, gates, for_gates, news, for_news, reset, update in zip(
                hidden[first : first + count],
                hidden[first + 1 : first + count + 1],
                products.unbind(1),
                part[..., : 2 * size].unbind(1),
                products[..., : 2 * size].unbind(1),
                part[..., 2 * size :].unbind(1),
                products[..., 2 * size :].unbind(1),
                part[..., :size].unbind(1),
                part[..., size : 2 * size].unbind(1),
                strict=True,
            ):
                torch.baddbmm(bias, before, weight, out=product)
                gates.add_(for_gates).sigmoid_()
                tanh_(news.addcmul_(reset, for_news))
                torch.lerp(news, before, update, out=after)

        ctx.save_for_backward(order, entering, weight_ih, weight_hh, inputs, recurrent, states)
        by_token = x.new_empty(batch * steps, directions, size)
        for direction in range(directions):
            by_token[:, direction].index_copy_(0, order[direction], states[direction, 1:].flatten(0, 1))
        return by_token.view(batch, steps, directions * size)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        order, entering, weight_ih, weight_hh, inputs, recurrent, states = ctx.saved_tensors
        directions, steps, batch, _ = inputs.shape
        size = weight_hh.size(2)
        by_direction = grad.reshape(batch * steps, directions, size)
        wanted = torch.stack([by_direction[:, d].index_select(0, order[d]) for d in range(directions)])
        wanted = wanted.unflatten(1, (steps, batch))  # (D, T, B, h)
        reset, update, new = inputs.split(size, 3)
        tape = Gates(reset, update, new, recurrent[..., 2 * size :], states[:, :-1])

        d_hidden = torch.zeros_like(states[:, 0])  # (D, B, h)
        d_gates = inputs.new_empty(directions, steps, batch, 4, size)
        by_hidden = d_gates[..., 1:, :].flatten(3)  # (D, T, B, 3h)
        at_once = max(1, _CACHED // d_gates[:, 0].numel())
        for first in reversed(range(0, steps, at_once)):
            chunk = slice(first, first + at_once)
            Gates(*(tensor[:, chunk] for tensor in tape)).slopes(out=d_gates[:, chunk])
            for d_state, slope, d_recurrent, keep in zip(
                *(reversed(tensor[:, chunk].unbind(1)) for tensor in (wanted, d_gates, by_hidden, update)), strict=True
            ):
                d_state += d_hidden
                slope.mul_(d_state.unsqueeze(2))
                d_hidden = torch.baddbmm(d_state.mul_(keep), d_recurrent, weight_hh)

        by_input, by_hidden = d_gates[..., :3, :].flatten(3).flatten(1, 2), by_hidden.flatten(1, 2)  # (D, T * B, 3h)
        before = states[:, :-1].flatten(1, 2)  # (D, T * B, h)
        d_x = grad.new_zeros(batch * steps, entering.size(2))
        d_weights = []
        for d in range(directions):
            d_x.index_add_(0, order[d], by_input[d] @ weight_ih[d].roll(size, 0))
            d_weights.append((by_input[d].t() @ entering[d], by_hidden[d].t() @ before[d]))
        d_weight_ih, d_weight_hh = map(torch.stack, zip(*d_weights, strict=True))
        return (
            d_x.unflatten(0, (batch, steps)),
            None,
            d_weight_ih.roll(-size, 1),
            d_weight_hh,
            by_input.sum(1).roll(-size, 1),
            by_hidden.sum(1),
        )


def directions_of(gru: nn.GRU) -> int:
    return 2 if gru.bidirectional else 1


def encode(gru: nn.GRU, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """What ``gru`` makes of padded documents: equal to packing them, up to rounding.

    embedded (B, T, i), lengths (B) -> states (B, T, D * h), zero at padding, and the final ones (layers * D, B, h)
    """
    directions = directions_of(gru)
    steps = embedded.size(1)
    order = reading_order(lengths, steps, directions)
    is_padding = (torch.arange(steps, device=lengths.device) >= lengths.unsqueeze(1)).unsqueeze(2)  # (B, T, 1)
    ends = (lengths - 1).clamp_min(0)  # (B)
    documents = torch.arange(len(lengths), device=lengths.device)
    states, final = embedded, []
    for layer in range(gru.num_layers):
        names = [f"l{layer}{suffix}" for suffix in ("", "_reverse")[:directions]]
        weights = (
            torch.stack([getattr(gru, f"{kind}_{name}") for name in names])
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        if layer and gru.dropout:
            states = F.dropout(states, gru.dropout, gru.training)
        states = _Layer.apply(states, order, *weights).masked_fill(is_padding, 0.0)
        forwards, *backwards = states.unflatten(2, (directions, -1)).unbind(2)  # (B, T, h)
        final += [forwards[documents, ends], *(reverse[:, 0] for reverse in backwards)]
    return states, torch.stack(final)
