"""The output layer for search on a CPU: its weight, which no longer changes, is laid out once as products want it.

The largest part of a search is the product with this weight. In the layout of oneDNN it takes three quarters of the
time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onmt_exhird.nn.copying import CopyGenerator, exponentials, log_of_sum

PART = 2048  # columns whose logits stay in a core's cache
_STEP = 8  # rows by which products grow: oneDNN compiles each size, and keeps half a megabyte of it


def fill_up(x: Tensor) -> Tensor:
    """Rows (n, d) with further ones of no meaning behind them, so that there are few sizes of products.

    >>> [len(fill_up(torch.ones(rows, 2))) for rows in (0, 1, 2, 8, 9)]
    [0, 1, 8, 8, 16]
    """
    more = -len(x) % _STEP if len(x) > 1 else 0  # one row, that of a single text, is much quicker alone
    return F.pad(x, (0, 0, 0, more))


class PackedLinear(nn.Module):
    """What a linear layer computes: (n, in) -> (n, out)."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous())
        self._bias = bias.detach()

    @property
    def weight(self) -> Tensor:
        """As it was, laid out anew."""
        return self._weight.to_dense()

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(fill_up(x), self._weight, self._bias, "none", [], "")[: len(x)]


def can_pack(weight: Tensor) -> bool:
    """Whether this torch has what `PackedLinear` needs, for such a weight."""
    if weight.device.type != "cpu" or weight.dtype != torch.float32 or not torch.backends.mkldnn.is_available():
        return False
    return hasattr(torch.ops.mkldnn, "_reorder_linear_weight") and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def same_parameters(new: CopyGenerator, generator: CopyGenerator) -> None:
    """Give a new copy generator the parameters of another, instead of its own."""
    nn.Module.__init__(new)
    new.__dict__.update(vars(generator) | {"_parameters": dict(generator._parameters), "_modules": {}})


def in_parts(generator: CopyGenerator, linear: Callable[[Tensor, Tensor], Any], size: int) -> list[Any]:
    """The output layer as several linear layers of so many words each."""
    parts = zip(generator.weight.split(size), generator.bias_without_padding().split(size), strict=True)
    return [linear(*tensors) for tensors in parts]


class PackedCopyGenerator(CopyGenerator):
    """A copy generator that has its weight in the layout of oneDNN only."""

    def __init__(self, generator: CopyGenerator) -> None:
        same_parameters(self, generator)
        self._linears = in_parts(generator, PackedLinear, PART)
        del self._parameters["weight"]

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        return torch.cat([linear.weight for linear in self._linears])

    def rows(self, words: Tensor) -> tuple[Tensor, Tensor]:
        weights = [self._linears[word // PART].weight[word % PART] for word in words.tolist()]
        return torch.stack(weights), self.bias[words]

    def write_logits(self, hidden: Tensor, logits: Tensor) -> Tensor:
        total = hidden.new_zeros(len(hidden), 1)
        for part, linear in zip(logits.split(PART, 1), self._linears, strict=True):
            found = linear(hidden)
            part.copy_(found)
            total += exponentials(found, out=found).sum(1, keepdim=True)
        return log_of_sum(total, logits)
