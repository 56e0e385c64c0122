"""A model that generates the words of a list, and can only copy the others of its vocabulary.

Few of the words that a model reads does it ever write of its own accord: those of keyphrases, most of all of absent
ones. With an output layer of these the same model is quicker. Its words are put first, so that the layer has the first
rows of what it had; reading, and what the decoder is told of a word that was copied, stays as it was.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch

from onmt_exhird import stream
from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.trained import Trained
from onmt_exhird.nn.model import OUTPUT

ALWAYS = (stream.UNK, stream.PAD, stream.BOS, stream.EOS, stream.PRESENT, stream.ABSENT, stream.END)
OF_WORDS = ("source_embedding.weight", "target_embedding.weight")
OF_OUTPUT = (OUTPUT, "generator.bias")


def shorten(trained: Trained, words: Collection[str]) -> Trained:
    """The model with these words as the ones that it can generate; those that it does not know count for nothing."""
    if trained.text.subwords is not None:
        raise ExhirdError("a model of pieces of words needs all of them to write a word: it can have no shortlist")
    if trained.architecture.generated is not None:
        raise ExhirdError(f"{trained.name} has a shortlist already: make the new one of the checkpoint it came from")
    wanted = {*ALWAYS, *words}
    chosen = [number for number, token in enumerate(trained.tokens) if token in wanted]
    if len(chosen) <= len(ALWAYS):
        raise ExhirdError(f"no word of the shortlist is in the vocabulary of {trained.name}: give a word a line")
    others = [number for number, token in enumerate(trained.tokens) if token not in wanted]
    order = torch.tensor([*chosen, *others])
    tensors = dict(trained.tensors)
    for name in (*OF_WORDS, *OF_OUTPUT):
        if name in tensors:
            tensors[name] = tensors[name][order if name in OF_WORDS else order[: len(chosen)]]
    return replace(
        trained,
        architecture=replace(trained.architecture, generated=len(chosen)),
        tokens=[trained.tokens[number] for number in order.tolist()],
        tensors=tensors,
        thesaurus=None if trained.thesaurus is None else trained.thesaurus.reordered(order),
    )
