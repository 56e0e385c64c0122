"""Which of the phrases that many authors use would those of a document choose? A guess from its words alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

TITLE = 2.0  # what a sign of the title counts for beside any other
Bag = tuple[Tensor, Tensor]  # different signs, and their weights


class Thesaurus(nn.Module):
    """P(phrase | document), over a list of phrases.

    A document is known by two kinds of signs: its words, and those phrases of the list that stand in it. Each sign
    counts 1 + log of how often it stands there, times how rare it is, and those of each kind have length one together.
    The sum of the signs' vectors, each times its weight, meets a vector of each phrase.

    signs     (V + T, d)   vectors of the vocabulary's words, then of the phrases as signs
    rarity    (V + T)      0 for a sign that says nothing of a document's subject
    roots     (V)          of each word, a word with the same stem, the same one for all that have it
    phrases   (T, d)       vectors of the phrases
    bias      (T)
    keyness   (T)          log odds that authors choose a phrase that stands in their document
    """

    def __init__(self, vocab_size: int, count: int, size: int) -> None:
        super().__init__()
        self.signs = nn.Parameter(torch.randn(vocab_size + count, size) * 0.1)
        self.register_buffer("rarity", torch.zeros(vocab_size + count))
        self.register_buffer("roots", torch.arange(vocab_size, dtype=torch.int32))
        self.phrases = nn.Parameter(torch.randn(count, size) * 0.01)
        self.bias = nn.Parameter(torch.zeros(count))
        self.register_buffer("keyness", torch.zeros(count))
        self.rarity: Tensor
        self.roots: Tensor
        self.keyness: Tensor

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Thesaurus:
        """With these very tensors."""
        vocab_size, (count, size) = len(tensors["roots"]), tensors["phrases"].shape
        with torch.random.fork_rng(devices=[]):
            thesaurus = cls(vocab_size, count, size)
        thesaurus.load_state_dict(dict(tensors), assign=True)
        return thesaurus.requires_grad_(False).eval()

    def weigh(self, signs: Tensor, title: int) -> Bag:
        """Signs of a document, all of one kind (n), of which the first so many are of its title.

        >>> thesaurus = Thesaurus(vocab_size=3, count=0, size=2)
        >>> thesaurus.rarity[:] = torch.tensor([0.0, 3.0, 1.0])
        >>> [one.tolist() for one in thesaurus.weigh(torch.tensor([2, 0, 1, 0]), title=0)]
        [[1, 2], [0.9486832618713379, 0.3162277638912201]]
        """
        signs, places = signs.unique(return_inverse=True)
        each = torch.ones_like(places, dtype=self.rarity.dtype)
        each[:title] = TITLE
        counts = torch.zeros(len(signs), dtype=each.dtype).index_add_(0, places, each)
        weights = (1 + counts.log()) * self.rarity[signs]
        kept = weights > 0
        signs, weights = signs[kept], weights[kept]
        return signs, functional.normalize(weights, dim=0)

    def vectors(self, bags: Sequence[Bag]) -> Tensor:
        """Bags of documents -> (documents, d)"""
        lengths = torch.tensor([len(signs) for signs, _ in bags])
        return functional.embedding_bag(
            torch.cat([signs for signs, _ in bags]),
            self.signs,
            lengths.cumsum(0) - lengths,
            mode="sum",
            per_sample_weights=torch.cat([weights for _, weights in bags]),
        )

    def logits(self, vectors: Tensor) -> Tensor:
        """(documents, d) -> (documents, T)"""
        return functional.linear(vectors, self.phrases, self.bias)


class Finder:
    """Finds the signs of documents.

    roots       as in `Thesaurus`
    phrases     the numbers of their words; None for a word that is not in the vocabulary: such a phrase is not found
    separator   the number of the token that stands between title and text
    """

    def __init__(self, roots: Tensor, phrases: Sequence[Sequence[int | None]], separator: int | None) -> None:
        self._roots, self._separator = roots, separator
        root_of = roots.tolist()
        spelled = [tuple(-1 if word is None else root_of[word] for word in words) for words in phrases]
        self._numbers = {words: number for number, words in enumerate(spelled) if -1 not in words}
        self._longest: dict[int, int] = {}  # of the phrases that begin with a root
        for words in self._numbers:
            self._longest[words[0]] = max(len(words), self._longest.get(words[0], 0))

    def phrases(self, ids: Tensor) -> Iterator[tuple[int, int]]:
        """The phrases that stand in a document (n): the place of the first word, the number.

        >>> finder = Finder(torch.tensor([0, 1, 2, 1]), [[1], [3, 0], [None, 2]], separator=None)
        >>> list(finder.phrases(torch.tensor([2, 3, 0, 1])))  # 3 has the stem of 1
        [(1, 0), (1, 1), (3, 0)]
        """
        roots = tuple(self._roots[ids].tolist())
        for place, root in enumerate(roots):
            for end in range(place + 1, place + 1 + min(self._longest.get(root, 0), len(roots) - place)):
                if (number := self._numbers.get(roots[place:end])) is not None:
                    yield place, number

    def __call__(self, ids: Tensor, thesaurus: Thesaurus) -> Bag:
        """All signs of a document (n), weighed."""
        title, found = title_length(ids, self._separator), list(self.phrases(ids))
        phrases = torch.tensor([len(self._roots) + number for _, number in found], dtype=ids.dtype)
        kinds = (ids, title), (phrases, sum(place < title for place, _ in found))
        (words, by_word), (phrases, by_phrase) = (thesaurus.weigh(signs, first) for signs, first in kinds)
        return torch.cat((words, phrases)), torch.cat((by_word, by_phrase))


def title_length(ids: Tensor, separator: int | None) -> int:
    """How many tokens of a document (n) stand before the separator; 0 if there is none."""
    places = ids.eq(-1 if separator is None else separator).nonzero()
    return int(places[0]) if len(places) else 0
