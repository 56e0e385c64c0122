"""Streams drawn at random from a model, the likelier the more often."""

from __future__ import annotations

import torch
from torch import Tensor

from onmt_exhird.nn.hierarchical import Memory
from onmt_exhird.nn.model import KeyphraseModel
from onmt_exhird.search import StreamConstraint
from onmt_exhird.search.sources import Sources


@torch.no_grad()
def draw(
    model: KeyphraseModel,
    sources: Sources,
    constraint: StreamConstraint,
    count: int,
    longest: int,
    temperature: float,
    random: torch.Generator,
) -> list[Tensor]:
    """``count`` streams for each document, those of one document in succession: tokens (n) each, ``</s>`` included.

    Only what the constraint permits is drawn. One that has reached ``longest`` tokens ends there.
    temperature   below 1, likely tokens become likelier still: the streams are nearer to those of greedy search
    """
    states, vectors = (tensor.repeat_interleave(count, 0) for tensor in model.encode(sources.ids, sources.lengths))
    extended = sources.extended.repeat_interleave(count, 0)
    classes = constraint.oov_classes(sources.words)
    classes = None if classes is None else classes.repeat_interleave(count, 0)
    memory = Memory.of(states, sources.lengths.repeat_interleave(count))
    state = model.first_state(vectors, memory)
    size = sources.extended_size(model.vocab_size)
    rows = torch.arange(len(extended))
    tokens = torch.full((len(rows), 1), model.ids.start)
    drawn = [torch.empty(0)] * len(rows)
    while len(rows):
        step = model.step(tokens[:, -1], memory, state, full=constraint.forced_end(tokens))
        log_probs = model.generator.log_mixture(step.attentional, step.attention, extended, size)
        constraint.apply(log_probs, tokens, classes)
        tokens = torch.cat([tokens, _pick(log_probs.div_(temperature), random)], 1)
        finished = tokens[:, -1].eq(model.ids.eos) | (tokens.size(1) > longest)
        for row in finished.nonzero().squeeze(1).tolist():
            drawn[int(rows[row])] = tokens[row, 1:].clone()
        left = finished.logical_not().nonzero().squeeze(1)
        rows, tokens, extended = rows[left], tokens[left], extended[left]
        classes = None if classes is None else classes[left]
        memory, state = memory.map(lambda tensor: tensor[left]), step.state.map(lambda tensor: tensor[left])  # noqa: B023
    return drawn


def _pick(scores: Tensor, random: torch.Generator) -> Tensor:
    """A column of each row (rows, 1), as often as the softmax of the scores (rows, size) has it."""
    # Where a random number falls in the sum so far: much quicker than a random number for every column.
    sums = scores.softmax(1).cumsum(1)
    places = torch.rand(len(sums), 1, generator=random) * sums[:, -1:]
    return torch.searchsorted(sums, places, right=True).clamp_(max=sums.size(1) - 1)
