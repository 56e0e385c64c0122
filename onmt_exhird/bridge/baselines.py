"""The sequential baselines as decoders for OpenNMT-py; catSeq itself is the stock ``rnn`` made fit for copying."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from torch import Tensor

from onmt_exhird.bridge.decoders import Attentions, StatefulDecoder, dropout_of
from onmt_exhird.bridge.vocabulary import require_structure
from onmt_exhird.nn.catseqcorr import CatSeqCorr
from onmt_exhird.nn.catseqd import CatSeqD
from onmt_exhird.nn.hierarchical import Memory
from onmt_exhird.nn.orthogonal import orthogonal_loss
from onmt_exhird.nn.target_encoder import DocumentQueue
from onmt_exhird.stream import END


class SequentialDecoder(StatefulDecoder):
    """What the baselines share: catSeq with additions over OpenNMT-py's flat targets."""

    def __init__(self, sequence: CatSeqD | CatSeqCorr, embeddings: Any, dropout: float) -> None:
        super().__init__(embeddings, dropout)
        self.sequence = sequence

    def first_state(self, document: Tensor, memory: Memory) -> Any:
        return self.sequence.first_state(document, memory)

    def forward(
        self, tgt: Tensor, enc_out: Tensor, src_len: Tensor, step: int | None = None, **kwargs: Any
    ) -> tuple[Tensor, Attentions]:
        """tgt (batch, tgt_len, 1), enc_out (batch, src_len, d), src_len (batch)

        -> h~ (batch, tgt_len, d), attentions (batch, tgt_len, src_len): ``std`` and ``copy``, the same.
        """
        decoded = self.sequence(self.embeddings(tgt), Memory.of(enc_out, src_len), self.state["model"])
        self.state = {"model": decoded.state}
        self.see(tgt[:, :, 0], decoded)
        return self.dropout(decoded.attentional), {"std": decoded.attention, "copy": decoded.attention}

    def see(self, inputs: Tensor, decoded: Any) -> None:
        """Called with inputs (batch, tgt_len) and all that the model made of them."""


class CatSeqCorrDecoder(SequentialDecoder):
    """catSeq with coverage and review."""

    @classmethod
    def from_opt(cls, opt: Namespace, embeddings: Any) -> CatSeqCorrDecoder:
        return cls(CatSeqCorr(embeddings.embedding_size, opt.dec_hid_size), embeddings, dropout_of(opt))


class CatSeqDDecoder(SequentialDecoder):
    """catSeq with a target encoder, whose loss and the orthogonal one are found in ``auxiliary`` in training.

    auxiliary   the losses of the last `forward`, by name, each summed over the batch; empty in evaluation
    queue       documents to tell the present ones from
    """

    sequence: CatSeqD

    def __init__(self, hidden_size: int, embeddings: Any, dropout: float) -> None:
        super().__init__(CatSeqD(embeddings.embedding_size, hidden_size), embeddings, dropout)
        self.auxiliary: dict[str, Tensor] = {}
        self.queue = DocumentQueue(hidden_size)
        self.document: Tensor | None = None  # (batch, d)
        self.others: Tensor | None = None  # (batch, drawn, d)

    @classmethod
    def from_opt(cls, opt: Namespace, embeddings: Any) -> CatSeqDDecoder:
        return cls(opt.dec_hid_size, embeddings, dropout_of(opt))

    def read_vocabulary(self, vocabs: dict[str, Any]) -> None:
        """Both losses act where phrases end."""
        vocab = vocabs["tgt"]
        require_structure(vocab, "-decoder_type catseqd")
        self.end_id = vocab.lookup_token(END)

    def init_state(self, src: Tensor, enc_out: Tensor, enc_final_hs: Any) -> None:
        super().init_state(src, enc_out, enc_final_hs)
        if self.training:
            self.document = self.state["model"].hidden.detach()
            # First draw, then put: a document is not among those it is to be told from.
            self.others = self.queue.draw(len(self.document))
            self.queue.put(self.document)

    def see(self, inputs: Tensor, decoded: Any) -> None:
        self.auxiliary = {}
        if not self.training:
            return
        is_end = inputs == self.end_id  # (batch, tgt_len)
        # The input after a position is its target; no target of the last position is `;`, but </s> or padding.
        self.auxiliary["orthogonal"] = orthogonal_loss(decoded.hidden[:, :-1], is_end[:, 1:]).sum()
        if self.document is not None and self.others is not None:
            losses = self.sequence.target_encoder.recognition_loss(decoded.target, is_end, self.document, self.others)
            self.auxiliary["target_encoder"] = losses.sum()
