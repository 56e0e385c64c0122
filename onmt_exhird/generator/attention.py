"""Where the decoder looked: the stream that was written is fed to the model again, and its attention kept."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from onmt_exhird.generator.phrases import Raw
from onmt_exhird.generator.results import PhraseAttention, WordAttention
from onmt_exhird.nn.hierarchical import HierarchicalDecoder, Memory
from onmt_exhird.nn.model import KeyphraseModel
from onmt_exhird.search.sources import Sources

DIGITS = 5


def _rounded(weights: Tensor) -> tuple[float, ...]:
    return tuple(round(weight, DIGITS) for weight in weights.tolist())


@torch.no_grad()
def look_back(model: KeyphraseModel, source: Sources, tokens: Tensor, full: Tensor) -> dict[str, Tensor]:
    """Everything about each token (n,) of a stream that was written for the one document of ``source``.

    full (n): where the next token was not predicted, so that the decoder did not move.

    -> words (n, src_len), alpha; copied (n), the share of copying; phrases (n, src_len), beta, of a hierarchical model
    """
    states, document = model.encode(source.ids, source.lengths)
    memory = Memory.of(states, source.lengths)
    state = model.first_state(document, memory)
    inputs = torch.cat([tokens.new_tensor([model.ids.start]), tokens[:-1]])
    hidden, attention, phrases = [], [], []
    for token, is_full in zip(inputs.unsqueeze(1), full.unsqueeze(1), strict=True):
        step = model.step(token, memory, state, full=is_full)
        state = step.state
        hidden.append(step.attentional)
        attention.append(step.attention)
        if isinstance(model.decoder, HierarchicalDecoder):
            phrases.append(model.decoder.phrase_scores(state, memory).softmax(1))
    found = {"words": torch.cat(attention)}
    if phrases:
        found["phrases"] = torch.cat(phrases)
    attentional, extended, wanted = torch.cat(hidden), source.extended.expand(len(tokens), -1), tokens.unsqueeze(1)
    log_p = model.generator.score(attentional, found["words"], extended, wanted)
    mass = model.generator.copy_mass(found["words"], extended, wanted)
    copied = F.logsigmoid(model.generator.gate(attentional)) + mass.log() - log_p
    return found | {"copied": copied.exp().squeeze(1).clamp(0, 1)}


def explain(
    model: KeyphraseModel,
    source: Sources,
    tokens: Tensor,
    full: Tensor,
    phrases: Sequence[Raw],
    window: int | None,
    owners: Tensor | None = None,
) -> list[PhraseAttention]:
    """Where the decoder looked for each phrase of a stream, and which first words exclusion forbade it.

    owners (src_len): the word that each piece of the source belongs to, if words have several. The weights are those of
    words then: the sum over the pieces of a source's word, the mean over the pieces of a written one.
    """
    found = look_back(model, source, tokens, full)
    if owners is not None:
        for name in found.keys() & {"words", "phrases"}:
            weights = found[name][:, : len(owners)]
            found[name] = weights.new_zeros(len(weights), int(owners[-1]) + 1).index_add(1, owners, weights)
    attentions = []
    for number, phrase in enumerate(phrases):
        first = 0 if window is None else max(0, number - window)
        forbidden = dict.fromkeys(before.first for before in phrases[first:number])
        words = tuple(
            WordAttention(
                word,
                _rounded(found["words"][start:end].mean(0)),
                round(found["copied"][start:end].mean().item(), DIGITS),
            )
            for word, (start, end) in zip(phrase.words, phrase.places, strict=True)
        )
        of_phrase = _rounded(found["phrases"][phrase.place]) if "phrases" in found else None
        attentions.append(PhraseAttention(of_phrase, words, tuple(forbidden)))
    return attentions
