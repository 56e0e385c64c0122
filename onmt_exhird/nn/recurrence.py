"""The recurrence of the hierarchical decoder over a whole target, with its gradient.

The equations are those of `onmt_exhird.nn.hierarchical`. Left to autograd, every time step would add
a gradient of the size of the documents' states, twice, and one of the size of every weight matrix. Here the
backward loop only carries the gradients from step to step; what sums over the steps is summed
by one matrix product each at the end. At 10 documents of 200 source and 40 target tokens that is more than
twice as fast.

T is the target's length, B the batch, S the source's length, d the hidden size, k the rows that begin a phrase.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from onmt_exhird.nn.attention import scores
from onmt_exhird.nn.gru import Gates, cell


class Weights(NamedTuple):
    """The decoder's parameters; gates in torch's order: reset, update, new."""

    phrase_ih: Tensor  # (3d, d) GRU_1
    phrase_hh: Tensor  # (3d, d)
    phrase_bias_ih: Tensor  # (3d)
    phrase_bias_hh: Tensor  # (3d)
    phrase_attention: Tensor  # (d, d) W_1
    word_ih: Tensor  # (3d, d) GRU_2, the part that acts on h~
    word_hh: Tensor  # (3d, d)
    word_bias_hh: Tensor  # (3d)
    word_attention: Tensor  # (d, d) W_alpha
    combine: Tensor  # (d, 2d) W_2


def _transposed(weight: Tensor, uses: int) -> Tensor:
    """The transpose, laid out anew if it is used often enough: products with few rows then take half the time."""
    return weight.t().contiguous() if uses > 8 else weight.t()


class _Begun(NamedTuple):
    """The phrases that begin at one step."""

    rows: Tensor  # (k)
    gates: Gates
    attentional: Tensor  # (k, d) h~ of the step before
    hidden: Tensor  # (k, d) h_i
    query: Tensor  # (k, d) h_i^T W_1


class Recurrence(torch.autograd.Function):
    """Teacher forcing: the products of the embeddings with GRU_2 go in, everything else happens here.

    projected (T, B, 3d), starts (T, B), memory (B, S, d), bias (B, S), the four tensors of the
    state before, `Weights` -> h~ (T, B, d), attention (T, B, S), phrase scores (T, B, S; no gradient), the
    four tensors of the state after.
    """

    @staticmethod
    def forward(
        ctx: Any,
        projected: Tensor,
        starts: Tensor,
        memory: Tensor,
        bias: Tensor,
        phrase_hidden: Tensor,
        phrase_scores: Tensor,
        word_hidden: Tensor,
        attentional: Tensor,
        *parameters: Tensor,
    ) -> tuple[Tensor, ...]:
        w = Weights(*parameters)
        steps, batch, _ = projected.shape
        size = word_hidden.size(1)
        phrase_ih, phrase_hh = _transposed(w.phrase_ih, steps), _transposed(w.phrase_hh, steps)
        word_ih, word_hh, combine = (_transposed(weight, steps) for weight in (w.word_ih, w.word_hh, w.combine))
        combined = projected.new_empty(steps, batch, 2 * size)  # [h_{i,j}; context]
        attentionals = projected.new_empty(steps, batch, size)
        entering = projected.new_empty(steps, batch, size)  # the h~ that enters GRU_2
        queries = projected.new_empty(steps, batch, size)  # h_{i,j}^T W_alpha
        attentions = projected.new_empty(steps, batch, memory.size(1))
        all_scores = torch.empty_like(attentions)  # of the phrase level
        gates: list[Gates] = []
        begun: list[_Begun | None] = []

        for t, start in enumerate(starts.unbind(0)):
            rows = start.nonzero().squeeze(1)
            begun.append(None)
            if rows.numel():
                last = attentional.index_select(0, rows)  # (k, d) h~_{i-1,end}
                earlier = phrase_hidden.index_select(0, rows)  # (k, d) h_{i-1}
                hidden, phrase_gates = cell(
                    torch.addmm(w.phrase_bias_ih, last, phrase_ih),
                    torch.addmm(w.phrase_bias_hh, earlier, phrase_hh),
                    earlier,
                )
                query = hidden @ w.phrase_attention  # (k, d)
                new_scores = scores(query, memory.index_select(0, rows), bias.index_select(0, rows))  # (k, S)
                phrase_hidden = phrase_hidden.index_copy(0, rows, hidden)
                phrase_scores = phrase_scores.index_copy(0, rows, new_scores)
                word_hidden = word_hidden.index_copy(0, rows, hidden)
                attentional = attentional.index_fill(0, rows, 0.0)
                begun[t] = _Begun(rows, phrase_gates, last, hidden, query)
            all_scores[t] = phrase_scores
            entering[t] = attentional
            word_hidden, word_gates = cell(
                torch.addmm(projected[t], attentional, word_ih),
                torch.addmm(w.word_bias_hh, word_hidden, word_hh),
                word_hidden,
            )
            gates.append(word_gates)
            torch.mm(word_hidden, w.word_attention, out=queries[t])
            torch.softmax(scores(queries[t], memory, phrase_scores), 1, out=attentions[t])
            combined[t, :, :size] = word_hidden
            combined[t, :, size:] = torch.bmm(attentions[t].unsqueeze(1), memory).squeeze(1)
            attentional = torch.mm(combined[t], combine, out=attentionals[t]).tanh_()

        ctx.save_for_backward(memory, attentionals, attentions, *parameters)
        ctx.tape = (entering, queries, combined, gates, begun)
        ctx.mark_non_differentiable(all_scores)
        return attentionals, attentions, all_scores, phrase_hidden, phrase_scores, word_hidden, attentional.clone()

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any,
        d_attentionals: Tensor,
        d_attentions: Tensor,
        _: Tensor,
        d_phrase: Tensor,
        d_scores: Tensor,
        d_word: Tensor,
        d_attentional: Tensor,
    ) -> tuple[Tensor | None, ...]:
        memory, attentionals, attentions, *parameters = ctx.saved_tensors
        entering, queries, combined, gates, begun = ctx.tape
        w = Weights(*parameters)
        steps, _, size = attentionals.shape
        stacked = Gates(*(torch.stack(values) for values in zip(*gates, strict=True)))
        slopes = stacked.slopes()  # (T, B, 4, d)
        tanh_slopes = 1 - attentionals * attentionals
        # The input's gates come as new, reset, update: rolled by one gate.
        word_ih, phrase_ih = w.word_ih.roll(size, 0), w.phrase_ih.roll(size, 0)
        word_attention, phrase_attention = (_transposed(m, steps) for m in (w.word_attention, w.phrase_attention))

        d_gates = torch.empty_like(slopes)  # (T, B, 4, d)
        d_outputs = torch.empty_like(attentionals)  # before the tanh
        d_contexts = torch.empty_like(attentionals)
        d_queries = torch.empty_like(attentionals)
        d_totals = torch.empty_like(attentions)  # of the word level's scores
        phrase_queries = torch.zeros_like(attentionals)
        d_phrase_scores = torch.zeros_like(attentions)
        d_phrase_gates, d_phrase_queries = [], []
        d_phrase, d_scores = d_phrase.clone(), d_scores.clone()

        for t in reversed(range(steps)):
            torch.mul(d_attentionals[t] + d_attentional, tanh_slopes[t], out=d_outputs[t])
            from_word, d_context = (d_outputs[t] @ w.combine).split(size, 1)
            d_contexts[t] = d_context
            d_attention = scores(d_context, memory, d_attentions[t])
            weighted = d_attention.mul_(attentions[t])
            torch.addcmul(weighted, attentions[t], weighted.sum(1, keepdim=True), value=-1, out=d_totals[t])
            d_scores += d_totals[t]
            d_queries[t] = torch.bmm(d_totals[t].unsqueeze(1), memory).squeeze(1)
            d_new = torch.addmm(d_word + from_word, d_queries[t], word_attention)  # (B, d)
            torch.mul(d_new.unsqueeze(1), slopes[t], out=d_gates[t])
            d_attentional = d_gates[t, :, :3].flatten(1) @ word_ih
            d_word = torch.addmm(d_new * stacked.update[t], d_gates[t, :, 1:].flatten(1), w.word_hh)

            if (phrases := begun[t]) is not None:
                rows = phrases.rows
                d_own = d_scores.index_select(0, rows)  # (k, S)
                d_phrase_scores[t].index_copy_(0, rows, d_own)
                phrase_queries[t].index_copy_(0, rows, phrases.query)
                d_query = torch.bmm(d_own.unsqueeze(1), memory.index_select(0, rows)).squeeze(1)  # (k, d)
                d_hidden = torch.addmm((d_phrase + d_word).index_select(0, rows), d_query, phrase_attention)
                by_gate = d_hidden.unsqueeze(1) * phrases.gates.slopes()  # (k, 4, d)
                d_earlier = torch.addmm(d_hidden * phrases.gates.update, by_gate[:, 1:].flatten(1), w.phrase_hh)
                d_phrase.index_copy_(0, rows, d_earlier)
                d_attentional.index_copy_(0, rows, by_gate[:, :3].flatten(1) @ phrase_ih)
                # What entered the word level came from the phrase step, not from the word before.
                d_scores.index_fill_(0, rows, 0.0)
                d_word.index_fill_(0, rows, 0.0)
                d_phrase_gates.append(by_gate)
                d_phrase_queries.append(d_query)

        # One product over all steps for each sum over steps.
        by_input = d_gates[:, :, :3].flatten(2)  # (T, B, 3d)
        by_hidden = d_gates[:, :, 1:].flatten(2)
        scores_side = torch.cat([d_totals, attentions, d_phrase_scores])  # (3T, B, S)
        vectors_side = torch.cat([queries, d_contexts, phrase_queries])  # (3T, B, d)
        d_memory = torch.bmm(scores_side.permute(1, 2, 0), vectors_side.transpose(0, 1))  # (B, S, d)
        d_phrase_weights = _phrase_gradients(w, begun, d_phrase_gates, d_phrase_queries)
        d_word_weights = (
            (by_input.flatten(0, 1).t() @ entering.flatten(0, 1)).roll(-size, 0),
            by_hidden.flatten(0, 1).t() @ stacked.before.flatten(0, 1),
            by_hidden.sum((0, 1)),
            combined[:, :, :size].flatten(0, 1).t() @ d_queries.flatten(0, 1),
            d_outputs.flatten(0, 1).t() @ combined.flatten(0, 1),
        )
        d_projected = by_input.roll(-size, 2)
        d_state = (d_phrase, d_scores, d_word, d_attentional)
        return d_projected, None, d_memory, None, *d_state, *d_phrase_weights, *d_word_weights


def _phrase_gradients(
    w: Weights, begun: list[_Begun | None], d_gates: list[Tensor], d_queries: list[Tensor]
) -> tuple[Tensor, ...]:
    """The gradients of GRU_1 and W_1, over all phrases at once; the lists are in the order of the backward pass."""
    phrases = [p for p in reversed(begun) if p is not None]
    if not phrases:
        return tuple(torch.zeros_like(weight) for weight in w[:5])
    size = w.phrase_attention.size(0)
    by_gate = torch.cat(d_gates)  # (phrases, 4, d)
    by_input, by_hidden = by_gate[:, :3].flatten(1), by_gate[:, 1:].flatten(1)  # (phrases, 3d)
    return (
        (by_input.t() @ torch.cat([p.attentional for p in phrases])).roll(-size, 0),
        by_hidden.t() @ torch.cat([p.gates.before for p in phrases]),
        by_input.sum(0).roll(-size, 0),
        by_hidden.sum(0),
        torch.cat([p.hidden for p in phrases]).t() @ torch.cat(d_queries),
    )
