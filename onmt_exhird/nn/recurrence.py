"""The recurrence of the hierarchical decoder over a whole target, with its gradient.

The equations are those of `onmt_exhird.nn.hierarchical`. Left to autograd, every time step would add
a gradient of the size of the documents' states, twice, and one of the size of every weight matrix. Here the
backward loop only carries the gradients from step to step; what sums over the steps is summed
by one matrix product each at the end. At 10 documents of 200 source and 40 target tokens that is more than
twice as fast. A document whose target has ended takes no part in further steps.

T is the longest target's length, N the number of target tokens, B the batch, S the source's length, d the hidden
size, k the rows that begin a phrase. Target tokens are packed as torch packs sequences: the documents go from the one
with the longest target to the one with the shortest, and a step's tokens, of the first n documents, follow those of
the step before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

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


def _steps(sizes: Tensor) -> list[slice]:
    """Where the tokens of each step are.

    >>> _steps(torch.tensor([3, 3, 1]))
    [slice(0, 3, None), slice(3, 6, None), slice(6, 7, None)]
    """
    ends = sizes.cumsum(0)
    return [slice(*bounds) for bounds in zip((ends - sizes).tolist(), ends.tolist(), strict=True)]


class Recurrence(torch.autograd.Function):
    """Teacher forcing: the products of the embeddings with GRU_2 go in, everything else happens here.

    projected (N, 3d), starts (N), documents at each step (T), memory (B, S, d), bias (B, S), the four tensors of the
    state before, `Weights` -> h~ (N, d), attention (N, S), phrase scores (N, S; no gradient)
    """

    @staticmethod
    def forward(
        ctx: Any,
        projected: Tensor,
        starts: Tensor,
        sizes: Tensor,
        memory: Tensor,
        bias: Tensor,
        phrase_hidden: Tensor,
        phrase_scores: Tensor,
        word_hidden: Tensor,
        attentional: Tensor,
        *parameters: Tensor,
    ) -> tuple[Tensor, ...]:
        w = Weights(*parameters)
        tokens, steps, size = len(projected), len(sizes), word_hidden.size(1)
        phrase_ih, phrase_hh = _transposed(w.phrase_ih, steps), _transposed(w.phrase_hh, steps)
        word_ih, word_hh, combine = (_transposed(weight, steps) for weight in (w.word_ih, w.word_hh, w.combine))
        combined = projected.new_empty(tokens, 2 * size)  # [h_{i,j}; context]
        attentionals = projected.new_empty(tokens, size)
        entering = projected.new_empty(tokens, size)  # the h~ that enters GRU_2
        queries = projected.new_empty(tokens, size)  # h_{i,j}^T W_alpha
        attentions = projected.new_empty(tokens, memory.size(1))
        all_scores = torch.empty_like(attentions)  # of the phrase level
        gates: list[Gates] = []
        begun: list[_Begun | None] = []

        for now, n in zip(_steps(sizes), sizes.tolist(), strict=True):
            states = memory[:n]
            phrase_hidden, phrase_scores, word_hidden, attentional = (
                tensor[:n] for tensor in (phrase_hidden, phrase_scores, word_hidden, attentional)
            )
            rows = starts[now].nonzero().squeeze(1)
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
                new_scores = scores(query, states.index_select(0, rows), bias.index_select(0, rows))  # (k, S)
                phrase_hidden = phrase_hidden.index_copy(0, rows, hidden)
                phrase_scores = phrase_scores.index_copy(0, rows, new_scores)
                word_hidden = word_hidden.index_copy(0, rows, hidden)
                attentional = attentional.index_fill(0, rows, 0.0)
                begun[-1] = _Begun(rows, phrase_gates, last, hidden, query)
            all_scores[now] = phrase_scores
            entering[now] = attentional
            word_hidden, word_gates = cell(
                torch.addmm(projected[now], attentional, word_ih),
                torch.addmm(w.word_bias_hh, word_hidden, word_hh),
                word_hidden,
            )
            gates.append(word_gates)
            query = torch.mm(word_hidden, w.word_attention, out=queries[now])
            attention = torch.softmax(scores(query, states, phrase_scores), 1, out=attentions[now])
            combined[now, :size] = word_hidden
            combined[now, size:] = torch.bmm(attention.unsqueeze(1), states).squeeze(1)
            attentional = torch.mm(combined[now], combine, out=attentionals[now]).tanh_()

        ctx.save_for_backward(memory, attentionals, attentions, *parameters)
        ctx.tape = (sizes, entering, queries, combined, gates, begun)
        ctx.mark_non_differentiable(all_scores)
        return attentionals, attentions, all_scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_attentionals: Tensor, d_attentions: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        memory, attentionals, attentions, *parameters = ctx.saved_tensors
        sizes, entering, queries, combined, gates, begun = ctx.tape
        w = Weights(*parameters)
        batch, size = len(memory), attentionals.size(1)
        tape = Gates(*map(torch.cat, zip(*gates, strict=True)))
        slopes = tape.slopes()  # (N, 4, d)
        tanh_slopes = 1 - attentionals * attentionals
        # The input's gates come as new, reset, update: rolled by one gate.
        word_ih, phrase_ih = w.word_ih.roll(size, 0), w.phrase_ih.roll(size, 0)
        word_attention, phrase_attention = (_transposed(m, len(sizes)) for m in (w.word_attention, w.phrase_attention))

        d_gates = torch.empty_like(slopes)  # (N, 4, d)
        d_outputs = d_attentionals * tanh_slopes  # before the tanh; what later steps ask for is added
        d_contexts = torch.empty_like(attentionals)
        d_queries = torch.empty_like(attentionals)
        d_totals = torch.empty_like(attentions)  # of the word level's scores
        phrase_queries = torch.zeros_like(attentionals)
        d_phrase_scores = torch.zeros_like(attentions)
        d_phrase_gates, d_phrase_queries = [], []
        # The gradients of a state are those of the documents that the step after it has.
        d_phrase = memory.new_zeros(batch, size)
        d_scores = memory.new_zeros(batch, memory.size(1))
        d_word = d_attentional = memory.new_zeros(0, size)

        for now, n, phrases in zip(*map(reversed, (_steps(sizes), sizes.tolist(), begun)), strict=True):
            later, states, attention = len(d_word), memory[:n], attentions[now]
            d_output = d_outputs[now]
            d_output[:later].addcmul_(d_attentional, tanh_slopes[now][:later])
            from_word, d_context = (d_output @ w.combine).split(size, 1)
            d_contexts[now] = d_context
            weighted = scores(d_context, states, d_attentions[now]).mul_(attention)
            d_total = torch.addcmul(weighted, attention, weighted.sum(1, keepdim=True), value=-1, out=d_totals[now])
            d_scores[:n] += d_total
            d_query = torch.bmm(d_total.unsqueeze(1), states, out=d_queries[now].unsqueeze(1)).squeeze(1)
            from_word[:later] += d_word
            d_new = torch.addmm(from_word, d_query, word_attention)  # (n, d)
            d_gate = torch.mul(d_new.unsqueeze(1), slopes[now], out=d_gates[now])
            d_attentional = d_gate[:, :3].flatten(1) @ word_ih
            d_word = torch.addmm(d_new * tape.update[now], d_gate[:, 1:].flatten(1), w.word_hh)

            if phrases is not None:
                rows = phrases.rows
                d_own = d_scores.index_select(0, rows)  # (k, S)
                d_phrase_scores[now].index_copy_(0, rows, d_own)
                phrase_queries[now].index_copy_(0, rows, phrases.query)
                d_query = torch.bmm(d_own.unsqueeze(1), states.index_select(0, rows)).squeeze(1)  # (k, d)
                d_hidden = torch.addmm((d_phrase[:n] + d_word).index_select(0, rows), d_query, phrase_attention)
                by_gate = d_hidden.unsqueeze(1) * phrases.gates.slopes()  # (k, 4, d)
                d_earlier = torch.addmm(d_hidden * phrases.gates.update, by_gate[:, 1:].flatten(1), w.phrase_hh)
                d_phrase.index_copy_(0, rows, d_earlier)
                d_attentional.index_copy_(0, rows, by_gate[:, :3].flatten(1) @ phrase_ih)
                # What entered the word level came from the phrase step, not from the word before.
                d_scores.index_fill_(0, rows, 0.0)
                d_word.index_fill_(0, rows, 0.0)
                d_phrase_gates.append(by_gate)
                d_phrase_queries.append(d_query)

        # One product over all tokens for each sum over tokens.
        by_input, by_hidden = d_gates[:, :3].flatten(1), d_gates[:, 1:].flatten(1)  # (N, 3d)
        d_phrase_weights = _phrase_gradients(w, begun, d_phrase_gates, d_phrase_queries)
        d_word_weights = (
            (by_input.t() @ entering).roll(-size, 0),
            by_hidden.t() @ tape.before,
            by_hidden.sum(0),
            combined[:, :size].t() @ d_queries,
            d_outputs.t() @ combined,
        )
        scores_side, vectors_side = (
            torch.cat([pad_packed_sequence(PackedSequence(tensor, sizes))[0] for tensor in side])  # (3T, B, S or d)
            for side in ((d_totals, attentions, d_phrase_scores), (queries, d_contexts, phrase_queries))
        )
        d_memory = torch.bmm(scores_side.permute(1, 2, 0), vectors_side.transpose(0, 1))  # (B, S, d)
        d_state = (d_phrase, d_scores, d_word, d_attentional)
        return by_input.roll(-size, 1), None, None, d_memory, None, *d_state, *d_phrase_weights, *d_word_weights


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
