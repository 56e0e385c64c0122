"""Search in the plainest way, one document, hypothesis and token at a time: what the fast ones are compared with."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from helpers.generator_models import IDS, TOKENS
from torch.nn.utils.rnn import pad_sequence

from onmt_exhird import stream
from onmt_exhird.nn.copying import restrict
from onmt_exhird.nn.hierarchical import Memory
from onmt_exhird.nn.model import KeyphraseModel
from onmt_exhird.search import StreamConstraint
from onmt_exhird.search.sources import Sources


def make_sources(count: int, longest: int = 17, seed: int = 5) -> Sources:
    """Documents of words and of up to three words outside of the vocabulary, each of a length of its own."""
    rng = random.Random(seed)
    lengths = rng.sample(range(1, longest + 1), count)
    rows, words = [], []
    for length in lengths:
        unknown = [f"zuvoka{number}" for number in range(min(length, 3))]
        ids = [*range(len(TOKENS), len(TOKENS) + len(unknown)), *rng.choices(range(7, len(TOKENS)), k=length)]
        rows.append(torch.tensor(ids[:length]))
        words.append(unknown)
    extended = pad_sequence(rows, batch_first=True, padding_value=IDS.pad)
    return Sources(restrict(extended, len(TOKENS), IDS.unk), torch.tensor(lengths), extended, words)


def phrases_so_far(written: Iterable[str]) -> tuple[list[list[str]], list[str] | None]:
    """The tokens of each phrase of a stream that is closed, and those of the open one, if there is one."""
    closed: list[list[str]] = []
    opened: list[str] | None = None
    for token in written:
        if token in stream.TAGS:
            opened = []
            continue
        assert opened is not None  # what is no tag is in a phrase
        if token == ";":
            closed.append(opened)
            opened = None
        else:
            opened.append(token)
    return closed, opened


class Plain(NamedTuple):
    """A hypothesis: its tokens after the start, the log P of each, and the decoder's state after all but the last."""

    tokens: list[int]
    log_probs: list[float]
    state: Any


class PlainSearch:
    """Search for one document.

    banned   a token that may not be written
    """

    def __init__(
        self, model: KeyphraseModel, constraint: StreamConstraint | None, max_length: int, banned: int | None = None
    ) -> None:
        self.model, self.constraint, self.max_length, self.banned = model, constraint, max_length, banned

    def read(self, sources: Sources, document: int) -> Plain:
        """Look at a document alone, without any padding."""
        length = int(sources.lengths[document])
        self.extended = sources.extended[document : document + 1, :length]
        self.words = [sources.words[document]]
        states, vector = self.model.encode(sources.ids[document : document + 1, :length], torch.tensor([length]))
        self.memory = Memory.of(states, torch.tensor([length]))
        return Plain([], [], self.model.first_state(vector, self.memory))

    def successors(self, hypothesis: Plain) -> Iterator[Plain]:
        """The hypothesis with each token that may come next, the most probable first."""
        sequence = torch.tensor([[IDS.start, *hypothesis.tokens]])
        full = None if self.constraint is None else self.constraint.forced_end(sequence)
        step = self.model.step(sequence[:, -1], self.memory, hypothesis.state, full=full)
        size = len(TOKENS) + len(self.words[0])
        log_probs = self.model.generator.log_mixture(step.attentional, step.attention, self.extended, size)
        if self.banned is not None:
            log_probs[:, self.banned] = -torch.inf
        if self.constraint is not None:
            self.constraint.apply(log_probs, sequence, self.constraint.oov_classes(self.words))
        values, tokens = log_probs[0].sort(descending=True)
        for value, token in zip(values.tolist(), tokens.tolist(), strict=True):
            if value > -torch.inf:
                yield Plain([*hypothesis.tokens, token], [*hypothesis.log_probs, value], step.state)

    def has_ended(self, hypothesis: Plain) -> bool:
        return hypothesis.tokens[-1] == IDS.eos or len(hypothesis.tokens) == self.max_length

    @torch.no_grad()
    def greedy(self, sources: Sources, document: int) -> Plain:
        hypothesis = self.read(sources, document)
        while not (hypothesis.tokens and self.has_ended(hypothesis)):
            hypothesis = next(self.successors(hypothesis))
        return hypothesis

    @torch.no_grad()
    def beam(
        self, sources: Sources, document: int, size: int, penalty: Callable[[int], float], n_best: int
    ) -> list[tuple[float, Plain]]:
        """The best outputs and what they are ranked by. Beams that have ended go, their places are not refilled."""

        def rank(one: Plain) -> float:
            return sum(one.log_probs) / penalty(len(one.tokens) + 1)

        alive, ended = [self.read(sources, document)], []
        while alive:
            following = sorted((after for one in alive for after in self.successors(one)), key=rank, reverse=True)[
                :size
            ]
            over = [one for one in following if self.has_ended(one)]
            ended += [(rank(one), one) for one in over]
            alive = [one for one in following if not self.has_ended(one)]
            if self.has_ended(following[0]) and len(ended) >= n_best:
                break
        return sorted(ended, key=lambda pair: pair[0], reverse=True)[:n_best]
