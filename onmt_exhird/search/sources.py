"""What a search is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from onmt_exhird.nn.copying import extend_source, restrict
from onmt_exhird.nn.model import KeyphraseModel


@dataclass(frozen=True)
class Sources:
    """The documents of a search.

    ids        (documents, src_len)   for the embedding
    lengths    (documents)            at least 1
    extended   (documents, src_len)   for copying
    words      each document's out-of-vocabulary words, in the order of their extended ids
    """

    ids: Tensor
    lengths: Tensor
    extended: Tensor
    words: Sequence[Sequence[str]]

    @classmethod
    def of(
        cls, documents: Sequence[Sequence[str]], numbers: Mapping[str, int], model: KeyphraseModel, device: str = "cpu"
    ) -> Sources:
        """Of documents as tokens, each with one at least; numbers: the ids of the vocabulary's tokens."""
        unk, vocab_size = model.ids.unk, model.vocab_size
        rows, words = [], []
        for tokens in documents:
            extended, oov = extend_source(tokens, lambda token: numbers.get(token, unk), unk, vocab_size)
            rows.append(torch.tensor(extended))
            words.append(oov)
        padded = pad_sequence(rows, batch_first=True, padding_value=model.ids.pad)
        lengths = torch.tensor([len(row) for row in rows])
        return cls(restrict(padded, vocab_size, unk).to(device), lengths.to(device), padded.to(device), words)

    def some(self, documents: Tensor) -> Sources:
        """Some of the documents (k), as wide as these need."""
        longest = int(self.lengths[documents].max())
        words = [self.words[document] for document in documents.tolist()]
        return Sources(
            self.ids[documents, :longest], self.lengths[documents], self.extended[documents, :longest], words
        )

    def extended_size(self, vocab_size: int) -> int:
        """How many extended ids there are."""
        return vocab_size + max(map(len, self.words), default=0)


class Written(NamedTuple):
    """What a search has written for a document.

    document    its number
    tokens      (n)   extended ids, ``</s>`` included
    log_probs   (n)   of each token; NaN where nobody asked and it would have cost extra
    """

    document: int
    tokens: Tensor
    log_probs: Tensor
