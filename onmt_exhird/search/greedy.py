"""Greedy search over a pool of documents, which keeps its rows full.

The output layer reads its whole weight at every step, for one row as for many. So a row whose document is finished
takes the next document, and only when none is left do the rows become fewer. Rows that stand where no word may
come do without that layer, unless scores are asked for. Documents are encoded in small parts, when their turn comes:
many documents take little more memory than the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from onmt_exhird.nn.best import best
from onmt_exhird.nn.hierarchical import Memory
from onmt_exhird.nn.model import KeyphraseModel
from onmt_exhird.nn.quantised import ScreenedCopyGenerator
from onmt_exhird.search.constraint import StreamConstraint
from onmt_exhird.search.hypotheses import Hypotheses
from onmt_exhird.search.sources import Sources, Written
from onmt_exhird.search.states import State

ROWS = 80  # more make no step cheaper per row, and each takes half a megabyte
TOKENS = 6000  # of the source, that are encoded together: what the encoder takes grows with them
DOCUMENTS = 4  # that are encoded together at least: a step of the encoder costs as much for fewer


@dataclass(frozen=True)
class Greedy:
    """Greedy search.

    constraint   what may be written; None: anything
    max_length   tokens of an output at most
    ban_unk      whether the unknown word may not be written
    scored       whether every token's log P is wanted exactly; else words have it up to the error of eight bits, and
                 what is between phrases has none
    """

    model: KeyphraseModel
    constraint: StreamConstraint | None
    max_length: int
    ban_unk: bool = False
    scored: bool = False

    @torch.no_grad()
    def __call__(self, sources: Sources) -> Iterator[Written]:
        """What is written for each document, as they are finished: not in their order."""
        if len(sources.lengths):
            yield from _Pool(self, sources).run()


def cut(tensor: Tensor, like: Tensor) -> Tensor:
    """A tensor (rows, ...) whose rows are as short as another row (...) in every axis, if they were longer.

    >>> cut(torch.zeros(2, 5, 3), torch.zeros(4, 3)).shape
    torch.Size([2, 4, 3])
    """
    for axis, size in enumerate(like.shape, start=1):
        tensor = tensor.narrow(axis, 0, min(size, tensor.size(axis)))
    return tensor


class _Document(NamedTuple):
    """An encoded document that waits for a row.

    source   memory (src_len, d), length (), extended ids (src_len)
    state    the tensors of the decoder's state before the first token
    """

    number: int
    source: tuple[Tensor, ...]
    state: tuple[Tensor, ...]


class _Pool:
    """The documents on their way through greedy search.

    documents   the number of each row's document
    source      what `_Document` has, for every row
    state       the decoder's, for every row
    """

    def __init__(self, search: Greedy, sources: Sources) -> None:
        self.search, self.sources = search, sources
        self.model, self.constraint = search.model, search.constraint
        self.documents: list[int] = []
        self.source: list[Tensor] = []
        self.waiting = self._encode()
        vocab_size = self.model.vocab_size
        rows = min(ROWS, len(sources.lengths))
        # The largest matrix, the same one at every step.
        self.scores = torch.empty(rows, sources.extended_size(vocab_size), device=sources.ids.device)
        self.classes: Tensor | None = None
        self.scored = search.scored or self.constraint is None
        if self.constraint is not None:
            self.classes = self.constraint.oov_classes(sources.words)  # (documents, words)
            self.structure = self.model.generator.rows(self.constraint.structure)
            # A structure token in a source could be copied, which only the whole distribution knows.
            self.scored = self.scored or bool(torch.isin(sources.extended, self.constraint.structure).any())

    def _encode(self) -> Iterator[_Document]:
        """The documents, the longest first, and as wide as their predecessors need."""
        sources = self.sources
        order = sources.lengths.argsort(descending=True, stable=True)
        longest = sources.ids.size(1)  # of the part before
        while len(order):
            size = max(DOCUMENTS, TOKENS // max(1, int(sources.lengths[order[0]])))
            part, order = order[:size], order[size:]
            lengths = sources.lengths[part]
            running = self.source[1][: len(self.documents)] if self.documents else lengths
            width = max(longest, int(running.max()))
            longest = int(lengths.max())
            states, document = self.model.encode(sources.ids[part, :longest], lengths, width)
            state = self.model.first_state(document, Memory.of(states, lengths))
            self.kind = type(state)
            source = states, lengths, sources.extended[part, :width]
            yield from map(_Document, part.tolist(), zip(*source, strict=True), zip(*state, strict=True))
            del states, source, state  # before the next ones come

    def run(self) -> Iterator[Written]:
        eos, max_length = self.model.ids.eos, self.search.max_length
        left = len(self.sources.lengths)
        while left:
            self._fill(min(ROWS, left))
            while self.documents:
                self.inputs, log_probs = self._choose()
                self.hypotheses.append(self.inputs, log_probs)
                finished = self.inputs.eq(eos) | self.hypotheses.ages.gt(max_length)
                rows = finished.nonzero().squeeze(1).tolist()
                left -= len(rows)
                for row in rows:
                    yield Written(self.documents[row], *self.hypotheses.written(row))
                if rows:
                    self._go_on_without(rows)

    def _fill(self, rows: int) -> None:
        """Give every row its first document."""
        self.source, states = [], []
        for row, document in enumerate(islice(self.waiting, rows)):
            self.source = self.source or [own.new_empty(rows, *own.shape) for own in document.source]
            self._place(row, document)
            states.append(document.state)
        narrow = [[cut(own[None], like)[0] for own, like in zip(state, states[-1], strict=True)] for state in states]
        self.state = self.kind(*map(torch.stack, zip(*narrow, strict=True)))
        start = self.model.ids.start
        known_as = start if self.constraint is None else self.constraint.ids.start
        self.hypotheses = Hypotheses(rows, known_as, self.model.ids.pad, self.scores.device)
        self.inputs = torch.full_like(self.hypotheses.ages, start)  # (rows,)

    def _place(self, row: int, document: _Document) -> None:
        """Write a document's part into a row; all rows become as narrow as the document."""
        self.documents[row : row + 1] = [document.number]
        self.source = [cut(tensor, own) for tensor, own in zip(self.source, document.source, strict=True)]
        for tensor, own in zip(self.source, document.source, strict=True):
            tensor[row] = cut(own.unsqueeze(0), tensor[0]).squeeze(0)

    def _choose(self) -> tuple[Tensor, Tensor]:
        """The next token of every row and its log P, as `Written` has it: (rows,) twice."""
        constraint, hypotheses, generator = self.constraint, self.hypotheses, self.model.generator
        states, lengths, extended = (tensor[: len(self.documents)] for tensor in self.source)
        where, full = None, None
        if constraint is not None:
            where = hypotheses.states(constraint)
            full = where.eq(State.FULL)
        step = self.model.step(self.inputs, Memory.of(states, lengths), self.state, full=full)
        self.state = step.state
        arguments = step.attentional, step.attention, extended
        if constraint is None or where is None or self.scored:
            scores = self.scores[: len(lengths)]
            constant = generator.relative_mixture(*arguments, scores)
            ids, values = self._pick(scores, hypotheses, self.documents)
            return ids, values + constant.squeeze(1)
        # Where no word may come, the three or four tokens that may are compared without the rest of the vocabulary.
        ids = constraint.choose_structure(where, F.linear(generator.project(step.attentional), *self.structure))
        log_probs = torch.full_like(ids, torch.nan, dtype=step.attentional.dtype)
        rows = where.lt(State.FULL).nonzero().squeeze(1)
        if len(rows):
            ids[rows], log_probs[rows] = self._choose_words(
                rows, arguments, isinstance(generator, ScreenedCopyGenerator)
            )
        return ids, log_probs

    def _choose_words(
        self, rows: Tensor, arguments: tuple[Tensor, Tensor, Tensor], screen: bool
    ) -> tuple[Tensor, Tensor]:
        """The next token of some rows (k,) and its log P, (k,) twice; the arguments are those of all rows."""
        generator = self.model.generator
        hidden, attention, extended = (tensor.index_select(0, rows) for tensor in arguments)
        some = hidden, attention, extended
        scores, hypotheses = self.scores[: len(rows)], self.hypotheses.at(rows)
        documents = [self.documents[row] for row in rows.tolist()]
        if not (screen and isinstance(generator, ScreenedCopyGenerator)):
            constant = generator.relative_mixture(*some, scores)
            ids, values = self._pick(scores, hypotheses, documents)
            return ids, values + constant.squeeze(1)
        constant = generator.rough.relative_mixture(*some, scores)
        self._forbid(scores, hypotheses, documents)
        ids, log_probs, certain = generator.choose(*some, scores, constant)
        uncertain = certain.logical_not().nonzero().squeeze(1)
        if len(uncertain):
            ids[uncertain], log_probs[uncertain] = self._choose_words(rows[uncertain], arguments, screen=False)
        return ids, log_probs

    def _pick(self, scores: Tensor, hypotheses: Hypotheses, documents: list[int]) -> tuple[Tensor, Tensor]:
        """The best permitted tokens of some rows, given all tokens' scores (k, size): (k,) ids and their scores."""
        self._forbid(scores, hypotheses, documents)
        values, ids = best(scores)
        return ids.squeeze(1), values.squeeze(1)

    def _forbid(self, scores: Tensor, hypotheses: Hypotheses, documents: list[int]) -> None:
        """Set the scores (k, size) of what may not come next to minus infinity."""
        if self.search.ban_unk:
            scores[:, self.model.ids.unk] = -torch.inf
        if self.constraint is not None:
            classes = None if self.classes is None else self.classes[documents]
            hypotheses.constrain(self.constraint, scores, classes)

    def _go_on_without(self, rows: list[int]) -> None:
        """Give the next documents the rows of finished ones; where there are no more, the last rows move there."""
        arrived = [] if self.model.grows else list(islice(self.waiting, len(rows)))
        if arrived:
            self._begin(rows[: len(arrived)], arrived)
        left = rows[len(arrived) :]
        if left:
            self._drop(left)

    def _begin(self, rows: list[int], documents: list[_Document]) -> None:
        index = torch.tensor(rows, device=self.inputs.device)
        self.hypotheses.begin(index)
        self.inputs = self.inputs.index_fill(0, index, self.model.ids.start)
        tensors = list(self.state)
        for row, document in zip(rows, documents, strict=True):
            self._place(row, document)
            tensors = [cut(tensor, own) for tensor, own in zip(tensors, document.state, strict=True)]
        for place, tensor in enumerate(tensors):
            arrived = torch.stack([cut(document.state[place].unsqueeze(0), tensor[0])[0] for document in documents])
            tensors[place] = tensor.index_copy(0, index, arrived)
        self.state = self.kind(*tensors)

    def _drop(self, rows: list[int]) -> None:
        left = len(self.documents) - len(rows)
        stay = [row for row in range(left, len(self.documents)) if row not in rows]  # of the last rows
        order = list(range(left))
        for row, last in zip(rows, stay, strict=False):  # the rows of those that leave at the end are not needed
            order[row] = last
            for tensor in self.source:
                tensor[row] = tensor[last]
        index = torch.tensor(order, dtype=torch.long, device=self.inputs.device)
        self.documents = [self.documents[row] for row in order]
        self.hypotheses = self.hypotheses.at(index)
        self.inputs = self.inputs[index]
        self.state = self.state.map(lambda tensor: tensor[index])
