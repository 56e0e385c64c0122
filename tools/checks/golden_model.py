"""The model and the documents of a golden file, as the package has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from onmt_exhird.nn.copying import CopyGenerator, extend_source, extend_target, restrict
from onmt_exhird.nn.hierarchical import HierarchicalDecoder, HierarchicalState, Memory
from onmt_exhird.stream import BOS, EOS, PAD, UNK

# The paper's names, as in the files, and ours.
PARAMETERS = {
    "embedding": "embedding.weight",
    "W_1": "decoder.phrase_attention",
    "W_alpha": "decoder.word_attention",
    "W_2": "decoder.combine",
    "W_3": "generator.weight",
    "b_V": "generator.bias",
    "w_g": "generator.gate_weight",
    "b_g": "generator.gate_bias",
}
PREFIXES = {"encoder.": "encoder.", "GRU_1.": "decoder.phrase_cell.", "GRU_2.": "decoder.word_cell."}


def our_name(name: str) -> str:
    for theirs, ours in PREFIXES.items():
        if name.startswith(theirs):
            return ours + name[len(theirs) :]
    return PARAMETERS[name]


class Model(nn.Module):
    """A BiGRU encoder and the package's decoder and generator, with the weights of a golden file."""

    def __init__(self, weights: dict[str, Any], pad_id: int) -> None:
        super().__init__()
        tensors = {name: torch.tensor(value, dtype=torch.float32) for name, value in weights.items()}
        vocab_size, embedding_size = tensors["embedding"].shape
        hidden_size = tensors["W_1"].size(0)
        layers = sum(bool(re.fullmatch(r"encoder\.weight_ih_l\d+", name)) for name in tensors)
        self.embedding = nn.Embedding(vocab_size, embedding_size)
        width = tensors["encoder.weight_hh_l0"].size(1)
        self.encoder = nn.GRU(embedding_size, width, layers, bidirectional=True, batch_first=True)
        self.decoder = HierarchicalDecoder(embedding_size, hidden_size)
        self.generator = CopyGenerator(hidden_size, vocab_size, pad_id)
        own = self.state_dict()
        self.load_state_dict({our_name(name): tensor.view_as(own[our_name(name)]) for name, tensor in tensors.items()})

    def encode(self, src: Tensor, lengths: Tensor) -> tuple[Memory, HierarchicalState]:
        packed = pack_padded_sequence(self.embedding(src), lengths, batch_first=True, enforce_sorted=False)
        packed, final = self.encoder(packed)
        states, _ = pad_packed_sequence(packed, batch_first=True)  # (batch, src_len, d)
        memory = Memory.of(states, lengths)
        return memory, HierarchicalState.first(torch.cat([final[-2], final[-1]], 1))


class Documents(NamedTuple):
    """All documents of a file as one batch."""

    vocab: dict[str, int]
    src_ext: Tensor  # (batch, src_len)
    tgt_ext: Tensor  # (batch, tgt_len)
    lengths: Tensor  # (batch)
    oov: list[list[str]]

    @classmethod
    def of(cls, tokens: Sequence[str], documents: Sequence[dict[str, Any]]) -> Documents:
        vocab = {token: index for index, token in enumerate(tokens)}
        unk_id, size = vocab[UNK], len(vocab)

        def lookup(token: str) -> int:
            return vocab.get(token, unk_id)

        sources = [extend_source(document["src"], lookup, unk_id, size) for document in documents]
        targets = [
            extend_target([*document["tgt"], EOS], lookup, unk_id, oov, size)
            for document, (_, oov) in zip(documents, sources, strict=True)
        ]
        lengths = torch.tensor([len(ids) for ids, _ in sources])

        def padded(rows: list[list[int]]) -> Tensor:
            return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=vocab[PAD])

        return cls(vocab, padded([ids for ids, _ in sources]), padded(targets), lengths, [oov for _, oov in sources])

    def restricted(self, ids: Tensor) -> Tensor:
        return restrict(ids, len(self.vocab), self.vocab[UNK])

    @property
    def inputs(self) -> Tensor:
        """What the decoder reads: the target, one step later (batch, tgt_len)."""
        first = torch.full_like(self.tgt_ext[:, :1], self.vocab[BOS])
        return self.restricted(torch.cat([first, self.tgt_ext[:, :-1]], 1))

    @property
    def extended_size(self) -> int:
        return len(self.vocab) + max(map(len, self.oov))
