"""Copying by extended ids, and the output layer that mixes copying with generation.

Every token of a document has an *extended id*: its vocabulary id, or V + k for the k-th distinct
out-of-vocabulary word of that document's source. The probability of a token is
(paper, section 4.2.2)

    P(y) = (1 - g) P_V(y) + g * sum of the attention where the source has y
    g    = sigmoid(w_g . h~ + b_g)
    P_V  = softmax(W_3 h~ + b_V), without the padding token

W_3 may be E P, the word embeddings E after a projection P (`CopyGenerator.tie`): fewer parameters, and less to compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from onmt_exhird.stream import UNK


def extend_source(
    tokens: Sequence[str], lookup: Callable[[str], int], unk_id: int, vocab_size: int
) -> tuple[list[int], list[str]]:
    """The extended ids of a source and its out-of-vocabulary words in order of appearance.

    ``lookup`` gives the vocabulary id of a token, ``unk_id`` where it has none. A literal ``<unk>``
    is the vocabulary's, not a word that could be copied.

    >>> extend_source(["a", "zeta", "b", "eta", "zeta", "<unk>"], lambda t: {"a": 1, "b": 2}.get(t, 0), 0, 3)
    ([1, 3, 2, 4, 3, 0], ['zeta', 'eta'])
    """
    ids: list[int] = []
    oov: dict[str, int] = {}
    for token in tokens:
        index = lookup(token)
        if index == unk_id and token != UNK:
            index = oov.setdefault(token, vocab_size + len(oov))
        ids.append(index)
    return ids, list(oov)


def extend_target(
    tokens: Sequence[str], lookup: Callable[[str], int], unk_id: int, oov: Sequence[str], vocab_size: int
) -> list[int]:
    """The extended ids of a target whose source has the out-of-vocabulary words ``oov``.

    A word that is in neither the vocabulary nor the source is ``<unk>``.

    >>> extend_target(["eta", "a", "theta"], lambda t: {"a": 1, "b": 2}.get(t, 0), 0, ["zeta", "eta"], 3)
    [4, 1, 0]
    """
    copied = {word: vocab_size + k for k, word in enumerate(oov)}
    ids = map(lookup, tokens)
    return [copied.get(token, unk_id) if index == unk_id else index for token, index in zip(tokens, ids, strict=True)]


def restrict(ids: Tensor, vocab_size: int, unk_id: int) -> Tensor:
    """Extended ids as ids for an embedding: a copied out-of-vocabulary word becomes ``<unk>``.

    >>> restrict(torch.tensor([1, 3, 2, 4]), vocab_size=3, unk_id=0)
    tensor([1, 0, 2, 0])
    """
    return ids.masked_fill(ids >= vocab_size, unk_id)


_ROWS, _COLUMNS = 256, 512  # of a block that stays in a core's cache, with the operands of the product that makes it
_LOG2_E = 1 / math.log(2)
HARMLESS = 40.0  # the log of a sum of exponentials up to which these are taken as they are


def _blocks(matrix: Tensor) -> Iterator[tuple[slice, slice]]:
    """The blocks of a matrix, one below the other within each stripe of columns.

    On a CPU their products are faster than that of the whole, and several passes over a block cost little more than
    one. Elsewhere the whole is one block.

    >>> list(_blocks(torch.empty(300, 1200)))
    [(slice(0, 300, None), slice(0, 512, None)), (slice(0, 300, None), slice(512, 1024, None)), \
(slice(0, 300, None), slice(1024, 1200, None))]
    """
    rows, columns = matrix.shape
    if matrix.device.type != "cpu":
        yield slice(0, rows), slice(0, columns)
        return
    height = -(-rows // max(1, round(rows / _ROWS)))
    width = max(_COLUMNS, _ROWS * _COLUMNS // max(height, 1))
    for column in range(0, columns, width):
        for row in range(0, rows, max(height, 1)):
            yield slice(row, min(row + height, rows)), slice(column, min(column + width, columns))


def exponentials(logits: Tensor, out: Tensor) -> Tensor:
    """e to the power of ``logits``, which ``out`` may be: on a CPU powers of two take less than half of the time."""
    return torch.mul(logits, _LOG2_E, out=out).exp2_()


def log_of_sum(total: Tensor, logits: Tensor) -> Tensor:
    """The log of a sum of exponentials (n, 1), given the sum as it came out, and the logits (n, V)."""
    log = total.log()
    # Infinite or NaN where exponentials leave the range of numbers: far from what a trained model has.
    return log if log.abs().max() < HARMLESS else logits.logsumexp(1, keepdim=True)


def mix_copied(scores: Tensor, src_ext: Tensor, attention: Tensor, odds: Tensor) -> Tensor:
    """Mix copying into scores (n, size), which are log P_V and a constant.

    src_ext (n, src_len), attention (n, src_len), odds (n, 1): log g, with that constant -> what copying alone gives the
    word at each place of the source (n, src_len)
    """
    # The cells of the source's words are lent to the sum of the attention, which may meet a word several times.
    generated = scores.gather(1, src_ext)  # (n, src_len)
    scores.scatter_(1, src_ext, 0.0).scatter_add_(1, src_ext, attention.to(scores.dtype))
    copied = odds + scores.gather(1, src_ext).log_()
    scores.scatter_(1, src_ext, torch.logaddexp(generated, copied))
    return copied


class _LogSoftmaxAt(torch.autograd.Function):
    """``log_softmax(hidden @ weight.T + bias)`` at a few columns of each row.

    The normaliser and the columns' own gradients are folded into the matrix products of the backward
    pass, so that the (rows, vocabulary) matrix is written once and read once. Composed of stock
    operations the same costs two thirds more time at 270 rows of 50,004 columns.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, columns: Tensor) -> Tensor:
        numerators = hidden.new_empty(len(hidden), len(weight))  # (n, V)
        total = hidden.new_zeros(len(hidden), 1)
        for rows, words in _blocks(numerators):
            block = numerators[rows, words]
            torch.addmm(bias[words], hidden[rows], weight[words].t(), out=block)
            total[rows] += exponentials(block, out=block).sum(1, keepdim=True)
        normaliser = total.log()
        if not normaliser.abs().max() < HARMLESS:  # far from what a trained model has; NaN is not less either
            logits = torch.addmm(bias, hidden, weight.t(), out=numerators)
            normaliser = logits.logsumexp(1, keepdim=True)
            torch.sub(logits, normaliser, out=numerators).exp_()
            total = torch.ones_like(total)
        ctx.save_for_backward(hidden, weight, columns, numerators, total)
        picked = torch.bmm(weight[columns], hidden.unsqueeze(2)).squeeze(2) + bias[columns]  # (n, k)
        return picked - normaliser

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        hidden, weight, columns, numerators, total = ctx.saved_tensors
        scale = grad.sum(1, keepdim=True).neg_().div_(total)  # (n, 1)
        scaled = hidden * scale  # (n, d)
        grad_hidden, grad_weight = torch.zeros_like(hidden), torch.empty_like(weight)
        grad_bias = weight.new_empty(len(weight), 1)
        for rows, words in _blocks(numerators):
            block = numerators[rows, words]
            grad_hidden[rows].addmm_(block, weight[words])
            others = 1 if rows.start else 0  # rows whose part of the sum is there already
            grad_weight[words].addmm_(block.t(), scaled[rows], beta=others)
            grad_bias[words].addmm_(block.t(), scale[rows], beta=others)
        grad_hidden.mul_(scale)

        flat = columns.reshape(-1)  # (n * k)
        grad_hidden += torch.bmm(grad.unsqueeze(1), weight[columns]).squeeze(1)
        grad_weight.index_add_(0, flat, (grad.unsqueeze(2) * hidden.unsqueeze(1)).flatten(0, 1))
        grad_bias = grad_bias.squeeze(1).index_add_(0, flat, grad.reshape(-1))
        return grad_hidden, grad_weight, grad_bias, None


class CopyGenerator(nn.Module):
    """The output layer and the copy gate (paper, section 4.2.2).

    The parameters are its own, without sub-modules, since OpenNMT-py's loader only finds generator
    parameters whose name has no dot; none is a scalar, which that loader cannot load.

    weight (V, d), bias (V)            W_3 and b_V
    gate_weight (d), gate_bias (1)     w_g and b_g
    projection (e, d)                  P, if the weight is an embedding E (V, e) of another width; else None
    """

    def __init__(self, hidden_size: int, vocab_size: int, pad_id: int) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.pad_id = pad_id
        self._some_word = 1 if pad_id == 0 else 0  # stands in where a token has no logit
        self.weight = nn.Parameter(torch.empty(vocab_size, hidden_size))
        self.bias = nn.Parameter(torch.empty(vocab_size))
        self.gate_weight = nn.Parameter(torch.empty(hidden_size))
        self.gate_bias = nn.Parameter(torch.empty(1))
        self.register_parameter("projection", None)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def extra_repr(self) -> str:
        return f"{len(self.gate_weight)}, {self.vocab_size}, pad_id={self.pad_id}"

    def tie(self, embedding: Tensor) -> None:
        """Make an embedding (V, e) the weight, the very same parameter; if e is not d, with a projection before it."""
        hidden_size = len(self.gate_weight)
        self.weight = embedding if isinstance(embedding, nn.Parameter) else nn.Parameter(embedding)
        if embedding.size(1) != hidden_size:
            self.projection = nn.Parameter(embedding.new_empty(embedding.size(1), hidden_size).uniform_(-0.1, 0.1))

    def project(self, hidden: Tensor) -> Tensor:
        """What is multiplied with the weight: h~ (n, d) itself, or P h~ (n, e)."""
        return hidden if self.projection is None else F.linear(hidden, self.projection)

    def score(self, hidden: Tensor, attention: Tensor, src_ext: Tensor, candidates: Tensor) -> Tensor:
        """log P of a few tokens per row, without building the distribution.

        hidden (n, d), attention (n, src_len), src_ext (n, src_len), candidates (n, k) -> (n, k)

        Every value and every gradient is finite. A token that is only copied (out of the vocabulary, or
        padding) has at least the copy mass ``finfo.tiny``, with no gradient to the attention below it;
        a vocabulary word whose copy mass is zero has exactly log (1 - g) P_V.

        Computed in the precision of the weights, under autocast too: small probabilities are what a loss is made of.
        """
        with torch.autocast(hidden.device.type, enabled=False):
            return self._score(hidden.to(self.weight.dtype), attention.to(self.weight.dtype), src_ext, candidates)

    def _score(self, hidden: Tensor, attention: Tensor, src_ext: Tensor, candidates: Tensor) -> Tensor:
        """`score`, of inputs in the precision of the weights."""
        only_copied = self.is_only_copied(candidates)  # (n, k)
        columns = candidates.masked_fill(only_copied, self._some_word)
        log_p = _LogSoftmaxAt.apply(self.project(hidden), self.weight, self.bias_without_padding(), columns)  # (n, k)

        mass = self.copy_mass(attention, src_ext, candidates)  # (n, k)
        tiny = torch.finfo(mass.dtype).tiny
        not_copied = (mass < tiny) & ~only_copied

        gate = self.gate(hidden)  # (n, 1)
        generated = (F.logsigmoid(-gate) + log_p).masked_fill(only_copied, -torch.inf)
        copied = (F.logsigmoid(gate) + mass.clamp_min(tiny).log()).masked_fill(not_copied, -torch.inf)
        # At most one of the two is minus infinity, so neither the sum nor its gradient can be NaN.
        return torch.logaddexp(generated, copied)  # (n, k)

    @torch.no_grad()
    def log_mixture(self, hidden: Tensor, attention: Tensor, src_ext: Tensor, size: int) -> Tensor:
        """log P of the whole distribution, over the vocabulary and the source's out-of-vocabulary words.

        hidden (n, d), attention (n, src_len), src_ext (n, src_len) -> (n, size)

        ``size`` is V plus the largest number of out-of-vocabulary words of a document of the batch.
        """
        scores = self.new_scores(hidden, size)
        return scores.add_(self.relative_mixture(hidden, attention, src_ext, scores))

    def new_scores(self, hidden: Tensor, size: int) -> Tensor:
        """What `relative_mixture` writes to, for hidden (n, d): (n, size)."""
        if size < self.vocab_size:
            raise ValueError(f"size is {size}, less than the vocabulary's {self.vocab_size}")
        scores = hidden.new_empty(len(hidden), size)
        scores[:, self.vocab_size :] = -torch.inf
        return scores

    @torch.no_grad()
    def relative_mixture(self, hidden: Tensor, attention: Tensor, src_ext: Tensor, scores: Tensor) -> Tensor:
        """`log_mixture` as a sum of what is written to ``scores`` (n, size), and a constant of each row (n, 1).

        The order of a row's tokens does not need the constant. For search: without gradient, and all in one place,
        since passes over the matrix cost as much as the product that makes it. Behind what can be generated only the
        words of the source are written; there the scores must be minus infinity before.
        """
        normaliser = self.write_logits(self.project(hidden), scores[:, : self.vocab_size])  # (n, 1)
        gate = self.gate(hidden)  # (n, 1)
        constant = F.logsigmoid(-gate) - normaliser  # (n, 1)
        mix_copied(scores, src_ext, attention, F.logsigmoid(gate) - constant)
        return constant

    def write_logits(self, hidden: Tensor, logits: Tensor) -> Tensor:
        """Write W_3 h~ + b_V, without padding, into logits (n, V); return the log of the sum of exponentials (n, 1).

        Here as in everything that comes with the weight alone, ``hidden`` is what `project` gives.
        """
        total = hidden.new_zeros(len(hidden), 1)
        bias = self.bias_without_padding()
        for rows, words in _blocks(logits):
            block = logits[rows, words]
            torch.addmm(bias[words], hidden[rows], self.weight[words].t(), out=block)
            total[rows] += exponentials(block, out=torch.empty_like(block)).sum(1, keepdim=True)
        return log_of_sum(total, logits)

    def is_only_copied(self, tokens: Tensor) -> Tensor:
        """Whether tokens (n, k) cannot be generated: out of the vocabulary, or padding."""
        return (tokens >= self.vocab_size) | (tokens == self.pad_id)

    @staticmethod
    def copy_mass(attention: Tensor, src_ext: Tensor, tokens: Tensor) -> Tensor:
        """How much attention a few tokens get: attention (n, src_len), src_ext (n, src_len), tokens (n, k) -> (n, k)"""
        matches = src_ext.unsqueeze(1) == tokens.unsqueeze(2)  # (n, k, src_len)
        return torch.bmm(matches.to(attention.dtype), attention.unsqueeze(2)).squeeze(2)

    def rows(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """What makes the logits of a few words (k,), of what `project` gives: weight (k, d or e), bias (k)."""
        return self.weight[words], self.bias[words]

    def gate(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.gate_weight.unsqueeze(0), self.gate_bias)  # (n, 1)

    def bias_without_padding(self) -> Tensor:
        """b_V with minus infinity at the padding token: cheaper than a pass over the logits."""
        pad = torch.tensor(self.pad_id, device=self.bias.device)
        return self.bias.index_fill(0, pad, -torch.inf)  # (V)
