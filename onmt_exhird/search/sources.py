"""What a search is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


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
