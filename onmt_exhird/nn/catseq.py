"""catSeq (Yuan et al. 2018; paper, section 5.2), the sequential decoder that its extensions add something to.

A GRU with input feeding whose bilinear attention also copies. It reads the stream as it is, phrase after phrase:

    h_t     = GRU([h~_{t-1}; x_t], h_{t-1})         h_0 is the document's vector, h~_0 = 0
    alpha_t = softmax(h_t^T W m)
    h~_t    = tanh(W_2 [h_t; sum_k alpha_t,k m_k])

    catSeq       x_t = e_t, the embedding of the token: `CatSeq`, which is OpenNMT-py's own ``rnn`` decoder
    catSeqD      x_t = [e_t; g_t], with the state of a target encoder: `onmt_exhird.nn.catseqd`
    catSeqCorr   x_t = [e_t; r_t], with a review, and alpha_t under coverage: `onmt_exhird.nn.catseqcorr`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onmt_exhird.nn.attention import scores
from onmt_exhird.nn.hierarchical import Memory


def parameter(*shape: int) -> nn.Parameter:
    """A parameter that starts as the paper's do, uniform in [-0.1, 0.1]."""
    return nn.Parameter(torch.empty(*shape).uniform_(-0.1, 0.1))


def start_uniform(module: nn.Module) -> None:
    """Let the parameters of one of torch's modules start so too."""
    for one in module.parameters():
        nn.init.uniform_(one, -0.1, 0.1)


def attend(query: Tensor, memory: Memory, keys: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """query (batch, d) -> attention (batch, n) over the memory, context (batch, d).

    keys (batch, n, d): what is scored, where that is not the memory's states themselves.
    """
    attention = scores(query, memory.states if keys is None else keys, memory.bias).softmax(1)
    return attention, torch.bmm(attention.unsqueeze(1), memory.states).squeeze(1)


class CatSeqStep(nn.Module):
    """One step of catSeq, for every document of a batch.

    cell        GRU         its input is [h~; x]
    attention   W    (d, d)   rows for h, columns for m
    combine     W_2  (d, 2d)  acts on [h; context]
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(hidden_size + input_size, hidden_size)
        self.attention = parameter(hidden_size, hidden_size)
        self.combine = parameter(hidden_size, 2 * hidden_size)
        start_uniform(self.cell)

    def forward(
        self, x: Tensor, memory: Memory, hidden: Tensor, attentional: Tensor, keys: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x (batch, input), keys as for `attend` -> h (batch, d), h~ (batch, d), alpha (batch, src_len)."""
        hidden = self.cell(torch.cat([attentional, x], 1), hidden)
        attention, context = attend(hidden @ self.attention, memory, keys)
        return hidden, torch.tanh(F.linear(torch.cat([hidden, context], 1), self.combine)), attention


class CatSeqState(NamedTuple):
    """What catSeq carries from one token to the next; the batch is axis 0.

    hidden        (batch, d)   h_t
    attentional   (batch, d)   h~_t
    """

    hidden: Tensor
    attentional: Tensor

    def map(self, function: Callable[[Tensor], Tensor]) -> CatSeqState:
        """Apply a function of the batch axis to every tensor: reorder, select, repeat for a beam."""
        return CatSeqState(*map(function, self))


class CatSeq(nn.Module):
    """catSeq in search, with the tensors of OpenNMT-py's ``rnn`` decoder as they are there.

    cell        GRU           its input is [e; h~], the other way round than in `CatSeqStep`
    attention   W^T  (d, d)   rows for m, columns for h
    combine     W_2  (d, 2d)  acts on [context; h]
    """

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(embedding_size + hidden_size, hidden_size)
        self.attention = parameter(hidden_size, hidden_size)
        self.combine = parameter(hidden_size, 2 * hidden_size)
        start_uniform(self.cell)

    def first_state(self, document: Tensor, memory: Memory) -> CatSeqState:
        """The state before the first token, from the document's vector (batch, d)."""
        return CatSeqState(document, torch.zeros_like(document))

    def advance(self, embedded: Tensor, memory: Memory, state: CatSeqState) -> tuple[CatSeqState, Tensor]:
        """One token for every document of the batch: embedded (batch, emb) -> state, alpha (batch, src_len)."""
        hidden = self.cell(torch.cat([embedded, state.attentional], 1), state.hidden)
        attention, context = attend(F.linear(hidden, self.attention), memory)
        attentional = torch.tanh(F.linear(torch.cat([context, hidden], 1), self.combine))
        return CatSeqState(hidden, attentional), attention
