"""Decoders for OpenNMT-py: the hierarchical one, and the stock one made fit for copying."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import torch
from onmt.decoders.decoder import DecoderBase, InputFeedRNNDecoder
from onmt.modules import GlobalAttention
from torch import Tensor, nn

from onmt_exhird.bridge.copying import reason_for_upstreams
from onmt_exhird.bridge.vocabulary import require_structure
from onmt_exhird.nn.hierarchical import HierarchicalDecoder, HierarchicalState, Memory, read_boundaries
from onmt_exhird.stream import END

Attentions = dict[str, Tensor]


def dropout_of(opt: Namespace) -> float:
    return opt.dropout[0] if isinstance(opt.dropout, list) else opt.dropout


def document_vector(enc_out: Tensor, final: Any, is_padding: Tensor) -> Tensor:
    """h_0 (batch, d): the last layer's final states, both directions, or the mean of the states.

    enc_out (batch, src_len, d), is_padding (batch, src_len). A recurrent encoder gives ``final``
    (layers * directions, batch, d / directions), or a pair of them for an LSTM; a Transformer gives none.
    """
    if final is None:
        weights = (~is_padding).to(enc_out.dtype).unsqueeze(2)  # (batch, src_len, 1)
        return (enc_out * weights).sum(1) / weights.sum(1).clamp_min(1)
    hidden = final[0] if isinstance(final, tuple) else final
    directions = enc_out.size(2) // hidden.size(2)
    return torch.cat(tuple(hidden[-directions:]), 1)  # (batch, d)


class StatefulDecoder(DecoderBase):
    """What our decoders share: a model whose state has the batch as axis 0, started from the document's vector."""

    def __init__(self, embeddings: Any, dropout: float) -> None:
        super().__init__(attentional=True)
        self.embeddings = embeddings
        self.dropout = nn.Dropout(dropout)
        self.state: dict[str, Any] = {}

    def first_state(self, document: Tensor, memory: Memory) -> Any:
        """The model's state before the first token, from the document's vector (batch, d)."""
        raise TypeError(f"{type(self).__name__} does not say how it starts")

    def init_state(self, src: Tensor, enc_out: Tensor, enc_final_hs: Any) -> None:
        is_padding = src[:, :, 0] == self.embeddings.word_padding_idx
        document = document_vector(enc_out, enc_final_hs, is_padding)
        self.state = {"model": self.first_state(document, Memory.of(enc_out, (~is_padding).sum(1)))}

    def map_state(self, fn: Callable[[Tensor, int], Tensor]) -> None:
        self.state = {"model": self.state["model"].map(lambda tensor: fn(tensor, 0))}

    def detach_state(self) -> None:
        self.state = {"model": self.state["model"].map(Tensor.detach)}

    def update_dropout(self, dropout: float, attention_dropout: float | None = None) -> None:
        self.dropout.p = dropout
        self.embeddings.update_dropout(dropout)


class ExhirdDecoder(StatefulDecoder):
    """Exclusive hierarchical decoding (ACL 2020) over OpenNMT-py's flat targets."""

    def __init__(self, hidden_size: int, embeddings: Any, dropout: float) -> None:
        super().__init__(embeddings, dropout)
        self.hierarchy = HierarchicalDecoder(embeddings.embedding_size, hidden_size)

    @classmethod
    def from_opt(cls, opt: Namespace, embeddings: Any) -> ExhirdDecoder:
        return cls(opt.dec_hid_size, embeddings, dropout_of(opt))

    def read_vocabulary(self, vocabs: dict[str, Any]) -> None:
        """The hierarchy is in the tokens: learn their ids."""
        vocab = vocabs["tgt"]
        require_structure(vocab, "-decoder_type exhird")
        self.bos_id = vocab.lookup_token(vocabs["decoder_start_token"])
        self.end_id = vocab.lookup_token(END)

    def first_state(self, document: Tensor, memory: Memory) -> HierarchicalState:
        return self.hierarchy.first_state(document, memory)

    def keep_state(self, before: dict[str, HierarchicalState], rows: Tensor) -> None:
        """Undo a step at some rows (batch)."""
        chosen = rows.unsqueeze(1)
        pairs = zip(before["model"], self.state["model"], strict=True)
        self.state = {"model": HierarchicalState(*(torch.where(chosen, old, new) for old, new in pairs))}

    def forward(
        self,
        tgt: Tensor,
        enc_out: Tensor,
        src_len: Tensor,
        step: int | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Attentions]:
        """tgt (batch, tgt_len, 1), enc_out (batch, src_len, d), src_len (batch)

        -> h~ (batch, tgt_len, d), attentions (batch, tgt_len, src_len): ``std`` and ``copy`` are the word level's,
        rescaled
        """
        ids, starts = read_boundaries(tgt[:, :, 0], self.bos_id, self.end_id)
        embedded = self.embeddings(ids.unsqueeze(2))  # (batch, tgt_len, emb)
        memory = Memory.of(enc_out, src_len)
        if step is not None:
            state, attention = self.hierarchy.step(embedded.squeeze(1), starts.squeeze(1), memory, self.state["model"])
            self.state = {"model": state}
            return state.attentional.unsqueeze(1), {name: attention.unsqueeze(1) for name in ("std", "copy")}
        tgt_len = (tgt[:, :, 0] != self.embeddings.word_padding_idx).sum(1)
        decoded = self.hierarchy(embedded, starts, tgt_len, memory, self.state["model"])
        return self.dropout(decoded.attentional), dict.fromkeys(("std", "copy"), decoded.attention)


class _MaskedAttention(GlobalAttention):
    """Attention that is always told the source lengths.

    The stock decoder calls its copy attention without them, so that padding gets copied.
    """

    src_len: Tensor | None = None

    def forward(self, src: Tensor, enc_out: Tensor, **kwargs: Any) -> tuple[Tensor, Tensor]:
        return super().forward(src, enc_out, src_len=self.src_len)


class CopyingRNNDecoder(InputFeedRNNDecoder):
    """The stock ``rnn`` decoder with input feeding, with attentions that belong to their positions.

    Upstream's outputs are batch-major and its attentions time-major, so that in training the copy gate
    of one position meets the attention of another, and in search rows meet those of other documents.
    It also starts from the encoder's first layers, where there are fewer of its own, and does so still if it does not
    copy.
    """

    copy_attn: Any
    num_layers: int
    _reuse_copy_attn: bool

    @classmethod
    def from_opt(cls, opt: Namespace, embeddings: Any) -> InputFeedRNNDecoder:
        if opt.copy_attn and reason_for_upstreams(opt) is not None:
            return InputFeedRNNDecoder.from_opt(opt, embeddings)
        return super().from_opt(opt, embeddings)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.copy_attn is not None:
            stock = self.copy_attn
            self.copy_attn = _MaskedAttention(stock.dim, attn_type=stock.attn_type, attn_func=stock.attn_func)

    def init_state(self, src: Tensor, enc_out: Tensor, enc_final_hs: Any) -> None:
        """From the encoder's last layers: enc_final_hs (layers * directions, batch, d), or a pair of them (LSTM)."""
        super().init_state(src, enc_out, enc_final_hs)
        if self.copy_attn is None and not self._reuse_copy_attn:
            return  # a model that upstream's own code can train, and may have
        self.state["hidden"] = tuple(hidden[-self.num_layers :] for hidden in self.state["hidden"])

    def forward(
        self, tgt: Tensor, enc_out: Tensor, src_len: Tensor | None = None, step: int | None = None, **kwargs: Any
    ) -> tuple[Tensor, Attentions]:
        if self.copy_attn is not None:
            self.copy_attn.src_len = src_len
        outputs, attentions = super().forward(tgt, enc_out, src_len=src_len, step=step, **kwargs)
        return outputs, {name: attention.transpose(0, 1) for name, attention in attentions.items()}
