"""Small models with random parameters, made by hand: what generators do must hold for any weights."""

from __future__ import annotations

import random

import torch
from torch import nn

from onmt_exhird.generator.trained import Trained
from onmt_exhird.nn.model import Architecture, SpecialIds
from onmt_exhird.stream import ABSENT, BOS, DIGIT, END, EOS, PAD, PRESENT, SEPARATOR, UNK

SPECIALS = [UNK, PAD, BOS, EOS, PRESENT, ABSENT, END, DIGIT, SEPARATOR, ",", ".", "(", ")"]
WORDS = (
    "graph graphs tree trees network networks neural deep learning machine sorting proof proofs colouring model models "
    "of the a in we fast linear quiet parsing language translation attention keyphrase keyphrases document documents"
).split()
TOKENS = [*SPECIALS, *WORDS]
IDS = SpecialIds(unk=0, pad=1, start=2, eos=3, end=6)


def make(decoder: str = "exhird", seed: int = 3, tied: bool = False, spread: float = 0.7) -> Trained:
    """A model whose outputs differ from document to document, and often end."""
    architecture = Architecture(decoder, len(TOKENS), 7, 10, encoder_layers=2, tied=tied)
    torch.manual_seed(seed)
    model = architecture.build(IDS)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=spread)
    model.generator.bias.data[[IDS.eos, IDS.end]] = 2.5
    model.generator.gate_bias.data[:] = 1.0  # so that it copies, too
    aliases = architecture.aliases()
    tensors = {name: tensor for name, tensor in model.state_dict().items() if name not in aliases}
    return Trained(f"made-{decoder}", architecture, TOKENS, tensors)


def texts(count: int, seed: int = 5, longest: int = 40) -> list[str]:
    """Documents of known and unknown words, of different lengths."""
    rng = random.Random(seed)
    words = [*WORDS, "zuvoka", "Rataku", "3D", "2019", "state-of-the-art", "(SVM)", "Café"]
    return [" ".join(rng.choices(words, k=rng.randint(1, longest))) for _ in range(count)]
