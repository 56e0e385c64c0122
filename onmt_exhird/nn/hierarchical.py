"""The hierarchical decoder over the flat stream (paper, section 4.2).

Phrase boundaries are read off the input tokens: where the input is ``<s>`` or ``;`` a phrase begins,
and before the word step there is a phrase step.

    h_i      = GRU_1(h~_{i-1,end}, h_{i-1})                 phrase step
    s_i      = h_i^T W_1 m                                  beta_i = softmax(s_i)
    h_{i,j}  = GRU_2([h~_{i,j-1}; e_{j-1}], h_{i,j-1})      word step; h_{i,-1} = h_i, h~_{i,-1} = 0
    alpha_ij = softmax(h_{i,j}^T W_alpha m + s_i)           the attention, rescaled by beta_i
    h~_{i,j} = tanh(W_2 [h_{i,j}; sum_k alpha_ij,k m_k])

One step of the stream is one step of the decoder, for every document of a batch at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from onmt_exhird.nn.attention import padding_bias, scores
from onmt_exhird.nn.recurrence import Recurrence, Weights

_CACHED = 8  # documents whose states stay in a processor's cache from one product to the next


class Memory(NamedTuple):
    """The encoded documents.

    states   (batch, src_len, d)  m
    bias     (batch, src_len)     0 at tokens, a very negative number at padding
    """

    states: Tensor
    bias: Tensor

    @classmethod
    def of(cls, states: Tensor, lengths: Tensor) -> Memory:
        """From states (batch, src_len, d) and lengths (batch)."""
        return cls(states, padding_bias(lengths, states.size(1), states.dtype))

    def map(self, function: Callable[[Tensor], Tensor]) -> Memory:
        """Apply a function of the batch axis (axis 0) to every tensor."""
        return Memory(*map(function, self))


class HierarchicalState(NamedTuple):
    """What the decoder carries from one token to the next; the batch is axis 0 throughout.

    phrase_hidden   (batch, d)   h_i
    word_hidden     (batch, d)   h_{i,j}
    attentional     (batch, d)   h~_{i,j}
    """

    phrase_hidden: Tensor
    word_hidden: Tensor
    attentional: Tensor

    @classmethod
    def first(cls, hidden: Tensor) -> HierarchicalState:
        """The state before the first token, from h_0 (batch, d), the encoder's final states."""
        zeros = torch.zeros_like(hidden)
        return cls(hidden, zeros, zeros)

    def map(self, function: Callable[[Tensor], Tensor]) -> HierarchicalState:
        """Apply a function of the batch axis to every tensor: reorder, select, repeat for a beam.

        >>> state = HierarchicalState(*torch.arange(3.0).expand(3, 3).unsqueeze(2))
        >>> state.map(lambda t: t[[2, 0]]).word_hidden
        tensor([[2.],
                [0.]])
        """
        return HierarchicalState(*map(function, self))


class Decoded(NamedTuple):
    """The decoder's output over whole targets, up to the longest; after a target's end it says nothing.

    attentional     (batch, longest, d)         h~
    attention       (batch, longest, src_len)   alpha, rescaled: for copying
    phrase_scores   (batch, longest, src_len)   s of the phrase each token belongs to; no gradient
    """

    attentional: Tensor
    attention: Tensor
    phrase_scores: Tensor


def read_boundaries(inputs: Tensor, bos_id: int, end_id: int) -> tuple[Tensor, Tensor]:
    """Where phrases begin, and the ids to embed: those of ``<s>`` there, whatever the input was.

    inputs (...) -> ids (...), starts (...)

    >>> read_boundaries(torch.tensor([2, 5, 8, 4, 5]), bos_id=2, end_id=4)
    (tensor([2, 5, 8, 2, 5]), tensor([ True, False, False,  True, False]))
    """
    starts = (inputs == bos_id) | (inputs == end_id)
    return inputs.masked_fill(starts, bos_id), starts


def attend(queries: Tensor, states: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Attention of several queries to each document: queries (batch, beams, d), and what `Memory` has, of one beam.

    -> context (batch, beams, d), attention (batch, beams, src_len)
    """
    # The states come first, the queries as a view: with the queries first it takes twice as long, with columns that
    # are laid out as such five times.
    products = torch.bmm(states, queries.transpose(1, 2)).transpose(1, 2)  # (batch, beams, src_len)
    attention = (products + bias.unsqueeze(1)).softmax(2)
    return torch.bmm(attention, states), attention


class HierarchicalDecoder(nn.Module):
    """Phrase-level and word-level decoding (paper, section 4.2).

    phrase_cell        GRU_1
    word_cell          GRU_2     its input is [h~; e]
    phrase_attention   W_1       (d, d), rows for h, columns for m
    word_attention     W_alpha   (d, d), likewise
    combine            W_2       (d, 2d), acts on [h; context]
    """

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.phrase_cell = nn.GRUCell(hidden_size, hidden_size)
        self.word_cell = nn.GRUCell(hidden_size + embedding_size, hidden_size)
        self.phrase_attention = nn.Parameter(torch.empty(hidden_size, hidden_size))
        self.word_attention = nn.Parameter(torch.empty(hidden_size, hidden_size))
        self.combine = nn.Parameter(torch.empty(hidden_size, 2 * hidden_size))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def first_state(self, document: Tensor, memory: Memory) -> HierarchicalState:
        """The state before the first token, from the document's vector (batch, d)."""
        return HierarchicalState.first(document)

    def forward(
        self, embedded: Tensor, starts: Tensor, tgt_len: Tensor, memory: Memory, state: HierarchicalState
    ) -> Decoded:
        """Teacher forcing over whole targets, of at least one token each.

        embedded (batch, longest, emb), starts (batch, longest), tgt_len (batch) -> `Decoded`
        """
        # Sums over many steps want full precision, whatever the rest of a model is computed in.
        with torch.autocast(embedded.device.type, enabled=False):
            weights = self._weights()
            dtype = weights.combine.dtype
            pack = partial(pack_padded_sequence, lengths=tgt_len.cpu(), batch_first=True, enforce_sorted=False)
            tokens = pack(embedded.to(dtype))
            # The embeddings' part of GRU_2's input waits for nothing: one product for all tokens.
            projected = F.linear(
                tokens.data, self.word_cell.weight_ih[:, self.hidden_size :], self.word_cell.bias_ih
            )  # (tokens, 3d)
            order = tokens.sorted_indices
            assert order is not None  # it is, unless sorting is left to the caller

            def arrange(tensor: Tensor) -> Tensor:
                return tensor.to(dtype).index_select(0, order)

            memory, state = memory.map(arrange), state.map(arrange)
            phrase_scores = self.phrase_scores(state, memory)  # for targets that go on within a phrase
            before = *memory, state.phrase_hidden, phrase_scores, state.word_hidden, state.attentional
            begun = pack(starts).data
            packed = Recurrence.apply(projected, begun, tokens.batch_sizes, *before, *weights)
        attentional, attention, phrase_scores = (
            pad_packed_sequence(tokens._replace(data=data), batch_first=True, total_length=embedded.size(1))[0]
            for data in packed
        )
        return Decoded(attentional, attention, phrase_scores)

    def _weights(self) -> Weights:
        return Weights(
            self.phrase_cell.weight_ih,
            self.phrase_cell.weight_hh,
            self.phrase_cell.bias_ih,
            self.phrase_cell.bias_hh,
            self.phrase_attention,
            self.word_cell.weight_ih[:, : self.hidden_size],
            self.word_cell.weight_hh,
            self.word_cell.bias_hh,
            self.word_attention,
            self.combine,
        )

    def step(
        self, embedded: Tensor, starts: Tensor, memory: Memory, state: HierarchicalState, beams: int = 1
    ) -> tuple[HierarchicalState, Tensor]:
        """One token for every document of the batch.

        embedded (batch, emb), starts (batch) -> state, attention (batch, src_len)

        h~ is ``state.attentional``. For search: the same as `forward` of one token, but memory, the largest of what is
        read, comes from the cache except the first time, and the scores of both levels are those of one query, the sum
        of theirs. As many rows in succession as there are ``beams`` have the same memory: only that of the first is
        read.
        """
        rows = starts.nonzero().squeeze(1)  # (k)
        phrase_hidden, word_hidden, attentional = state
        if rows.numel():
            begun = self.phrase_cell(attentional[rows], phrase_hidden[rows])  # (k, d)
            phrase_hidden = phrase_hidden.index_copy(0, rows, begun)
            word_hidden = word_hidden.index_copy(0, rows, begun)
            attentional = attentional.index_fill(0, rows, 0.0)
        word_hidden = self.word_cell(torch.cat([attentional, embedded], 1), word_hidden)
        queries = torch.addmm(phrase_hidden @ self.phrase_attention, word_hidden, self.word_attention)  # (batch, d)
        of_documents = queries.unflatten(0, (-1, beams)), *memory.map(lambda t: t[::beams])
        together = _CACHED if embedded.device.type == "cpu" else max(1, len(embedded))
        attended = map(attend, *(tensor.split(together) for tensor in of_documents))
        context, attention = (torch.cat(parts).flatten(0, 1) for parts in zip(*attended, strict=True))
        attentional = F.linear(torch.cat([word_hidden, context], 1), self.combine).tanh_()
        return HierarchicalState(phrase_hidden, word_hidden, attentional), attention

    def phrase_scores(self, state: HierarchicalState, memory: Memory) -> Tensor:
        """s_i (batch, src_len), padding included: their softmax is beta_i, where the phrase level looks."""
        return scores(state.phrase_hidden @ self.phrase_attention, *memory)
