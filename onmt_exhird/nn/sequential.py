"""The sequential baselines of the paper, catSeqD and catSeqCorr: catSeq with something added.

catSeq is a GRU with input feeding whose bilinear attention also copies. It reads the stream as it is:

    h_t     = GRU([h~_{t-1}; x_t], h_{t-1})         h_0 is the document's vector, h~_0 = 0
    alpha_t = softmax(h_t^T W m)
    h~_t    = tanh(W_2 [h_t; sum_k alpha_t,k m_k])

    catSeq       x_t = e_t, the embedding of the token
    catSeqD      x_t = [e_t; g_t]     g_t = GRU_g(e_t, g_{t-1}), the target encoder; no gradient passes here
    catSeqCorr   x_t = [e_t; r_t]     r_t = tanh(W_4 [h_{t-1}; sum_k rho_k h_k]), the review
                                      rho = softmax(h_{t-1}^T W_r h_k) over k = 1 ... t-1; r_1 = 0
                                      m_n is tanh(m_n + w_c sum_{s<t} alpha_s,n), the coverage

What the paper leaves open is as in the authors' program: the review is concatenated to the input; coverage acts
inside the tanh, on scores and context alike. Different from there, the first step is no exception: no coverage is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onmt_exhird.nn.attention import scores
from onmt_exhird.nn.hierarchical import Memory

TARGET_SIZE = 64  # of the target encoder
QUEUE_SIZE = 128  # documents whose vectors are kept
DRAWN = 32  # of them, for each document


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(*shape).uniform_(-0.1, 0.1))


def _attend(query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    """query (batch, d) -> attention (batch, n) over the memory, context (batch, d)."""
    attention = scores(query, memory.states, memory.bias).softmax(1)
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
        self.attention = _parameter(hidden_size, hidden_size)
        self.combine = _parameter(hidden_size, 2 * hidden_size)
        for parameter in self.cell.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def forward(self, x: Tensor, memory: Memory, hidden: Tensor, attentional: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (batch, input) -> h (batch, d), h~ (batch, d), alpha (batch, src_len)."""
        hidden = self.cell(torch.cat([attentional, x], 1), hidden)
        attention, context = _attend(hidden @ self.attention, memory)
        return hidden, torch.tanh(F.linear(torch.cat([hidden, context], 1), self.combine)), attention


class CatSeqDState(NamedTuple):
    """What catSeqD carries from one token to the next; the batch is axis 0.

    hidden        (batch, d)   h_t
    attentional   (batch, d)   h~_t
    target        (batch, 64)  g_t
    """

    hidden: Tensor
    attentional: Tensor
    target: Tensor

    def map(self, function: Callable[[Tensor], Tensor]) -> CatSeqDState:
        """Apply a function of the batch axis to every tensor: reorder, select, repeat for a beam."""
        return CatSeqDState(*map(function, self))


class CatSeqDDecoded(NamedTuple):
    """The output of catSeqD over a whole target.

    hidden        (batch, tgt_len, d)         h
    attentional   (batch, tgt_len, d)         h~
    attention     (batch, tgt_len, src_len)   alpha, for copying
    target        (batch, tgt_len, 64)        g, with its gradient
    state         after the last token
    """

    hidden: Tensor
    attentional: Tensor
    attention: Tensor
    target: Tensor
    state: CatSeqDState


class CatSeqD(nn.Module):
    """catSeq with a target encoder (Yuan et al. 2018); its two losses are beside it.

    target_reader   GRU_g
    recognise       W_g (64, d)   rows for g, columns for documents' vectors: see `recognition_loss`
    """

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.step = CatSeqStep(embedding_size + TARGET_SIZE, hidden_size)
        self.target_reader = nn.GRU(embedding_size, TARGET_SIZE, batch_first=True)
        self.recognise = _parameter(TARGET_SIZE, hidden_size)
        for parameter in self.target_reader.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def first_state(self, document: Tensor, memory: Memory) -> CatSeqDState:
        """The state before the first token, from the document's vector (batch, d)."""
        return CatSeqDState(document, torch.zeros_like(document), document.new_zeros(len(document), TARGET_SIZE))

    def forward(self, embedded: Tensor, memory: Memory, state: CatSeqDState) -> CatSeqDDecoded:
        """Teacher forcing over whole targets, or as many tokens of them: embedded (batch, tgt_len, emb)."""
        # As in the hierarchical decoder: full precision, whatever the rest of a model is computed in.
        with torch.autocast(embedded.device.type, enabled=False):
            dtype = self.recognise.dtype
            embedded, memory = embedded.to(dtype), memory.map(lambda tensor: tensor.to(dtype))
            hidden, attentional, target = state.map(lambda tensor: tensor.to(dtype))
            # The target encoder depends on tokens only: it runs ahead of the decoder.
            targets, last = self.target_reader(embedded, target.unsqueeze(0))  # (batch, tgt_len, 64)
            steps = []
            for x in torch.cat([embedded, targets.detach()], 2).unbind(1):
                hidden, attentional, attention = self.step(x, memory, hidden, attentional)
                steps.append((hidden, attentional, attention))
        all_hidden, attentionals, attentions = (torch.stack(tensors, 1) for tensors in zip(*steps, strict=True))
        after = CatSeqDState(hidden, attentional, last.squeeze(0))
        return CatSeqDDecoded(all_hidden, attentionals, attentions, targets, after)

    def recognition_loss(self, target: Tensor, chosen: Tensor, document: Tensor, others: Tensor) -> Tensor:
        """How badly the target encoder tells a document from others, by what it has read at the chosen positions.

        target (batch, tgt_len, 64), chosen (batch, tgt_len), document (batch, d), others (batch, n, d) -> (batch)

        The sum of -log P(own document), with P the softmax of g^T W_g v over the vectors v; no gradient goes to them.
        """
        candidates = torch.cat([document.unsqueeze(1), others], 1).detach().to(target.dtype)  # (batch, 1 + n, d)
        logits = torch.bmm(target @ self.recognise, candidates.transpose(1, 2))  # (batch, tgt_len, 1 + n)
        return logits.log_softmax(2)[:, :, 0].neg().masked_fill(~chosen, 0.0).sum(1)


def orthogonal_loss(hidden: Tensor, chosen: Tensor) -> Tensor:
    """How far the states at the chosen positions are from orthonormal: the Frobenius norm of H H^T - I.

    hidden (batch, tgt_len, d), chosen (batch, tgt_len) -> (batch); 0 where nothing is chosen

    >>> states = torch.tensor([[[3.0, 0.0], [7.0, 7.0], [0.0, 1.0]]])
    >>> orthogonal_loss(states, torch.tensor([[True, False, True]]))
    tensor([8.])
    """
    rows = hidden.masked_fill(~chosen.unsqueeze(2), 0.0)
    difference = torch.bmm(rows, rows.transpose(1, 2)) - torch.diag_embed(chosen.to(rows.dtype))
    return torch.linalg.vector_norm(difference, dim=(1, 2))


class DocumentQueue:
    """The vectors of the last documents seen in training, for `CatSeqD.recognition_loss`.

    Not part of a checkpoint: after a few batches it is full again.
    """

    def __init__(self, size: int = QUEUE_SIZE) -> None:
        self.size = size
        self.vectors: Tensor | None = None

    def put(self, documents: Tensor) -> None:
        """documents (batch, d), the latest last; the earliest make room."""
        vectors = documents.detach()
        if self.vectors is not None:
            vectors = torch.cat([self.vectors, vectors])
        self.vectors = vectors[-self.size :]

    def draw(self, documents: int, count: int = DRAWN) -> Tensor | None:
        """For each of some documents different vectors (documents, count, d), or None while there are too few."""
        if self.vectors is None or len(self.vectors) < count:
            return None
        order = torch.rand(documents, len(self.vectors), device=self.vectors.device).argsort(1)
        return self.vectors[order[:, :count]]


class CatSeqCorrState(NamedTuple):
    """What catSeqCorr carries from one token to the next; the batch is axis 0.

    hidden        (batch, d)          h_t
    attentional   (batch, d)          h~_t
    coverage      (batch, src_len)    the sum of alpha so far
    earlier       (batch, t, d)       h_1 ... h_t
    """

    hidden: Tensor
    attentional: Tensor
    coverage: Tensor
    earlier: Tensor

    def map(self, function: Callable[[Tensor], Tensor]) -> CatSeqCorrState:
        """Apply a function of the batch axis to every tensor: reorder, select, repeat for a beam."""
        return CatSeqCorrState(*map(function, self))


class CatSeqCorrDecoded(NamedTuple):
    """The output of catSeqCorr over a whole target.

    attentional   (batch, tgt_len, d)         h~
    attention     (batch, tgt_len, src_len)   alpha, for copying
    state         after the last token
    """

    attentional: Tensor
    attention: Tensor
    state: CatSeqCorrState


class CatSeqCorr(nn.Module):
    """catSeq with coverage and review (Chan et al. 2019, after Chen et al. 2018).

    cover              w_c (d)
    review_attention   W_r (d, d)    rows for the last state, columns for all
    review_combine     W_4 (d, 2d)   acts on [last state; context]
    """

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.step = CatSeqStep(embedding_size + hidden_size, hidden_size)
        self.cover = _parameter(hidden_size)
        self.review_attention = _parameter(hidden_size, hidden_size)
        self.review_combine = _parameter(hidden_size, 2 * hidden_size)

    def first_state(self, document: Tensor, memory: Memory) -> CatSeqCorrState:
        """The state before the first token, from the document's vector (batch, d)."""
        nothing_yet = document.unsqueeze(1)[:, :0]  # (batch, 0, d)
        return CatSeqCorrState(document, torch.zeros_like(document), torch.zeros_like(memory.bias), nothing_yet)

    def forward(self, embedded: Tensor, memory: Memory, state: CatSeqCorrState) -> CatSeqCorrDecoded:
        """Teacher forcing over whole targets, or as many tokens of them: embedded (batch, tgt_len, emb)."""
        with torch.autocast(embedded.device.type, enabled=False):
            dtype = self.cover.dtype
            embedded, memory = embedded.to(dtype), memory.map(lambda tensor: tensor.to(dtype))
            hidden, attentional, coverage, earlier = state.map(lambda tensor: tensor.to(dtype))
            steps = []
            for e in embedded.unbind(1):
                covered = torch.tanh(torch.addcmul(memory.states, coverage.unsqueeze(2), self.cover))
                x = torch.cat([e, self.review(earlier)], 1)
                hidden, attentional, attention = self.step(x, memory._replace(states=covered), hidden, attentional)
                coverage = coverage + attention
                earlier = torch.cat([earlier, hidden.unsqueeze(1)], 1)  # (batch, t, d)
                steps.append((attentional, attention))
        attentionals, attentions = (torch.stack(tensors, 1) for tensors in zip(*steps, strict=True))
        return CatSeqCorrDecoded(attentionals, attentions, CatSeqCorrState(hidden, attentional, coverage, earlier))

    def review(self, earlier: Tensor) -> Tensor:
        """What the last state finds among all states so far: (batch, t, d) -> r (batch, d), 0 before the first."""
        if earlier.size(1) == 0:
            return earlier.new_zeros(len(earlier), earlier.size(2))
        last = earlier[:, -1]
        unmasked = earlier.new_zeros(earlier.shape[:2])
        _, context = _attend(last @ self.review_attention, Memory(earlier, unmasked))
        return torch.tanh(F.linear(torch.cat([last, context], 1), self.review_combine))
