"""Beam search over the stream, which passes over the vocabulary once a step.

The search itself knows rows only: as many for each document as there are beams. What decodes them is a `Rows`, of our
own model here (`ModelRows`), or of any model of OpenNMT-py (`onmt_exhird.bridge.rows`). A beam of one is greedy search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from onmt_exhird.nn.best import best
from onmt_exhird.nn.hierarchical import Memory
from onmt_exhird.nn.model import KeyphraseModel
from onmt_exhird.search.constraint import StreamConstraint
from onmt_exhird.search.sources import Sources

UNLIKELY = -1e5  # the log P of beams that hold no hypothesis yet: minus infinity would let forbidden tokens in
FINISHED = -65504.0  # and of those that have ended: nothing that follows them is taken

# Some rows' scores (k, size), up to a constant of each row, and these constants (k, 1).
ScoreRows = Callable[[Tensor], tuple[Tensor, Tensor]]


class Rows(Protocol):
    """The documents being decoded, each in as many rows as there are beams."""

    @property
    def documents(self) -> int:
        """How many documents there are at first."""

    def step(self, inputs: Tensor, full: Tensor | None) -> ScoreRows:
        """Feed a token to every row (rows,); full (rows): where the next token is not predicted."""

    def select(self, rows: Tensor) -> None:
        """Go on with these rows (k,) only, in this order."""


class Hypothesis(NamedTuple):
    """A finished output of a document: what it is ranked by, its tokens (n,) and the log P of each (n,)."""

    score: float
    tokens: Tensor
    log_probs: Tensor


@dataclass(frozen=True)
class Beam:
    """Beam search, as OpenNMT-py's without its coverage penalties, blocked n-grams and prefixes.

    penalty      what the sum of log P of an output of so many tokens, the start included, is divided by
    n_best       outputs of a document: the search goes on until it has them and the best beam has ended
    constraint   what may be written; None: anything
    """

    size: int
    start: int
    eos: int
    max_length: int
    penalty: Callable[[int], float] = float
    n_best: int = 1
    constraint: StreamConstraint | None = None
    banned: int | None = None

    @torch.no_grad()
    def __call__(
        self, rows: Rows, classes: Tensor | None, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """The best outputs of each document, the best first; classes: `StreamConstraint.oov_classes` of them."""
        return _Search(self, rows, classes, device).run()


class _Search:
    """A beam search under way.

    documents   (b)                    those that are not finished
    tokens      (b * beams, length)    the hypotheses, those of one document together
    each        (b * beams, length)    the log P of each of their tokens
    log_p       (b, beams)             of the hypotheses
    """

    def __init__(self, settings: Beam, rows: Rows, classes: Tensor | None, device: torch.device | str) -> None:
        self.settings, self.rows, self.classes = settings, rows, classes
        self.found: list[list[Hypothesis]] = [[] for _ in range(rows.documents)]
        self.documents = torch.arange(rows.documents, device=device)
        self.tokens = torch.full((rows.documents * settings.size, 1), settings.start, device=device)
        self.each = torch.zeros(self.tokens.shape, device=device)
        self.log_p = torch.full((rows.documents, settings.size), UNLIKELY, device=device)
        self.log_p[:, 0] = 0.0

    def run(self) -> list[list[Hypothesis]]:
        settings, constraint = self.settings, self.settings.constraint
        while len(self.documents):
            full = None if constraint is None else constraint.forced_end(self.tokens)
            values, tokens = self._successors(self.rows.step(self.tokens[:, -1], full))
            rows = self._advance(values, tokens)
            ended = self.tokens[:, -1].eq(settings.eos).view_as(self.log_p)  # (b, beams)
            if self.tokens.size(1) == settings.max_length + 1:
                ended = torch.ones_like(ended)
            if ended.any():
                rows = self._finish(ended, rows)
            if len(rows) and (settings.size > 1 or ended.any()):
                self.rows.select(rows)
        return [sorted(found, key=lambda one: one.score, reverse=True)[: settings.n_best] for found in self.found]

    def _successors(self, score_rows: ScoreRows) -> tuple[Tensor, Tensor]:
        """The best tokens of each row and their log P: (rows, beams) twice."""
        last, size, eos = self.tokens[:, -1], self.settings.size, self.settings.eos
        if self.tokens.size(1) == 1:  # all beams of a document are one
            values, tokens = self._best_of(score_rows, torch.arange(0, len(last), size, device=last.device))
            return values.repeat_interleave(size, 0), tokens.repeat_interleave(size, 0)
        rows = last.ne(eos).nonzero().squeeze(1)
        if len(rows) == len(last):
            return self._best_of(score_rows, rows)
        # A finished hypothesis stays where its document goes on, with a log P that is hopeless.
        tokens = torch.full_like(last.unsqueeze(1).expand(-1, size), eos)
        some_values, some_tokens = self._best_of(score_rows, rows)
        values = some_values.new_full(tokens.shape, -torch.inf)
        values[:, 0] = 0.0
        return values.index_copy(0, rows, some_values), tokens.index_copy(0, rows, some_tokens)

    def _best_of(self, score_rows: ScoreRows, rows: Tensor) -> tuple[Tensor, Tensor]:
        settings = self.settings
        scores, constants = score_rows(rows)
        if settings.banned is not None:
            scores[:, settings.banned] = -torch.inf
        if settings.constraint is not None:
            classes = None if self.classes is None else self.classes[self.documents[rows // settings.size]]
            settings.constraint.apply(scores, self.tokens[rows], classes)
        values, tokens = best(scores, settings.size)  # (k, beams): no beam can have more successors
        return values + constants, tokens

    def _advance(self, values: Tensor, tokens: Tensor) -> Tensor:
        """Append to the hypotheses what is best of all beams together; which rows they came from (rows,)."""
        size = self.settings.size
        penalty = self.settings.penalty(self.tokens.size(1) + 1)
        total = (values + self.log_p.clamp(min=UNLIKELY).view(-1, 1)).view(-1, size * size)
        self.ranks, chosen = (total / penalty if penalty != 1 else total).topk(size)  # (b, beams)
        self.log_p = self.ranks * penalty
        first = torch.arange(0, len(values), size, device=values.device).unsqueeze(1)  # (b, 1)
        rows = (chosen // size + first).flatten()  # (b * beams)
        place = (chosen % size).view(-1, 1)  # (b * beams, 1)
        self.tokens = torch.cat([self.tokens[rows], tokens[rows].gather(1, place)], 1)
        self.each = torch.cat([self.each[rows], values[rows].gather(1, place)], 1)
        return rows

    def _finish(self, ended: Tensor, rows: Tensor) -> Tensor:
        """Keep the hypotheses that have ended, drop documents that are finished; of rows (rows,) those that stay."""
        size = self.settings.size
        self.log_p = self.log_p.masked_fill(ended, FINISHED)
        ranks, flags, documents, unfinished = self.ranks.tolist(), ended.tolist(), self.documents.tolist(), []
        for place, (document, has_ended) in enumerate(zip(documents, flags, strict=True)):
            for beam in range(size):
                if has_ended[beam]:
                    row = place * size + beam
                    written = self.tokens[row, 1:].clone(), self.each[row, 1:].clone()
                    self.found[document].append(Hypothesis(ranks[place][beam], *written))
            if not (has_ended[0] and len(self.found[document]) >= self.settings.n_best):
                unfinished.append(place)
        index = torch.tensor(unfinished, dtype=torch.long, device=rows.device)
        self.documents, self.log_p = self.documents[index], self.log_p[index]
        self.tokens, self.each, rows = (
            tensor.unflatten(0, (-1, size))[index].flatten(0, 1) for tensor in (self.tokens, self.each, rows)
        )
        return rows


class ModelRows:
    """Rows of our own model."""

    def __init__(self, model: KeyphraseModel, sources: Sources, beams: int) -> None:
        self.model, self.beams = model, beams
        self.documents = len(sources.lengths)
        self.size = sources.extended_size(model.vocab_size)
        states, document = model.encode(sources.ids, sources.lengths)
        memory = Memory.of(states, sources.lengths)
        state = model.first_state(document, memory)
        self.memory, self.state = (part.map(lambda t: t.repeat_interleave(beams, 0)) for part in (memory, state))
        self.extended = sources.extended.repeat_interleave(beams, 0)

    def step(self, inputs: Tensor, full: Tensor | None) -> ScoreRows:
        step = self.model.step(inputs, self.memory, self.state, self.beams, full)
        self.state = step.state
        generator, arguments = self.model.generator, (step.attentional, step.attention, self.extended)

        def score_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
            hidden, attention, extended = (tensor[rows] for tensor in arguments)
            scores = generator.new_scores(hidden, self.size)
            return scores, generator.relative_mixture(hidden, attention, extended, scores)

        return score_rows

    def select(self, rows: Tensor) -> None:
        self.state = self.state.map(lambda tensor: tensor[rows])
        if len(rows) < len(self.extended):  # else the rows of a document only change places among themselves
            self.memory = self.memory.map(lambda tensor: tensor[rows])
            self.extended = self.extended[rows]
