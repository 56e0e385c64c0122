"""The output layer in eight bits, for search on a CPU: a quarter of the time of a product in full precision.

Logits are then off by about a hundredth, in a trained model by a tenth. `QuantisedCopyGenerator` (``-precision
int8``) lives with that, but for the largest ones. `ScreenedCopyGenerator` only finds out with it which words can be the
best one, and decides between them in full precision: greedy search, which wants no scores, gets the same tokens.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onmt_exhird.nn.best import best
from onmt_exhird.nn.copying import HARMLESS, CopyGenerator, exponentials, log_of_sum
from onmt_exhird.nn.packed import in_parts, same_parameters

# Columns of a product. A call costs as much as 500 columns of 40 rows, and what it gives should stay in the cache:
# with 8,192 instead of 2,048, 40 rows of 30,000 columns took 2.4 instead of 3.2 ms, one row 0.4 instead of 1.4.
_PART = 8192
_EXACT = 8  # logits of a row that eight bits only point to
_COMPARED = 8, 64  # tokens of a row between which full precision decides; if that does not do, more
_FEW = 8  # rows for which a product is bound by reading the weight, and quicker with the weight on the left
_STEP = 8  # rows by which products grow: oneDNN compiles each size, and keeps half a megabyte of it
# The worst case has all rounding errors in one direction, for every word of the vocabulary. In 93,000 steps of trained
# models the log of their sum was off by at most an eighty-seventh of it, since errors cancel.
_CONSPIRACY = 32


def _multiply(bytes_: Tensor, steps: int, weight: Tensor, scales: Tensor) -> Tensor:
    """(n, in) in uint8, where ``steps`` + 1 stands for 0 and 1 for -1, times a weight laid out for it -> (n, out)."""
    zeros = torch.zeros(len(scales), dtype=torch.long)
    return torch.ops.onednn.qlinear_pointwise(
        bytes_, 1 / steps, steps + 1, weight, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )


def lack() -> str:
    """What is missing for such products, if something is."""
    if not hasattr(torch.ops.onednn, "qlinear_prepack") or not hasattr(torch.ops.onednn, "qlinear_pointwise"):
        return f"torch {torch.__version__} has no products in eight bits"
    capability = torch.backends.cpu.get_cpu_capability()
    return "" if capability.startswith("AVX") else f"this processor ({capability}) has no products in eight bits"


def is_available() -> bool:
    """Whether this torch has such products for this processor."""
    return not lack()


@cache
def steps() -> int:
    """How many numbers there may be between 0 and 1: seven bits' worth if the processor adds products in 16 bits."""
    size = 64
    weight = torch.ops.onednn.qlinear_prepack(torch.full((size, size), 127, dtype=torch.int8), None)
    largest = torch.full((size, size), 255, dtype=torch.uint8)
    product = _multiply(largest, 127, weight, torch.ones(size))
    return 127 if product.eq(size * 127).all() else 63


class QuantisedLinear(nn.Module):
    """What a linear layer computes, in eight bits: (n, in) -> (n, out).

    error   no row of the weight is further than this from what takes its place
    norm    and none of these is longer
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        weight = weight.detach().float()
        self._bias = bias.detach().float()
        self._scales = weight.abs().amax(1).clamp_min(1e-30) / 127  # (out)
        rounded = (weight / self._scales.unsqueeze(1)).round()
        self._weight = torch.ops.onednn.qlinear_prepack(rounded.to(torch.int8), None)
        rounded *= self._scales.unsqueeze(1)
        self.error = (weight - rounded).norm(dim=1).max()
        self.norm = rounded.norm(dim=1).max()

    @staticmethod
    def scale(x: Tensor) -> tuple[Tensor, Tensor]:
        """x (n, in) -> bytes (n, in) for -1 to 1, and what each row was divided by to be in that range (n, 1)."""
        reach = x.float().abs().amax(1, keepdim=True).clamp_min(1e-30)
        return (x / reach).mul_(steps()).round_().add_(steps() + 1).to(torch.uint8), reach

    @classmethod
    def fill_up(cls, x: Tensor) -> tuple[Tensor, Tensor]:
        """What `scale` returns, the bytes with further rows of no meaning, so that there are few sizes of products."""
        bytes_, reach = cls.scale(x)
        more = -len(bytes_) % _STEP if len(bytes_) > 1 else 0  # one row, that of a single text, is much quicker alone
        return F.pad(bytes_, (0, 0, 0, more)), reach

    def write(self, bytes_: Tensor, reach: Tensor, out: Tensor) -> Tensor:
        """The product of what `fill_up` returns, into out (n, out); returns a matrix of that shape for the taking."""
        product = _multiply(bytes_, steps(), self._weight, self._scales)[: len(out)]
        torch.addcmul(self._bias, product, reach, out=out)
        return product

    def forward(self, x: Tensor) -> Tensor:
        out = torch.empty(len(x), len(self._scales))
        self.write(*self.fill_up(x), out)
        return out


class QuantisedCopyGenerator(CopyGenerator):
    """A copy generator whose `log_mixture` has the logits in eight bits, the largest of each row in full precision."""

    def __init__(self, generator: CopyGenerator) -> None:
        same_parameters(self, generator)
        self._linears: list[Any] = in_parts(generator, QuantisedLinear, _PART)
        self._bias = generator.bias_without_padding()
        self._error = torch.stack([linear.error for linear in self._linears]).max()
        self._norm = torch.stack([linear.norm for linear in self._linears]).max()

    def write_logits(self, hidden: Tensor, logits: Tensor) -> Tensor:
        total = hidden.new_zeros(len(hidden), 1)
        scaled = QuantisedLinear.fill_up(hidden)
        for part, linear in zip(logits.split(_PART, 1), self._linears, strict=True):
            room = linear.write(*scaled, part)
            total += exponentials(part, out=room).sum(1, keepdim=True)
        rough, words = best(logits, min(_EXACT, logits.size(1)))  # (n, k)
        exact = self.logits_at(hidden, words)
        logits.scatter_(1, words, exact)
        return log_of_sum(total + (exact.exp() - rough.exp()).sum(1, keepdim=True), logits)

    def logits_at(self, hidden: Tensor, words: Tensor) -> Tensor:
        """The logits of a few words of each row, in full precision: hidden (n, d), words (n, k) -> (n, k)."""
        return torch.bmm(self.weight[words], hidden.unsqueeze(2)).squeeze(2) + self._bias[words]

    def error(self, hidden: Tensor) -> Tensor:
        """How far the logits of each row can be off at most (n, 1): |w.h - v.g| <= |w - v| |h| + |v| |h - g|."""
        bytes_, reach = QuantisedLinear.scale(hidden)
        taken = (bytes_.float() - (steps() + 1)).mul_(reach / steps())
        return self._error * hidden.norm(dim=1, keepdim=True) + self._norm * (hidden - taken).norm(dim=1, keepdim=True)


class ScreenedCopyGenerator(CopyGenerator):
    """A copy generator in full precision, with a rough one that finds the tokens among which the best one is."""

    def __init__(self, generator: CopyGenerator) -> None:
        same_parameters(self, generator)
        self.rough = QuantisedCopyGenerator(generator)

    def write_logits(self, hidden: Tensor, logits: Tensor) -> Tensor:
        if len(hidden) > _FEW:
            return super().write_logits(hidden, logits)
        torch.add(torch.mm(self.weight, hidden.t()).t(), self.bias_without_padding(), out=logits)
        return logits.logsumexp(1, keepdim=True)

    @torch.no_grad()
    def choose(
        self, hidden: Tensor, attention: Tensor, src_ext: Tensor, scores: Tensor, constant: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The best token of each row (n,), its log P (n,), and whether full precision surely has it as the best (n,).

        log P is exact but for the normaliser, which is that of ``rough``.
        scores (n, size), constant (n, 1): from the `relative_mixture` of ``rough``, minus infinity where a token is
        not permitted.
        """
        few, many = _COMPARED
        arguments = hidden, attention, src_ext, scores, constant, self.rough.error(self.project(hidden))
        found = self._choose(few, *arguments)
        rows = found[2].logical_not().nonzero().squeeze(1)
        if len(rows):
            for tensor, again in zip(found, self._choose(many, *(tensor[rows] for tensor in arguments)), strict=True):
                tensor[rows] = again
        return found

    def _choose(
        self,
        count: int,
        hidden: Tensor,
        attention: Tensor,
        src_ext: Tensor,
        scores: Tensor,
        constant: Tensor,
        error: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`choose`, between the ``count`` tokens that are the best ones at first sight; error (n, 1)."""
        rough, tokens = best(scores, min(count, scores.size(1)))  # (n, count)
        only_copied = self.is_only_copied(tokens)
        logits = self.rough.logits_at(self.project(hidden), tokens.masked_fill(only_copied, self._some_word))
        logits = logits.masked_fill(only_copied, -torch.inf)
        copied = F.logsigmoid(self.gate(hidden)) - constant + self.copy_mass(attention, src_ext, tokens).log()
        # Scores grow with the normaliser in `constant`, each in its own way: whichever is ahead at both ends of
        # where the normaliser can be is ahead in between.
        low, high = (
            torch.logaddexp(logits, copied + shift).masked_fill(rough.isneginf(), -torch.inf).max(1)
            for shift in (-error / _CONSPIRACY, error / _CONSPIRACY)
        )
        ahead_of_the_rest = low.values > rough[:, -1] + error.squeeze(1)
        certain = ahead_of_the_rest & low.indices.eq(high.indices) & rough[:, 0].abs().lt(HARMLESS)
        chosen = low.indices.unsqueeze(1)  # (n, 1)
        log_p = torch.logaddexp(logits.gather(1, chosen), copied.gather(1, chosen)) + constant
        return tokens.gather(1, chosen).squeeze(1), log_p.squeeze(1), certain
