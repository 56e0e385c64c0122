"""A copy generator of random parameters."""

from __future__ import annotations

import torch

from onmt_exhird.nn.copying import CopyGenerator

PAD, VOCAB = 1, 2500  # more than one part


def make(width: int = 7) -> tuple[CopyGenerator, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    torch.manual_seed(3)
    hidden, attention = torch.randn(5, 7), torch.rand(5, 3).softmax(1)
    generator = CopyGenerator(7, VOCAB, PAD)
    if width != 7:
        generator.tie(torch.nn.Parameter(torch.randn(VOCAB, width)))
    return generator, (hidden, attention, torch.randint(4, VOCAB + 3, (5, 3)))
