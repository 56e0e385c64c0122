"""The output layer for search on a CPU: its weight, which no longer changes, is laid out once as products want it.

The largest part of a search is the product with this weight. In the layout of oneDNN it takes three quarters of the
time; in eight bits (``-precision int8``) a fraction, but logits are off by about a hundredth, so those of the best
words are computed again in full.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.errors import ExhirdError
from onmt_exhird.nn.copying import CopyGenerator, log_of_sum
from onmt_exhird.search import best

_WIDTH = 2048  # columns whose logits stay in a core's cache
_EXACT = 8  # words of a row whose logits eight bits only point to
_ENGINE = "fbgemm"  # torch's other engine for this kind of processor takes for granted what not every one of them has


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
        return torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")


def can_pack(weight: Tensor) -> bool:
    """Whether this torch has what `PackedLinear` needs, for such a weight."""
    if weight.device.type != "cpu" or weight.dtype != torch.float32 or not torch.backends.mkldnn.is_available():
        return False
    return hasattr(torch.ops.mkldnn, "_reorder_linear_weight") and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def _quantise(weight: Tensor) -> Any:
    """weight (out, in) with a scale for each row, in the engine's own layout."""
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
        return torch.ops.quantized.linear_prepack(quantised, None)
    finally:
        torch.backends.quantized.engine = in_use


class QuantisedLinear(nn.Module):
    """What a linear layer computes, in eight bits: (n, in) -> (n, out)."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self._packed = _quantise(weight.detach().float())
        self._bias = bias.detach().float()

    @staticmethod
    def scale(x: Tensor) -> tuple[Tensor, Tensor]:
        """x (n, in) -> rows that reach from -1 to 1 at most (n + 1, in), and what they were divided by (n, 1).

        The engine has one scale for all rows. With a last row that does reach that far it is always the same, so that
        no row depends on another.
        """
        reach = x.float().abs().amax(1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
        rows = torch.cat([x.float() / reach, torch.ones_like(x[:1], dtype=torch.float32)])
        rows[-1, 0] = -1.0
        return rows, reach

    def product(self, rows: Tensor, reach: Tensor) -> Tensor:
        """Of what `scale` returns: (n, out)."""
        # Seven bits for the input: where the processor multiplies bytes in pairs, their sum must not overflow.
        products = torch.ops.quantized.linear_dynamic(rows, self._packed, True)  # (n + 1, out)
        return products[:-1].mul_(reach).add_(self._bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.product(*self.scale(x))


class _InParts(CopyGenerator):
    """A copy generator that multiplies in parts, each of them laid out by a class of the two above."""

    def __init__(self, generator: CopyGenerator, linear: type[PackedLinear] | type[QuantisedLinear]) -> None:
        nn.Module.__init__(self)
        self.__dict__.update(vars(generator))  # the same parameters
        self._bias = generator.bias_without_padding()
        parts = zip(generator.weight.split(_WIDTH), self._bias.split(_WIDTH), strict=True)
        self._linears: list[Any] = [linear(*tensors) for tensors in parts]

    def write_logits(self, hidden: Tensor, logits: Tensor) -> Tensor:
        return log_of_sum(self._write(hidden, logits), logits)

    def _write(self, hidden: Tensor, logits: Tensor) -> Tensor:
        """Write the logits (n, V); return the sum of their exponentials (n, 1)."""
        total = hidden.new_zeros(len(hidden), 1)
        for part, found in zip(logits.split(_WIDTH, 1), self._products(hidden), strict=True):
            part.copy_(found)
            total += found.exp_().sum(1, keepdim=True)
        return total

    def _products(self, hidden: Tensor) -> Iterator[Tensor]:
        """The logits, part by part (n, width)."""
        return (linear(hidden) for linear in self._linears)


class PackedCopyGenerator(_InParts):
    """A copy generator that has its weight in the layout of oneDNN only."""

    def __init__(self, generator: CopyGenerator) -> None:
        super().__init__(generator, PackedLinear)
        self._parameters = {name: own for name, own in self._parameters.items() if name != "weight"}

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        return torch.cat([linear.weight for linear in self._linears])

    def rows(self, words: Tensor) -> tuple[Tensor, Tensor]:
        weights = [self._linears[word // _WIDTH].weight[word % _WIDTH] for word in words.tolist()]
        return torch.stack(weights), self.bias[words]


class QuantisedCopyGenerator(_InParts):
    """A copy generator whose `log_mixture` has the logits in eight bits, the largest of each row in full."""

    def __init__(self, generator: CopyGenerator) -> None:
        super().__init__(generator, QuantisedLinear)

    def _products(self, hidden: Tensor) -> Iterator[Tensor]:
        scaled = QuantisedLinear.scale(hidden)
        return (linear.product(*scaled) for linear in self._linears)

    def _write(self, hidden: Tensor, logits: Tensor) -> Tensor:
        total = super()._write(hidden, logits)
        rough, words = best(logits, min(_EXACT, logits.size(1)))  # (n, k)
        exact = torch.bmm(self.weight[words], hidden.unsqueeze(2)).squeeze(2) + self._bias[words]
        logits.scatter_(1, words, exact)
        return total + (exact.exp() - rough.exp()).sum(1, keepdim=True)


def for_search(generator: nn.Module, precision: str = "") -> nn.Module:
    """The same output layer, laid out for search; ``precision`` is the option of that name."""
    if precision == "int8":  # upstream accepts it and changes nothing
        if isinstance(generator, CopyGenerator):
            return QuantisedCopyGenerator(generator)
        if isinstance(generator, nn.Linear):
            return QuantisedLinear(generator.weight, generator.bias)
        raise ExhirdError("-precision int8 does not know this output layer: leave it out")
    if isinstance(generator, CopyGenerator) and can_pack(generator.weight):
        return PackedCopyGenerator(generator)
    return generator


def load_for_search(model_builder: Upstream) -> None:
    """Upstream multiplies with the weight as training has it, and ignores -precision int8."""
    load_test_model = model_builder.load_test_model

    def load(opt: Namespace, device_id: int = 0, model_path: str | None = None) -> tuple[Any, Any, Any]:
        if opt.precision == "int8" and len(opt.models) > 1:
            raise ExhirdError("-precision int8 needs a single model: give one -model")
        vocabs, model, model_opt = load_test_model(opt, device_id, model_path)
        model.generator = for_search(model.generator, opt.precision)
        return vocabs, model, model_opt

    model_builder.load_test_model = load
