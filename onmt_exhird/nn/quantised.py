"""The output layer in eight bits, for search on a CPU: a quarter of the time of a product in full precision.

Logits are then off by about a hundredth, in a trained model by a tenth. `QuantisedCopyGenerator` (``-precision
int8``) lives with that, but for the largest ones. `ScreenedCopyGenerator` only finds out with it which words can be the
best one, and decides between them in full precision: greedy search, which wants no scores, gets the same tokens.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onmt_exhird.nn.best import best
from onmt_exhird.nn.copying import HARMLESS, CopyGenerator, exponentials, log_of_sum, mix_copied
from onmt_exhird.nn.packed import fill_up, in_parts, same_parameters

# Columns of a product. A call costs as much as 500 columns of 40 rows, and what it gives should stay in the cache:
# with 8,192 instead of 2,048, 40 rows of 30,000 columns took 2.4 instead of 3.2 ms, one row 0.4 instead of 1.4.
_PART = 8192
_EXACT = 8  # logits of a row that eight bits only point to
_COMPARED = 8  # words of the source between which, and the largest logits, full precision decides
_COMPARED_AGAIN = 64  # tokens between which it does if that is not enough
_FEW = 8  # rows for which a product is bound by reading the weight, and quicker with the weight on the left
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
    def prepare(cls, x: Tensor) -> tuple[Tensor, Tensor]:
        """What `scale` returns, the bytes with further rows of no meaning."""
        bytes_, reach = cls.scale(x)
        return fill_up(bytes_), reach

    def write(self, bytes_: Tensor, reach: Tensor, out: Tensor) -> Tensor:
        """The product of what `prepare` returns, into out (n, out); returns a matrix of that shape for the taking."""
        product = _multiply(bytes_, steps(), self._weight, self._scales)[: len(out)]
        torch.addcmul(self._bias, product, reach, out=out)
        return product

    def forward(self, x: Tensor) -> Tensor:
        out = torch.empty(len(x), len(self._scales))
        self.write(*self.prepare(x), out)
        return out


class Look(NamedTuple):
    """What there is to say of logits in eight bits.

    normaliser   (n, 1)   the log of the sum of exponentials
    words        (n, k)   those with the largest logits
    logits       (n, k)   theirs, in full precision
    beyond       (n)      no other logit is larger
    """

    normaliser: Tensor
    words: Tensor
    logits: Tensor
    beyond: Tensor


class QuantisedCopyGenerator(CopyGenerator):
    """A copy generator whose `log_mixture` has the logits in eight bits, the largest of each row in full precision."""

    def __init__(self, generator: CopyGenerator) -> None:
        same_parameters(self, generator)
        self._linears: list[Any] = in_parts(generator, QuantisedLinear, _PART)
        self._bias = generator.bias_without_padding()
        self._error = torch.stack([linear.error for linear in self._linears]).max()
        self._norm = torch.stack([linear.norm for linear in self._linears]).max()

    def write_logits(self, hidden: Tensor, logits: Tensor) -> Tensor:
        return self.look(hidden, logits).normaliser

    def look(self, hidden: Tensor, logits: Tensor) -> Look:
        """`write_logits`, and which of them are the largest."""
        total = hidden.new_zeros(len(hidden), 1)
        scaled = QuantisedLinear.prepare(hidden)
        for part, linear in zip(logits.split(_PART, 1), self._linears, strict=True):
            room = linear.write(*scaled, part)
            total += exponentials(part, out=room).sum(1, keepdim=True)
        rough, words = best(logits, min(_EXACT, logits.size(1)))  # (n, k)
        exact = self.logits_at(hidden, words)
        logits.scatter_(1, words, exact)
        normaliser = log_of_sum(total + (exact.exp() - rough.exp()).sum(1, keepdim=True), logits)
        return Look(normaliser, words, exact, rough[:, -1])

    def logits_at(self, hidden: Tensor, words: Tensor) -> Tensor:
        """The logits of a few words of each row, in full precision: hidden (n, d), words (n, k) -> (n, k)."""
        return torch.bmm(self.weight[words], hidden.unsqueeze(2)).squeeze(2) + self._bias[words]

    def error(self, hidden: Tensor) -> Tensor:
        """How far the logits of each row can be off at most (n, 1): |w.h - v.g| <= |w - v| |h| + |v| |h - g|."""
        bytes_, reach = QuantisedLinear.scale(hidden)
        taken = (bytes_.float() - (steps() + 1)).mul_(reach / steps())
        return self._error * hidden.norm(dim=1, keepdim=True) + self._norm * (hidden - taken).norm(dim=1, keepdim=True)


class Screening(NamedTuple):
    """What is known of rows whose scores were computed in eight bits.

    hidden       (n, d or e)     what `CopyGenerator.project` gives
    attention    (n, src_len)
    src_ext      (n, src_len)
    constant     (n, 1)          what scores lack to be log P
    odds         (n, 1)          log g, less that constant
    copied       (n, src_len)    what copying alone gives the word at each place of the source
    error        (n, 1)          how far logits can be off at most
    words, logits, beyond        as `Look` has them
    """

    hidden: Tensor
    attention: Tensor
    src_ext: Tensor
    constant: Tensor
    odds: Tensor
    copied: Tensor
    error: Tensor
    words: Tensor
    logits: Tensor
    beyond: Tensor


class Candidates(NamedTuple):
    """Tokens between which full precision decides.

    tokens   (n, k)
    rough    (n, k)   their scores at first sight, minus infinity where one is not permitted
    logits   (n, k)   in full precision
    copied   (n, k)   what copying alone gives them
    beyond   (n)      no other token had a higher score at first sight
    """

    tokens: Tensor
    rough: Tensor
    logits: Tensor
    copied: Tensor
    beyond: Tensor


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
    def screen(self, hidden: Tensor, attention: Tensor, src_ext: Tensor, scores: Tensor) -> Screening:
        """Write the scores (n, size) of `relative_mixture`, as it does, up to the error of eight bits."""
        projected = self.project(hidden)
        look = self.rough.look(projected, scores[:, : self.vocab_size])
        gate = self.gate(hidden)
        constant = F.logsigmoid(-gate) - look.normaliser  # (n, 1)
        odds = F.logsigmoid(gate) - constant  # (n, 1)
        copied = mix_copied(scores, src_ext, attention, odds)
        error = self.rough.error(projected)
        return Screening(projected, attention, src_ext, constant, odds, copied, error, *look[1:])

    @torch.no_grad()
    def choose(self, screening: Screening, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The best token of each row (n,), its log P (n,), and whether full precision surely has it as the best (n,).

        log P is exact but for the normaliser, which is that of ``rough``.
        scores (n, size): as `screen` wrote them, minus infinity where a token is not permitted.
        """
        found = _decide(screening, self._likely(screening, scores))
        rows = found[2].logical_not().nonzero().squeeze(1)
        if len(rows):
            some = Screening(*(tensor[rows] for tensor in screening))
            again = _decide(some, self._best(some, scores[rows]))
            for tensor, better in zip(found, again, strict=True):
                tensor[rows] = better
        return found

    def _likely(self, screening: Screening, scores: Tensor) -> Candidates:
        """The best words of the source, and those with the largest logits: found without looking at all scores."""
        source = screening.src_ext
        # A word may stand at several places: one of them counts.
        places = torch.arange(source.size(1), dtype=scores.dtype, device=source.device).expand(len(source), -1)
        own = scores.gather(1, source)  # (n, src_len)
        counts = scores.scatter_(1, source, places).gather(1, source).eq(places)
        scores.scatter_(1, source, own)
        rough, places = own.masked_fill(~counts, -torch.inf).topk(min(_COMPARED, source.size(1)))  # (n, k)
        tokens, words = source.gather(1, places), screening.words
        again = words.unsqueeze(2).eq(tokens.unsqueeze(1)).any(2)
        others = scores.gather(1, words).masked_fill_(again, -torch.inf)
        return Candidates(
            torch.cat([tokens, words], 1),
            torch.cat([rough, others], 1),
            torch.cat([self._logits_at(screening.hidden, tokens), screening.logits], 1),
            # Of the words that come second those in the source are not among its best: no need to be right.
            F.pad(screening.copied.gather(1, places), (0, words.size(1)), value=-torch.inf),
            rough[:, -1].maximum(screening.beyond),
        )

    def _best(self, screening: Screening, scores: Tensor) -> Candidates:
        """The best tokens at first sight."""
        rough, tokens = best(scores, min(_COMPARED_AGAIN, scores.size(1)))  # (n, k)
        logits = self._logits_at(screening.hidden, tokens)
        copied = screening.odds + self.copy_mass(screening.attention, screening.src_ext, tokens).log()
        return Candidates(tokens, rough, logits, copied, rough[:, -1])

    def _logits_at(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """Of tokens (n, k), minus infinity where one is only copied: (n, k)."""
        only_copied = self.is_only_copied(tokens)
        logits = self.rough.logits_at(hidden, tokens.masked_fill(only_copied, self._some_word))
        return logits.masked_fill_(only_copied, -torch.inf)


def _decide(screening: Screening, candidates: Candidates) -> tuple[Tensor, Tensor, Tensor]:
    """What `ScreenedCopyGenerator.choose` returns, between some tokens."""
    tokens, rough, logits, copied, beyond = candidates
    error, constant = screening.error, screening.constant
    # Scores grow with the normaliser in `constant`, each in its own way: whichever is ahead at both ends of
    # where the normaliser can be is ahead in between.
    low, high = (
        torch.logaddexp(logits, copied + shift).masked_fill(rough.isneginf(), -torch.inf).max(1)
        for shift in (-error / _CONSPIRACY, error / _CONSPIRACY)
    )
    ahead_of_the_rest = low.values > beyond + error.squeeze(1)
    certain = ahead_of_the_rest & low.indices.eq(high.indices) & rough.amax(1).abs().lt(HARMLESS)
    chosen = low.indices.unsqueeze(1)  # (n, 1)
    log_p = torch.logaddexp(logits.gather(1, chosen), copied.gather(1, chosen)) + constant
    return tokens.gather(1, chosen).squeeze(1), log_p.squeeze(1), certain
