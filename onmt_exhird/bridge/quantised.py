"""The output layer in eight bits, for search on a CPU: ``-precision int8``.

The largest part of a search is the product with the output layer's weight, which takes less time in eight bits; logits
are off by about a hundredth. The input's scale is that of all rows together, so a prediction may depend on the batch.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from onmt_exhird.errors import ExhirdError
from onmt_exhird.nn.copying import CopyGenerator

_WIDTH = 2048  # columns whose logits stay in a core's cache
_ENGINE = "fbgemm"  # torch's other engine for this kind of processor takes for granted what not every one of them has


def _pack(weight: Tensor, bias: Tensor) -> Any:
    """weight (out, in) with a scale for each row, and bias (out), in the engine's own layout."""
    if _ENGINE not in torch.backends.quantized.supported_engines:
        raise ExhirdError("-precision int8 is not available on this processor: leave it out")
    scales = weight.abs().amax(1).clamp_min(torch.finfo(weight.dtype).tiny).double() / 127
    zeros = torch.zeros(len(weight), dtype=torch.long)
    in_use = torch.backends.quantized.engine
    torch.backends.quantized.engine = _ENGINE
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.quantize_per_tensor", category=UserWarning)  # deprecated
            quantised = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        return torch.ops.quantized.linear_prepack(quantised, bias)
    finally:
        torch.backends.quantized.engine = in_use


class QuantisedLinear(nn.Module):
    """What a linear layer computes, in eight bits: (n, in) -> (n, out)."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self._packed = _pack(weight.detach().float(), bias.detach().float())

    def forward(self, x: Tensor) -> Tensor:
        # Seven bits for the input: where the processor multiplies bytes in pairs, their sum must not overflow.
        return torch.ops.quantized.linear_dynamic(x.float(), self._packed, True)


class QuantisedCopyGenerator(CopyGenerator):
    """A copy generator whose `log_mixture` has logits in eight bits; `score` keeps the full weight."""

    def __init__(self, generator: CopyGenerator) -> None:
        super().__init__(1, 1, generator.pad_id)
        self.__dict__.update(vars(generator))  # the same parameters
        bias = self._bias_without_padding()
        self._parts = [
            QuantisedLinear(*tensors) for tensors in zip(self.weight.split(_WIDTH), bias.split(_WIDTH), strict=True)
        ]

    def write_logits(self, hidden: Tensor, logits: Tensor) -> Tensor:
        total = hidden.new_zeros(len(hidden), 1)
        for part, linear in zip(logits.split(_WIDTH, 1), self._parts, strict=True):
            found = linear(hidden)
            part.copy_(found)
            total += found.exp_().sum(1, keepdim=True)
        return self._normaliser(total, logits)


def quantised(generator: nn.Module) -> nn.Module:
    """The same output layer in eight bits."""
    if isinstance(generator, CopyGenerator):
        return QuantisedCopyGenerator(generator)
    if isinstance(generator, nn.Linear):
        return QuantisedLinear(generator.weight, generator.bias)
    raise ExhirdError("-precision int8 needs a single model: give one -model")
