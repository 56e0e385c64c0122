"""Which of the phrases that many authors use would those of a document choose? A guess from its words alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

TITLE = 2.0  # what a word of the title counts for beside any other


class Thesaurus(nn.Module):
    """P(phrase | document), over a list of phrases.

    A document is a bag of words, of length one: each word as 1 + log of how often it stands there, times how rare it
    is. The sum of its words' vectors, each times its weight, meets a vector of each phrase.

    words     (V, d)   vectors of the vocabulary's words
    rarity    (V)      0 for a token that says nothing of a document's subject
    phrases   (T, d)   vectors of the phrases
    bias      (T)
    keyness   (T)      log odds that authors choose a phrase that stands in their document
    """

    def __init__(self, vocab_size: int, count: int, size: int) -> None:
        super().__init__()
        self.words = nn.Parameter(torch.randn(vocab_size, size) * 0.1)
        self.register_buffer("rarity", torch.zeros(vocab_size))
        self.phrases = nn.Parameter(torch.randn(count, size) * 0.01)
        self.bias = nn.Parameter(torch.zeros(count))
        self.register_buffer("keyness", torch.zeros(count))
        self.rarity: Tensor
        self.keyness: Tensor

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Thesaurus:
        """With these very tensors."""
        (vocab_size, size), count = tensors["words"].shape, len(tensors["phrases"])
        with torch.random.fork_rng(devices=[]):
            thesaurus = cls(vocab_size, count, size)
        thesaurus.load_state_dict(dict(tensors), assign=True)
        return thesaurus.requires_grad_(False).eval()

    def bag(self, ids: Tensor, title: int) -> tuple[Tensor, Tensor]:
        """A document (n), of whose tokens the first so many are its title, as different words and their weights.

        >>> thesaurus = Thesaurus(vocab_size=3, count=1, size=2)
        >>> thesaurus.rarity[:] = torch.tensor([0.0, 3.0, 1.0])
        >>> [one.tolist() for one in thesaurus.bag(torch.tensor([2, 0, 1, 0]), title=0)]
        [[1, 2], [0.9486832618713379, 0.3162277638912201]]
        """
        ids, places = ids.unique(return_inverse=True)
        each = torch.ones_like(places, dtype=self.rarity.dtype)
        each[:title] = TITLE
        counts = torch.zeros(len(ids), dtype=each.dtype).index_add_(0, places, each)
        weights = (1 + counts.log()) * self.rarity[ids]
        kept = weights > 0
        ids, weights = ids[kept], weights[kept]
        return ids, functional.normalize(weights, dim=0)

    def vectors(self, bags: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """Bags of documents -> (documents, d)"""
        lengths = torch.tensor([len(ids) for ids, _ in bags])
        return functional.embedding_bag(
            torch.cat([ids for ids, _ in bags]),
            self.words,
            lengths.cumsum(0) - lengths,
            mode="sum",
            per_sample_weights=torch.cat([weights for _, weights in bags]),
        )

    def logits(self, vectors: Tensor) -> Tensor:
        """(documents, d) -> (documents, T)"""
        return functional.linear(vectors, self.phrases, self.bias)


def title_length(ids: Tensor, separator: int | None) -> int:
    """How many tokens of a document (n) stand before the separator; 0 if there is none."""
    places = ids.eq(-1 if separator is None else separator).nonzero()
    return int(places[0]) if len(places) else 0
