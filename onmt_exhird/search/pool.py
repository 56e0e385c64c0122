"""The rows of a greedy search: documents that have come wait for one, are encoded, and leave when they are finished.

The output layer reads its whole weight at every step, for one row as for many. So where a document is finished another
one takes its place, and only when none is left do the rows become fewer. Documents may come while others are under way.
They are encoded in small parts, when their turn comes: many of them take little more memory than the rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from onmt_exhird.nn.hierarchical import Memory
from onmt_exhird.nn.model import KeyphraseModel, State
from onmt_exhird.search.constraint import StreamConstraint
from onmt_exhird.search.hypotheses import Hypotheses
from onmt_exhird.search.sources import Sources

ROWS = 80  # more make no step cheaper per row, and each takes half a megabyte
TOKENS = 11_000  # of the source, that are encoded together: what the encoder takes grows with them
DOCUMENTS = 4  # that are encoded together at least: a step of the encoder costs as much for fewer
PATIENCE = 1.5  # rows that may be under way for each document that waits to be encoded, where more may come


class _Arrived(NamedTuple):
    """A document that has come: what `Sources` has of it, without padding."""

    number: int
    ids: Tensor
    extended: Tensor
    words: Sequence[str]


class _Encoded(NamedTuple):
    """A document that waits for a row.

    states          (src_len, d)    the memory
    vector          (d)             h_0
    extended        (src_len)       ids for copying
    classes         (words, ...)    of its out-of-vocabulary words, as the constraint has them; None if it has none
    has_structure   whether a structure token is among its own
    """

    number: int
    states: Tensor
    vector: Tensor
    extended: Tensor
    classes: Tensor | None
    has_structure: bool


class Table:
    """Something for every token of each row's document, and a filler behind it.

    >>> table = Table(torch.tensor(0))
    >>> table.append(0, torch.tensor([1, 2]))
    >>> table.append(1, torch.tensor([3, 4, 5]))
    >>> table.room[:2]
    tensor([[1, 2, 0],
            [3, 4, 5]])
    """

    def __init__(self, filler: Tensor) -> None:
        self._filler = filler
        self.room = filler.new_empty(0)  # (ROWS, longest document so far, ...)

    def append(self, row: int, entries: Tensor) -> None:
        """Write a document's entries (n, ...) into a row, the first that is free."""
        size, before = len(entries), self.room
        if self.room.dim() == 1 or size > self.room.size(1):
            self.room = entries.new_empty(ROWS, *entries.shape)
            if row:  # rows that are free are not touched: such memory costs nothing
                self.room[:row, : before.size(1)] = before[:row]
                self.room[:row, before.size(1) :] = self._filler
        self.room[row, :size] = entries
        self.room[row, size:] = self._filler

    def move(self, row: int, to: int) -> None:
        self.room[to] = self.room[row]


class Pool:
    """The documents under way.

    arrivals        what has come at a time, or None; it ends when no more will come
    constraint      of the search, which knows words by classes of its own
    documents       the number of each row's document, in the order of arrival
    has_structure   whether there is a structure token in each row's document
    lengths         (rows)    of each row's document
    state           the decoder's, for every row
    inputs          (rows)    the last token of each
    hypotheses      what has been written in each
    """

    def __init__(
        self, model: KeyphraseModel, constraint: StreamConstraint | None, arrivals: Iterator[Sources | None]
    ) -> None:
        self._model, self._constraint, self._arrivals = model, constraint, arrivals
        self._is_open, self._count = True, 0
        self.extended_size = model.vocab_size  # with the words of every document so far
        self._arrived: deque[_Arrived] = deque()
        self._encoded: deque[_Encoded] = deque()
        self.documents: list[int] = []
        self.has_structure: list[bool] = []
        self.state: State = None
        device = model.target_embedding.weight.device
        self.inputs = self.lengths = torch.empty(0, dtype=torch.long, device=device)
        self._width = 0  # of the longest of them
        self._states, self._extended = Table(torch.tensor(0.0, device=device)), Table(torch.tensor(0, device=device))
        self._classes: Table | None = None
        start = model.ids.start
        if constraint is not None:
            start = constraint.ids.start
            nothing = constraint.oov_classes([[]])
            self._classes = None if nothing is None else Table(nothing[0, 0])
        self.hypotheses = Hypotheses(start, model.ids.pad, device)

    @property
    def memory(self) -> Memory:
        """Of every row, as wide as the longest document needs."""
        return Memory.of(self._states.room[: len(self.documents), : self._width], self.lengths)

    @property
    def extended(self) -> Tensor:
        """The source in ids for copying, of every row: (rows, src_len)."""
        return self._extended.room[: len(self.documents), : self._width]

    def classes(self, rows: Tensor | None) -> Tensor | None:
        """Of the out-of-vocabulary words of some rows (k), None: all, as the constraint has them: (k, words, ...)."""
        if self._classes is None:
            return None
        return self._classes.room[: len(self.documents)] if rows is None else self._classes.room[rows]

    def fill(self) -> bool:
        """Take what has come, and give free rows to documents; whether there is, or may come, something to do."""
        if self._is_open and len(self._arrived) + len(self._encoded) < ROWS:
            self._receive()
        if not (self.documents and self._model.grows):
            chosen: list[_Encoded] = []
            while len(self.documents) + len(chosen) < ROWS and self._has_next(len(self.documents) + len(chosen)):
                chosen.append(self._encoded.popleft())
            if chosen:
                self._begin(chosen)
        return self._is_open or bool(self.documents)

    def drop(self, rows: list[int]) -> None:
        """Do without some rows; the last ones move there."""
        left = len(self.documents) - len(rows)
        stay = [row for row in range(left, len(self.documents)) if row not in rows]  # of the last rows
        order = list(range(left))
        for row, last in zip(rows, stay, strict=False):  # the rows of those that leave at the end are not needed
            order[row] = last
            for table in (self._states, self._extended, self._classes):
                if table is not None:
                    table.move(last, row)
        index = torch.tensor(order, dtype=torch.long, device=self.inputs.device)
        self.documents = [self.documents[row] for row in order]
        self.has_structure = [self.has_structure[row] for row in order]
        self.inputs, self.lengths = self.inputs[index], self.lengths[index]
        self.state = self.state.map(lambda tensor: tensor[index])
        self.hypotheses = self.hypotheses.at(index)

    def _receive(self) -> None:
        """Take what has come, the longest documents first: those that are encoded together are then alike."""
        try:
            sources = next(self._arrivals)
        except StopIteration:
            self._is_open = False
            return
        if sources is None:
            return
        for row in sources.lengths.argsort(descending=True, stable=True).tolist():
            length = int(sources.lengths[row])
            ids, extended = sources.ids[row, :length], sources.extended[row, :length]
            self._arrived.append(_Arrived(self._count + row, ids, extended, sources.words[row]))
        self._count += len(sources.lengths)
        self.extended_size = max(self.extended_size, sources.extended_size(self._model.vocab_size))

    def _has_next(self, under_way: int) -> bool:
        """Whether an encoded document waits; if none does, some are encoded.

        A step of the encoder costs as much for one document as for several. So where more may come, it waits for a few
        of them, the longer the more there is to do meanwhile.
        """
        enough = not self._is_open or len(self._arrived) * PATIENCE >= under_way
        if not self._encoded and self._arrived and enough:
            self._encode()
        return bool(self._encoded)

    def _encode(self) -> None:
        """Encode those that came first, as many as may be encoded together."""
        part: list[_Arrived] = []
        longest = 1
        while self._arrived:
            longest = max(longest, len(self._arrived[0].ids))
            if len(part) >= max(DOCUMENTS, TOKENS // longest):
                break
            part.append(self._arrived.popleft())
        lengths = self.lengths.new_tensor([len(one.ids) for one in part])
        states, vectors = self._model.encode(pad_sequence([one.ids for one in part], batch_first=True), lengths)
        of_words = None if self._constraint is None else self._constraint.oov_classes([one.words for one in part])
        for row, one in enumerate(part):
            classes = None if of_words is None else of_words[row]
            found = self._constraint is not None and bool(torch.isin(one.extended, self._constraint.structure).any())
            own = states[row, : len(one.ids)]
            self._encoded.append(_Encoded(one.number, own, vectors[row], one.extended, classes, found))

    def _begin(self, documents: list[_Encoded]) -> None:
        """Documents take the first rows that are free."""
        first = len(self.documents)
        for row, document in enumerate(documents, start=first):
            self._states.append(row, document.states)
            self._extended.append(row, document.extended)
            if self._classes is not None and document.classes is not None:
                self._classes.append(row, document.classes)
        self.documents += [document.number for document in documents]
        self.has_structure += [document.has_structure for document in documents]
        self.lengths = torch.cat([self.lengths, self.lengths.new_tensor([len(one.states) for one in documents])])
        self._width = int(self.lengths.max())
        vectors = torch.stack([document.vector for document in documents])
        state = self._model.first_state(vectors, self.memory.map(lambda tensor: tensor[first:]))
        if first:
            state = type(state)(*map(torch.cat, zip(self.state, state, strict=True)))
        self.state = state
        self.hypotheses.begin(len(documents))
        self.inputs = torch.cat([self.inputs, self.inputs.new_full((len(documents),), self._model.ids.start)])
