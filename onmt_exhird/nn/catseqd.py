"""catSeqD (Yuan et al. 2018): catSeq whose input has the state of a target encoder beside it.

    x_t = [e_t; g_t]      g_t of `onmt_exhird.nn.target_encoder`; no gradient passes here

Its two losses are `TargetEncoder.recognition_loss` and `onmt_exhird.nn.orthogonal.orthogonal_loss`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from onmt_exhird.nn.catseq import CatSeqStep
from onmt_exhird.nn.hierarchical import Memory
from onmt_exhird.nn.target_encoder import TARGET_SIZE, TargetEncoder


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
    """catSeq with a target encoder."""

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.step = CatSeqStep(embedding_size + TARGET_SIZE, hidden_size)
        self.target_encoder = TargetEncoder(embedding_size, hidden_size)

    def first_state(self, document: Tensor, memory: Memory) -> CatSeqDState:
        """The state before the first token, from the document's vector (batch, d)."""
        return CatSeqDState(document, torch.zeros_like(document), document.new_zeros(len(document), TARGET_SIZE))

    def forward(self, embedded: Tensor, memory: Memory, state: CatSeqDState) -> CatSeqDDecoded:
        """Teacher forcing over whole targets, or as many tokens of them: embedded (batch, tgt_len, emb)."""
        # As in the hierarchical decoder: full precision, whatever the rest of a model is computed in.
        with torch.autocast(embedded.device.type, enabled=False):
            dtype = self.step.combine.dtype
            embedded, memory = embedded.to(dtype), memory.map(lambda tensor: tensor.to(dtype))
            hidden, attentional, target = state.map(lambda tensor: tensor.to(dtype))
            # The target encoder depends on tokens only: it runs ahead of the decoder.
            targets = self.target_encoder(embedded, target)  # (batch, tgt_len, 64)
            steps = []
            for x in torch.cat([embedded, targets.detach()], 2).unbind(1):
                hidden, attentional, attention = self.step(x, memory, hidden, attentional)
                steps.append((hidden, attentional, attention))
        all_hidden, attentionals, attentions = (torch.stack(tensors, 1) for tensors in zip(*steps, strict=True))
        after = CatSeqDState(hidden, attentional, targets[:, -1])
        return CatSeqDDecoded(all_hidden, attentionals, attentions, targets, after)

    def advance(self, embedded: Tensor, memory: Memory, state: CatSeqDState) -> tuple[CatSeqDState, Tensor]:
        """One token for every document of the batch: embedded (batch, emb) -> state, alpha (batch, src_len)."""
        decoded = self(embedded.unsqueeze(1), memory, state)
        return decoded.state, decoded.attention.squeeze(1)
