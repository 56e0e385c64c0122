"""catSeqCorr (Chan et al. 2019, after Chen et al. 2018): catSeq with coverage and review.

    x_t     = [e_t; r_t]      r_t of `onmt_exhird.nn.review`
    alpha_t                   under the coverage of `onmt_exhird.nn.coverage`

As in the authors' program the review is concatenated to the input. Different from there, coverage acts on the scores
only, and on those of the first step too, where it is zero: their program puts tanh(m + c w_c) in the place of m, for
the context as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from onmt_exhird.nn.catseq import CatSeqStep
from onmt_exhird.nn.coverage import Coverage
from onmt_exhird.nn.hierarchical import Memory
from onmt_exhird.nn.review import Review


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
    """catSeq with coverage and review."""

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.step = CatSeqStep(embedding_size + hidden_size, hidden_size)
        self.cover = Coverage(hidden_size)
        self.review = Review(hidden_size)

    def first_state(self, document: Tensor, memory: Memory) -> CatSeqCorrState:
        """The state before the first token, from the document's vector (batch, d)."""
        nothing_yet = document.unsqueeze(1)[:, :0]  # (batch, 0, d)
        return CatSeqCorrState(document, torch.zeros_like(document), torch.zeros_like(memory.bias), nothing_yet)

    def forward(self, embedded: Tensor, memory: Memory, state: CatSeqCorrState) -> CatSeqCorrDecoded:
        """Teacher forcing over whole targets, or as many tokens of them: embedded (batch, tgt_len, emb)."""
        # As in the hierarchical decoder: full precision, whatever the rest of a model is computed in.
        with torch.autocast(embedded.device.type, enabled=False):
            dtype = self.step.combine.dtype
            embedded, memory = embedded.to(dtype), memory.map(lambda tensor: tensor.to(dtype))
            hidden, attentional, coverage, earlier = state.map(lambda tensor: tensor.to(dtype))
            steps = []
            for e in embedded.unbind(1):
                keys = self.cover(memory.states, coverage)
                x = torch.cat([e, self.review(earlier)], 1)
                hidden, attentional, attention = self.step(x, memory, hidden, attentional, keys)
                coverage = coverage + attention
                earlier = torch.cat([earlier, hidden.unsqueeze(1)], 1)  # (batch, t, d)
                steps.append((attentional, attention))
        attentionals, attentions = (torch.stack(tensors, 1) for tensors in zip(*steps, strict=True))
        return CatSeqCorrDecoded(attentionals, attentions, CatSeqCorrState(hidden, attentional, coverage, earlier))

    def advance(self, embedded: Tensor, memory: Memory, state: CatSeqCorrState) -> tuple[CatSeqCorrState, Tensor]:
        """One token for every document of the batch: embedded (batch, emb) -> state, alpha (batch, src_len)."""
        decoded = self(embedded.unsqueeze(1), memory, state)
        return decoded.state, decoded.attention.squeeze(1)
