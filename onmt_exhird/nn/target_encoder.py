"""The target encoder of catSeqD (Yuan et al. 2018): what has been written so far, read as a whole.

    g_t = GRU_g(e_t, g_{t-1})                         g_0 = 0
    L_t = -log softmax(g_t^T W_g [v; v_1 ... v_n])_0  where a phrase has just been read

It is trained to tell the document's own vector v from those of n others, so that g_t says what the document is about.
No gradient goes to the vectors, nor from the decoder, which reads g_t, to the target encoder.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from onmt_exhird.nn.catseq import parameter, start_uniform

TARGET_SIZE = 64  # of g
QUEUE_SIZE = 128  # documents whose vectors are kept
DRAWN = 32  # of them, for each document: n


class TargetEncoder(nn.Module):
    """
    reader      GRU_g
    recognise   W_g (64, d)   rows for g, columns for documents' vectors
    """

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.reader = nn.GRU(embedding_size, TARGET_SIZE, batch_first=True)
        self.recognise = parameter(TARGET_SIZE, hidden_size)
        start_uniform(self.reader)

    def forward(self, embedded: Tensor, target: Tensor) -> Tensor:
        """embedded (batch, tgt_len, emb), g before them (batch, 64) -> g (batch, tgt_len, 64)."""
        return self.reader(embedded, target.unsqueeze(0))[0]

    def recognition_loss(self, target: Tensor, chosen: Tensor, document: Tensor, others: Tensor) -> Tensor:
        """How badly a document is told from others by what has been read at the chosen positions: the sum of L_t.

        target (batch, tgt_len, 64), chosen (batch, tgt_len), document (batch, d), others (batch, n, d) -> (batch)
        """
        candidates = torch.cat([document.unsqueeze(1), others], 1).detach().to(target.dtype)  # (batch, 1 + n, d)
        logits = torch.bmm(target @ self.recognise, candidates.transpose(1, 2))  # (batch, tgt_len, 1 + n)
        return logits.log_softmax(2)[:, :, 0].neg().masked_fill(~chosen, 0.0).sum(1)


class DocumentQueue(nn.Module):
    """The vectors of the last documents seen in training, to draw others from. Part of a checkpoint, so that a
    resumed run goes on with them.

    vectors   (size, d)   the latest last
    filled    (size)      1 where there is a document. Not a number of them: checkpoints are averaged as floats, and
                          their loader knows no scalars
    """

    vectors: Tensor
    filled: Tensor

    def __init__(self, hidden_size: int, size: int = QUEUE_SIZE) -> None:
        super().__init__()
        self.register_buffer("vectors", torch.zeros(size, hidden_size))
        self.register_buffer("filled", torch.zeros(size))

    def put(self, documents: Tensor) -> None:
        """documents (batch, d), the latest last; the earliest make room."""
        latest = documents[-len(self.filled) :].detach().to(self.vectors.dtype)
        self.vectors = torch.cat([self.vectors[len(latest) :], latest])
        self.filled = torch.cat([self.filled[len(latest) :], self.filled.new_ones(len(latest))])

    def held(self) -> Tensor:
        """The vectors of documents (held, d), the latest last."""
        return self.vectors[self.filled > 0]

    def draw(self, documents: int, count: int = DRAWN) -> Tensor | None:
        """For each of some documents different vectors (documents, count, d), or None while there are too few."""
        held = self.held()
        if len(held) < count:
            return None
        order = torch.rand(documents, len(held), device=held.device).argsort(1)
        return held[order[:, :count]]
