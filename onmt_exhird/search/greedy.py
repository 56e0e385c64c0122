"""Greedy search over a pool of documents.

Rows that stand where no word may come do without the output layer, unless scores are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from onmt_exhird.nn.best import best
from onmt_exhird.nn.model import KeyphraseModel
from onmt_exhird.nn.quantised import ScreenedCopyGenerator
from onmt_exhird.search.constraint import StreamConstraint
from onmt_exhird.search.pool import ROWS, Pool
from onmt_exhird.search.sources import Sources, Written
from onmt_exhird.search.states import State


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

    def __call__(self, sources: Sources) -> Iterator[Written]:
        """What is written for each document, as they are finished: not in their order."""
        for written in self.steps([sources]):
            yield from written

    @torch.no_grad()
    def steps(self, arrivals: Iterable[Sources | None]) -> Iterator[list[Written]]:
        """What is finished at each step, of documents that may come while others are under way.

        arrivals   what has come, or None; asked before a step, unless more than enough is waiting for a row. It ends
                   when no more will come. Documents are numbered in the order of arrival.
        """
        yield from _Search(self, Pool(self.model, self.constraint, iter(arrivals))).run()


class _Seen(NamedTuple):
    """What the output layer is told of some rows.

    attentional   (rows, d)         h~
    attention     (rows, src_len)   alpha, for copying
    extended      (rows, src_len)   what would be copied
    """

    attentional: Tensor
    attention: Tensor
    extended: Tensor

    def at(self, rows: Tensor) -> _Seen:
        """Of some of them (k)."""
        return _Seen(*(tensor.index_select(0, rows) for tensor in self))


class _Search:
    """Greedy search on its way."""

    def __init__(self, search: Greedy, pool: Pool) -> None:
        self.search, self.pool = search, pool
        self.model, self.constraint = search.model, search.constraint
        self.scores = torch.empty(0, 0, device=pool.inputs.device)  # the largest matrix, the same one at every step
        if self.constraint is not None:
            self.structure = self.model.generator.rows(self.constraint.structure)

    def run(self) -> Iterator[list[Written]]:
        while self.pool.fill():
            yield self._step() if self.pool.documents else []

    def _step(self) -> list[Written]:
        """Another token for every row; what is finished by it."""
        pool = self.pool
        pool.inputs, log_probs = self._choose()
        pool.hypotheses.append(pool.inputs, log_probs)
        finished = pool.inputs.eq(self.model.ids.eos) | pool.hypotheses.ages.gt(self.search.max_length)
        rows = finished.nonzero().squeeze(1).tolist()
        written = [Written(pool.documents[row], *pool.hypotheses.written(row)) for row in rows]
        if rows:
            pool.drop(rows)
        return written

    def _choose(self) -> tuple[Tensor, Tensor]:
        """The next token of every row and its log P, as `Written` has it: (rows,) twice."""
        constraint, pool, generator = self.constraint, self.pool, self.model.generator
        where, full = None, None
        if constraint is not None:
            where = pool.hypotheses.states(constraint)
            full = where.eq(State.FULL)
        step = self.model.step(pool.inputs, pool.memory, pool.state, full=full)
        pool.state = step.state
        seen = _Seen(step.attentional, step.attention, pool.extended)
        # A structure token in a source could be copied, which only the whole distribution knows.
        if constraint is None or where is None or self.search.scored or any(pool.has_structure):
            return self._pick(None, seen)
        # Where no word may come, the three or four tokens that may are compared without the rest of the vocabulary.
        ids = constraint.choose_structure(where, F.linear(generator.project(step.attentional), *self.structure))
        log_probs = torch.full_like(ids, torch.nan, dtype=step.attentional.dtype)
        rows = where.lt(State.FULL).nonzero().squeeze(1)
        if len(rows):
            ids[rows], log_probs[rows] = self._choose_words(rows, seen.at(rows))
        return ids, log_probs

    def _choose_words(self, rows: Tensor, seen: _Seen) -> tuple[Tensor, Tensor]:
        """The next token of some rows (k,), where a word may come, and its log P: (k,) twice."""
        generator = self.model.generator
        if not isinstance(generator, ScreenedCopyGenerator):
            return self._pick(rows, seen)
        scores = self._scores(len(rows))
        screening = generator.screen(*seen, scores)
        self._forbid(scores, rows)
        ids, log_probs, certain = generator.choose(screening, scores)
        self._wipe(scores, seen)
        uncertain = certain.logical_not().nonzero().squeeze(1)
        if len(uncertain):
            ids[uncertain], log_probs[uncertain] = self._pick(rows[uncertain], seen.at(uncertain))
        return ids, log_probs

    def _pick(self, rows: Tensor | None, seen: _Seen) -> tuple[Tensor, Tensor]:
        """The best permitted token of some rows (k,), None: all, and its log P, from the whole distribution."""
        scores = self._scores(len(seen.attentional))
        constant = self.model.generator.relative_mixture(*seen, scores)
        self._forbid(scores, rows)
        values, ids = best(scores[:, : self.model.generator.vocab_size])  # (k, 1)
        own, place = scores.gather(1, seen.extended).max(1, keepdim=True)
        self._wipe(scores, seen)
        ids = torch.where(own > values, seen.extended.gather(1, place), ids)
        return ids.squeeze(1), (own.maximum(values) + constant).squeeze(1)

    def _scores(self, rows: int) -> Tensor:
        """Where every token's score may be written, for so many rows: (rows, extended vocabulary).

        Minus infinity behind the words that can be generated: passing over so many at every step would take its time.
        """
        size = self.pool.extended_size
        if size > self.scores.size(1):
            self.scores = self.scores.new_full((ROWS, size), -torch.inf)
        return self.scores[:rows]

    @staticmethod
    def _wipe(scores: Tensor, seen: _Seen) -> None:
        """Leave scores (k, size) as `_scores` gives them."""
        scores.scatter_(1, seen.extended, -torch.inf)

    def _forbid(self, scores: Tensor, rows: Tensor | None) -> None:
        """Set the scores (k, size) of what may not come next in some rows to minus infinity."""
        if self.search.ban_unk:
            scores[:, self.model.ids.unk] = -torch.inf
        if self.constraint is not None:
            hypotheses = self.pool.hypotheses if rows is None else self.pool.hypotheses.at(rows)
            hypotheses.constrain(self.constraint, scores, self.pool.classes(rows))
