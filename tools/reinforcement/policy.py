"""The loss that makes streams likelier which are worth more than others of the same document."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from onmt_exhird.nn.copying import restrict
from onmt_exhird.nn.gru import directions_of, encode
from onmt_exhird.nn.hierarchical import HierarchicalDecoder, Memory, read_boundaries
from onmt_exhird.nn.losses import stream_losses
from onmt_exhird.nn.model import KeyphraseModel
from onmt_exhird.search.sources import Sources

NOTHING = 1e-6  # what a token must at least weigh to be looked at


def token_weights(tokens: Tensor, advantages: Tensor, end: int) -> Tensor:
    """What each token (n) of a stream is to become likelier by: the advantage of its phrase, of which ``end`` is the
    last token. (n)

    >>> token_weights(torch.tensor([4, 7, 6, 5, 8, 6, 3]), torch.tensor([1.0, 0.5, 0.2]), end=6).tolist()
    [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.20000000298023224]
    """
    ends = tokens.eq(end)
    return advantages[ends.cumsum(0) - ends.long()]


def losses(model: KeyphraseModel, sources: Sources, targets: Sequence[Tensor], relevant: Tensor) -> Tensor:
    """-log P of the tokens of some targets, as many in succession for each document: (targets, longest).

    targets    (n) each, extended ids with ``</s>``
    relevant   (targets, longest)   which tokens are looked at; the others have 0
    """
    decoder, ids = model.decoder, model.ids
    assert isinstance(decoder, HierarchicalDecoder) and ids.end is not None
    each = len(targets) // len(sources.lengths)
    states, final = encode(model.encoder, model.source_embedding(sources.ids), sources.lengths)
    document = torch.cat(tuple(final[-directions_of(model.encoder) :]), 1)
    memory = Memory.of(states.repeat_interleave(each, 0), sources.lengths.repeat_interleave(each))
    padded = pad_sequence(list(targets), batch_first=True, padding_value=ids.pad)
    inputs = torch.cat([torch.full_like(padded[:, :1], ids.start), padded[:, :-1]], 1)
    read, starts = read_boundaries(restrict(inputs, model.vocab_size, ids.unk), ids.start, ids.end)
    decoded = decoder(
        model.target_embedding(read),
        starts,
        torch.tensor([len(target) for target in targets]),
        memory,
        decoder.first_state(document.repeat_interleave(each, 0), memory),
    )
    extended = sources.extended.repeat_interleave(each, 0)
    wanted = padded.masked_fill(~relevant, ids.pad)
    return stream_losses(model.generator, decoded.attentional, decoded.attention, extended, wanted).generation


def policy_loss(
    model: KeyphraseModel,
    sources: Sources,
    drawn: Sequence[Tensor],
    advantages: Sequence[Tensor],
    gold: Sequence[Tensor],
    gold_weight: float,
) -> Tensor:
    """What is to be minimised, a mean over the documents.

    drawn, advantages   the streams of each document in succession, and how much better each phrase turned out than
                        expected
    gold                (n) each, its authors' stream, whose own loss counts ``gold_weight``: so that the model forgets
                        nothing that no drawn stream speaks of
    """
    assert model.ids.end is not None
    count = len(drawn) // len(gold)
    targets: list[Tensor] = []
    weights: list[Tensor] = []
    for number, authors in enumerate(gold):
        streams = slice(number * count, (number + 1) * count)
        targets += [*drawn[streams], authors]
        weights += [
            token_weights(tokens, each / count, model.ids.end)
            for tokens, each in zip(drawn[streams], advantages[streams], strict=True)
        ]
        weights.append(torch.full_like(authors, gold_weight, dtype=torch.float))
    weight = pad_sequence(weights, batch_first=True)  # (targets, longest)
    return (losses(model, sources, targets, weight.abs() > NOTHING) * weight).sum() / len(gold)
