"""Stem classes: two words are of one class if they have the same stem."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor

from onmt_exhird.text import stem

NO_WORD = -1
SPLIT = -2  # a word with "/": the evaluation reads it as two phrases, so its phrase cannot be told from others
SLASH = "/"


class StemTable:
    """The stem class of every extended id, and the vocabulary ids of every class.

    Vocabulary classes are 0 to ``size - 1``. Class ``size + k`` is a stem that only words outside the vocabulary
    have; it is particular to a document. ``key`` is what words of one class have in common.

    >>> table = StemTable(["graph", "graphs", "tree"])
    >>> table.classes.tolist(), table.members.tolist()
    ([0, 0, 1], [[0, 1], [2, -1]])
    >>> table.out_of_vocabulary([["trees", "heap"], []]).tolist()
    [[1, 2], [-1, -1]]
    """

    def __init__(
        self, tokens: Sequence[str], device: torch.device | str = "cpu", key: Callable[[str], Hashable] = stem
    ) -> None:
        self._key = key
        self._class_of: dict[Hashable, int] = {}
        members: list[list[int]] = []
        classes = []
        for index, token in enumerate(tokens):
            number = self._class_of.setdefault(key(token), len(members))
            if number == len(members):
                members.append([])
            members[number].append(index)
            classes.append(number)
        self.size = len(members)
        self.classes = torch.tensor(classes, device=device)  # (vocabulary,)
        width = max(map(len, members))
        padded = [ids + [NO_WORD] * (width - len(ids)) for ids in members]
        self.members = torch.tensor(padded, device=device)  # (classes, largest class)

    def out_of_vocabulary(self, words: Sequence[Sequence[str]]) -> Tensor:
        """The classes of each document's out-of-vocabulary words, in the order of their extended ids.

        Returns (documents, most words of one document, at least 1), filled up with -1.
        """
        width = max([1, *map(len, words)])
        rows = []
        for document in words:
            own: dict[Hashable, int] = {}
            row = []
            for word in document:
                root = self._key(word)
                number = self._class_of.get(root)
                if number is None:
                    number = self.size + own.setdefault(root, len(own))
                row.append(SPLIT if SLASH in word else number)
            rows.append(row + [NO_WORD] * (width - len(row)))
        return torch.tensor(rows, device=self.classes.device)  # (documents, width)

    def classes_of(self, ids: Tensor, oov: Tensor) -> Tensor:
        """The classes of extended ids (rows, n), -1 for -1.

        ``oov`` (rows, words): each row's part of `out_of_vocabulary`.
        """
        vocabulary = len(self.classes)
        inside = self.classes[ids.clamp(0, vocabulary - 1)]
        outside = oov.gather(1, (ids - vocabulary).clamp(0, oov.size(1) - 1))
        return inside.where(ids.lt(vocabulary), outside).masked_fill(ids.lt(0), NO_WORD)

    def ids_of(self, classes: Tensor, oov: Tensor) -> Tensor:
        """All extended ids of the given classes (rows, n): (rows, n * largest class + words), filled up with -1."""
        known = classes.ge(0) & classes.lt(self.size)
        inside = self.members[classes.masked_fill(~known, 0)]  # (rows, n, largest class)
        inside = inside.masked_fill(~known.unsqueeze(2), NO_WORD)
        hit = oov.unsqueeze(2).eq(classes.unsqueeze(1)).any(2) & oov.ne(NO_WORD)  # (rows, words)
        extended = torch.arange(oov.size(1), device=oov.device) + len(self.classes)
        outside = extended.expand_as(oov).masked_fill(~hit, NO_WORD)
        return torch.cat([inside.flatten(1), outside], dim=1)
