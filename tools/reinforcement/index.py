"""Documents that are about the same: by the words they share, the rarer the more (TF-IDF)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

RAREST = 8  # documents that have a word at least: a rarer one finds hardly any
COMMONEST = 0.15  # of the documents that have a word at most: it would find all


class Index:
    """Finds the nearest of some documents.

    A document is a vector with a place for every word: 1 + log of how often it has it, times 1 + log of how rare it is,
    at last of length one. Two are as near as the cosine between them. Numbers and signs are no words.

    >>> index = Index([["graph", "tree"], ["graph", "search"], ["fish", "tree"]], rarest=1, commonest=1.0)
    >>> [number for number, _ in index.nearest(["a", "fish"], 2)]
    [2]
    """

    def __init__(self, documents: Iterable[Sequence[str]], rarest: int = RAREST, commonest: float = COMMONEST) -> None:
        words: dict[str, int] = {}
        ids, counts, ends = list[int](), list[int](), [0]
        for document in documents:
            for word, count in _count(document).items():
                ids.append(words.setdefault(word, len(words)))
                counts.append(count)
            ends.append(len(ids))
        of_word, lengths = np.array(ids, dtype=np.int32), np.diff(ends)
        having = np.bincount(of_word, minlength=len(words))  # documents, for every word
        used = (having >= rarest) & (having <= commonest * len(lengths))
        self._words = {word: number for word, number in words.items() if used[number]}
        self._rarity = 1 + np.log((1 + len(lengths)) / (1 + having))
        weights = (1 + np.log(counts, dtype=np.float32)) * self._rarity[of_word] * used[of_word]
        of_document = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        norms = np.sqrt(np.bincount(of_document, weights**2, minlength=len(lengths)))
        weights /= np.maximum(norms, 1e-9)[of_document]
        order = np.argsort(of_word, kind="stable")  # a word's documents together
        self._documents, self._weights = of_document[order], weights[order].astype(np.float32)
        self._ends = np.concatenate([[0], having.cumsum()])
        self._size = len(lengths)

    def nearest(self, document: Sequence[str], count: int) -> list[tuple[int, float]]:
        """So many documents at most, by their numbers, and how near each is; the nearest first."""
        own = {self._words[word]: number for word, number in _count(document).items() if word in self._words}
        query = {word: (1 + math.log(number)) * self._rarity[word] for word, number in own.items()}
        norm = math.hypot(*query.values())
        near: NDArray[np.float32] = np.zeros(self._size, dtype=np.float32)
        for word, weight in query.items():
            of_it = slice(self._ends[word], self._ends[word + 1])
            near[self._documents[of_it]] += self._weights[of_it] * np.float32(weight / norm)
        best = np.argpartition(-near, count)[:count] if count < self._size else np.arange(self._size)
        best = best[np.argsort(-near[best], kind="stable")]
        return [(int(number), float(near[number])) for number in best if near[number] > 0]


def _count(document: Sequence[str]) -> Counter[str]:
    return Counter(word for word in document if word[0].isalpha())
