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


def _steps(sizes: Tensor) -> list[slice]:
    """Where the tokens of each step are.

    >>> _steps(torch.tensor([3, 3, 1]))
    [slice(0, 3, None), slice(3, 6, None), slice(6, 7, None)]
    """
    ends = sizes.cumsum(0)
    return [slice(*bounds) for bounds in zip((ends - sizes).tolist(), ends.tolist(), strict=True)]


class _State(NamedTuple):
    """What goes from step to step, of the n documents that take part; or the gradient of it."""

    phrase_hidden: Tensor  # (n, d) h_i
    phrase_scores: Tensor  # (n, S) s_i
    word_hidden: Tensor  # (n, d) h_{i,j}
    attentional: Tensor  # (n, d) h~_{i,j}


class _Begun(NamedTuple):
    """The phrases that begin at one step."""

    rows: Tensor  # (k)
    gates: Gates
    attentional: Tensor  # (k, d) h~ of the step before
    hidden: Tensor  # (k, d) h_i
    query: Tensor  # (k, d) h_i^T W_1


class _Tape(NamedTuple):
    """What the backward pass needs of the forward pass beside its inputs and outputs."""

    entering: Tensor  # (N, d) the h~ that enters GRU_2
    queries: Tensor  # (N, d) h_{i,j}^T W_alpha
    combined: Tensor  # (N, 2d) [h_{i,j}; context]
    gates: list[Gates]  # of GRU_2 at each step
    begun: list[_Begun | None]  # at each step


def _begin_phrases(w: Weights, rows: Tensor, states: Tensor, bias: Tensor, state: _State) -> tuple[_State, _Begun]:
    """The phrase step at some rows (k): states (n, S, d), bias (n, S). GRU_1's matrices come transposed."""
    last = state.attentional.index_select(0, rows)  # (k, d) h~_{i-1,end}
    earlier = state.phrase_hidden.index_select(0, rows)  # (k, d) h_{i-1}
    hidden, gates = cell(
        torch.addmm(w.phrase_bias_ih, last, w.phrase_ih),
        torch.addmm(w.phrase_bias_hh, earlier, w.phrase_hh),
        earlier,
    )
    query = hidden @ w.phrase_attention  # (k, d)
    phrase_scores = scores(query, states.index_select(0, rows), bias.index_select(0, rows))  # (k, S)
    begun = _State(
        state.phrase_hidden.index_copy(0, rows, hidden),
        state.phrase_scores.index_copy(0, rows, phrase_scores),
        state.word_hidden.index_copy(0, rows, hidden),
        state.attentional.index_fill(0, rows, 0.0),
    )
    return begun, _Begun(rows, gates, last, hidden, query)


class Recurrence(torch.autograd.Function):
    """Teacher forcing: the products of the embeddings with GRU_2 go in, everything else happens here.

    projected (N, 3d), starts (N), documents at each step (T), memory (B, S, d), bias (B, S), the four tensors of the
    state before, `Weights` -> h~ (N, d), attention (N, S), phrase scores (N, S; no gradient)
    """

    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, starts: Tensor, sizes: Tensor, memory: Tensor, bias: Tensor, *more: Tensor
    ) -> tuple[Tensor, ...]:
        state, parameters = _State(*more[:4]), more[4:]
        w = Weights(*parameters)
        turned = ("phrase_ih", "phrase_hh", "word_ih", "word_hh", "combine")
        w = w._replace(**{name: _transposed(getattr(w, name), len(sizes)) for name in turned})
        tokens, size = len(projected), state.word_hidden.size(1)
        attentionals, entering, queries = (projected.new_empty(tokens, size) for _ in range(3))
        attentions, phrase_scores = (projected.new_empty(tokens, memory.size(1)) for _ in range(2))
        tape = _Tape(entering, queries, projected.new_empty(tokens, 2 * size), [], [])

        for now, n in zip(_steps(sizes), sizes.tolist(), strict=True):
            states, begun = memory[:n], None
            state = _State(*(tensor[:n] for tensor in state))
            rows = starts[now].nonzero().squeeze(1)
            if rows.numel():
                state, begun = _begin_phrases(w, rows, states, bias, state)
            entering[now], phrase_scores[now] = state.attentional, state.phrase_scores
            word_hidden, gates = cell(
                torch.addmm(projected[now], state.attentional, w.word_ih),
                torch.addmm(w.word_bias_hh, state.word_hidden, w.word_hh),
                state.word_hidden,
            )
            query = torch.mm(word_hidden, w.word_attention, out=queries[now])
            attention = torch.softmax(scores(query, states, state.phrase_scores), 1, out=attentions[now])
            combined = tape.combined[now]
            combined[:, :size] = word_hidden
            combined[:, size:] = torch.bmm(attention.unsqueeze(1), states).squeeze(1)
            attentional = torch.mm(combined, w.combine, out=attentionals[now]).tanh_()
            state = state._replace(word_hidden=word_hidden, attentional=attentional)
            tape.gates.append(gates)
            tape.begun.append(begun)

        ctx.save_for_backward(sizes, memory, attentionals, attentions, *parameters)
        ctx.tape = tape
        ctx.mark_non_differentiable(phrase_scores)
        return attentionals, attentions, phrase_scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_attentionals: Tensor, d_attentions: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        sizes, memory, attentionals, attentions, *parameters = ctx.saved_tensors
        gradients = _Gradients(Weights(*parameters), ctx.tape, sizes, memory, attentionals, attentions, d_attentionals)
        for now, begun in zip(reversed(_steps(sizes)), reversed(ctx.tape.begun), strict=True):
            gradients.word_step(now, d_attentions[now])
            if begun is not None:
                gradients.phrase_step(now, begun)
        d_projected, d_word_weights = gradients.of_words()
        d_weights = *gradients.of_phrases(), *d_word_weights
        return d_projected, None, None, gradients.of_memory(), None, *gradients.of_state, *d_weights


class _Gradients:
    """The backward pass: its steps, the last first, and then one matrix product for each sum over tokens.

    of_state   the gradient of the state that enters the step done last; of h_i and s_i for all B documents

    By token: d_outputs (N, d) of h~ before its tanh, d_contexts (N, d), d_totals (N, S) of the word level's scores,
    d_queries (N, d), d_gates (N, 4, d) in the order of `Gates.slopes`. Zero where no phrase begins: phrase_queries
    (N, d), d_phrase_scores (N, S). By step, the last first: d_phrase_gates (k, 4, d), d_phrase_queries (k, d).
    """

    def __init__(
        self,
        w: Weights,
        tape: _Tape,
        sizes: Tensor,
        memory: Tensor,
        attentionals: Tensor,
        attentions: Tensor,
        d_attentionals: Tensor,
    ) -> None:
        self.tape, self.sizes, self.memory, self.attentions = tape, sizes, memory, attentions
        self.size = attentionals.size(1)
        # The input's gates come as new, reset, update: rolled by one gate.
        self.w = w._replace(
            word_ih=w.word_ih.roll(self.size, 0),
            phrase_ih=w.phrase_ih.roll(self.size, 0),
            word_attention=_transposed(w.word_attention, len(sizes)),
            phrase_attention=_transposed(w.phrase_attention, len(sizes)),
        )
        self.gates = Gates(*map(torch.cat, zip(*tape.gates, strict=True)))  # each (N, d)
        self.slopes = self.gates.slopes()  # (N, 4, d)
        self.tanh_slopes = 1 - attentionals * attentionals
        self.d_outputs = d_attentionals * self.tanh_slopes  # what later steps ask for is added
        self.d_contexts, self.d_queries = torch.empty_like(attentionals), torch.empty_like(attentionals)
        self.d_totals = torch.empty_like(attentions)
        self.d_gates = torch.empty_like(self.slopes)
        self.phrase_queries, self.d_phrase_scores = torch.zeros_like(attentionals), torch.zeros_like(attentions)
        self.d_phrase_gates: list[Tensor] = []
        self.d_phrase_queries: list[Tensor] = []
        batch, src_len, _ = memory.shape
        nothing = memory.new_zeros(0, self.size)  # no step comes after the last
        self.of_state = _State(memory.new_zeros(batch, self.size), memory.new_zeros(batch, src_len), nothing, nothing)

    def word_step(self, now: slice, d_attention: Tensor) -> None:
        """Of the n tokens of a step, given what is asked of their attention (n, S)."""
        w, d_state = self.w, self.of_state
        n, later = len(d_attention), len(d_state.word_hidden)  # documents that this step has, and the one after it
        states, attention, d_output = self.memory[:n], self.attentions[now], self.d_outputs[now]
        d_output[:later].addcmul_(d_state.attentional, self.tanh_slopes[now][:later])
        from_word, d_context = (d_output @ w.combine).split(self.size, 1)
        self.d_contexts[now] = d_context
        # Through the softmax: alpha * (d - sum of alpha * d).
        weighted = scores(d_context, states, d_attention).mul_(attention)
        d_total = torch.addcmul(weighted, attention, weighted.sum(1, keepdim=True), value=-1, out=self.d_totals[now])
        d_state.phrase_scores[:n] += d_total
        d_query = torch.bmm(d_total.unsqueeze(1), states, out=self.d_queries[now].unsqueeze(1)).squeeze(1)
        from_word[:later] += d_state.word_hidden
        d_hidden = torch.addmm(from_word, d_query, w.word_attention)  # (n, d)
        by_gate = torch.mul(d_hidden.unsqueeze(1), self.slopes[now], out=self.d_gates[now])  # (n, 4, d)
        self.of_state = d_state._replace(
            word_hidden=torch.addmm(d_hidden * self.gates.update[now], by_gate[:, 1:].flatten(1), w.word_hh),
            attentional=by_gate[:, :3].flatten(1) @ w.word_ih,
        )

    def phrase_step(self, now: slice, begun: _Begun) -> None:
        """At the rows where a phrase begins, what entered the word level came from the phrase step."""
        w, d_state, rows = self.w, self.of_state, begun.rows
        d_scores = d_state.phrase_scores.index_select(0, rows)  # (k, S)
        d_query = torch.bmm(d_scores.unsqueeze(1), self.memory.index_select(0, rows)).squeeze(1)  # (k, d)
        wanted = d_state.phrase_hidden.index_select(0, rows) + d_state.word_hidden.index_select(0, rows)
        d_hidden = torch.addmm(wanted, d_query, w.phrase_attention)  # (k, d)
        by_gate = d_hidden.unsqueeze(1) * begun.gates.slopes()  # (k, 4, d)
        d_earlier = torch.addmm(d_hidden * begun.gates.update, by_gate[:, 1:].flatten(1), w.phrase_hh)
        d_state.phrase_hidden.index_copy_(0, rows, d_earlier)
        d_state.attentional.index_copy_(0, rows, by_gate[:, :3].flatten(1) @ w.phrase_ih)
        d_state.phrase_scores.index_fill_(0, rows, 0.0)
        d_state.word_hidden.index_fill_(0, rows, 0.0)
        self.d_phrase_scores[now].index_copy_(0, rows, d_scores)
        self.phrase_queries[now].index_copy_(0, rows, begun.query)
        self.d_phrase_gates.append(by_gate)
        self.d_phrase_queries.append(d_query)

    def of_memory(self) -> Tensor:
        """(B, S, d): of the scores of both levels and of the contexts, in one product for each document."""
        of_sources = (self.d_totals, self.attentions, self.d_phrase_scores)  # each (N, S)
        vectors = (self.tape.queries, self.d_contexts, self.phrase_queries)  # each (N, d)
        left, right = (
            torch.cat([pad_packed_sequence(PackedSequence(tensor, self.sizes))[0] for tensor in side])
            for side in (of_sources, vectors)
        )  # (3T, B, S), (3T, B, d)
        return torch.bmm(left.permute(1, 2, 0), right.transpose(0, 1))

    def of_words(self) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Of what the embeddings' products were (N, 3d); of GRU_2, W_alpha and W_2, in the order of `Weights`."""
        by_input, by_hidden = self.d_gates[:, :3].flatten(1), self.d_gates[:, 1:].flatten(1)  # (N, 3d)
        weights = (
            (by_input.t() @ self.tape.entering).roll(-self.size, 0),
            by_hidden.t() @ self.gates.before,
            by_hidden.sum(0),
            self.tape.combined[:, : self.size].t() @ self.d_queries,
            self.d_outputs.t() @ self.tape.combined,
        )
        return by_input.roll(-self.size, 1), weights

    def of_phrases(self) -> tuple[Tensor, ...]:
        """Of GRU_1 and W_1, in the order of `Weights`."""
        phrases = [begun for begun in reversed(self.tape.begun) if begun is not None]  # as they were met
        if not phrases:
            return tuple(torch.zeros_like(weight) for weight in self.w[:5])
        by_gate = torch.cat(self.d_phrase_gates)  # (phrases, 4, d)
        by_input, by_hidden = by_gate[:, :3].flatten(1), by_gate[:, 1:].flatten(1)  # (phrases, 3d)
        return (
            (by_input.t() @ torch.cat([begun.attentional for begun in phrases])).roll(-self.size, 0),
            by_hidden.t() @ torch.cat([begun.gates.before for begun in phrases]),
            by_input.sum(0).roll(-self.size, 0),
            by_hidden.sum(0),
            torch.cat([begun.hidden for begun in phrases]).t() @ torch.cat(self.d_phrase_queries),
        )
