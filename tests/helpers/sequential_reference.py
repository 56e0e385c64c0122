"""The sequential baselines in loops over tokens and positions, one document at a time: slow and obvious."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from helpers.nn_reference import BOS, EMBEDDING, EOS, HIDDEN, VOCAB, Batch, Document, gru, random_document, restricted
from torch import Tensor, nn

from onmt_exhird.nn.catseqcorr import CatSeqCorr
from onmt_exhird.nn.catseqd import CatSeqD
from onmt_exhird.nn.coverage import Coverage
from onmt_exhird.nn.hierarchical import Memory
from onmt_exhird.nn.review import Review
from onmt_exhird.nn.target_encoder import TARGET_SIZE, TargetEncoder

EMPTY = Document([8, 9], [[EOS]])


def with_large_weights(module: Any, seed: int) -> Any:
    """A module in float64 whose parameters do make a difference."""
    torch.manual_seed(seed)
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -1, 1)
    return module.double()


class Model(nn.Module):
    """Embedding and decoder."""

    def __init__(self, kind: type[CatSeqD] | type[CatSeqCorr], seed: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, EMBEDDING)
        self.decoder = kind(EMBEDDING, HIDDEN)
        with_large_weights(self, seed)


def make_batch(seed: int, sizes: list[tuple[int, int]], **kwargs: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return Batch.of([random_document(generator, phrases, src_len) for phrases, src_len in sizes] + [EMPTY], **kwargs)


def decode(model: Model, batch: Batch) -> Any:
    memory = Memory.of(batch.states, batch.lengths)
    return model.decoder(model.embedding(batch.inputs), memory, model.decoder.first_state(batch.h_0, memory))


def inputs_of(document: Document) -> list[int]:
    return [BOS, *map(restricted, document.target[:-1])]


def softmax(values: list[Tensor]) -> list[Tensor]:
    total = sum(torch.exp(value) for value in values)
    return [torch.exp(value) / total for value in values]


def weighted_sum(weights: list[Tensor], vectors: list[Tensor]) -> Tensor:
    return sum(weight * vector for weight, vector in zip(weights, vectors, strict=True))


def slow_step(
    step: Any, x: Tensor, m: list[Tensor], h: Tensor, h_tilde: Tensor, keys: list[Tensor] | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """catSeq, one token of one document."""
    h = gru(step.cell, torch.cat([h_tilde, x]), h)
    alpha = softmax([h @ step.attention @ key for key in (m if keys is None else keys)])
    h_tilde = torch.tanh(step.combine @ torch.cat([h, weighted_sum(alpha, m)]))
    return h, h_tilde, torch.stack(alpha)


def slow_target_encoder(encoder: TargetEncoder, embedded: list[Tensor]) -> list[Tensor]:
    """g after each token."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    cell: Any = SimpleNamespace(**{name: getattr(encoder.reader, f"{name}_l0") for name in names})
    states = [embedded[0].new_zeros(TARGET_SIZE)]
    for e in embedded:
        states.append(gru(cell, e, states[-1]))
    return states[1:]


def slow_coverage(cover: Coverage, m: Tensor, coverage: Tensor) -> list[Tensor]:
    return [torch.tanh(m_n + c_n * cover.weight) for m_n, c_n in zip(m, coverage, strict=True)]


def slow_review(review: Review, earlier: list[Tensor]) -> Tensor:
    rho = softmax([earlier[-1] @ review.attention @ h_k for h_k in earlier])
    return torch.tanh(review.combine @ torch.cat([earlier[-1], weighted_sum(rho, earlier)]))


def slow_catseqd(model: Model, document: Document, m: Tensor, h_0: Tensor) -> tuple[Tensor, ...]:
    """-> h, h~, alpha, g, each (tgt_len, ...)."""
    steps = []
    embedded = [model.embedding.weight[token] for token in inputs_of(document)]
    h, h_tilde = h_0, torch.zeros_like(h_0)
    for e, g in zip(embedded, slow_target_encoder(model.decoder.target_encoder, embedded), strict=True):
        h, h_tilde, alpha = slow_step(model.decoder.step, torch.cat([e, g.detach()]), list(m), h, h_tilde)
        steps.append((h, h_tilde, alpha, g))
    return tuple(torch.stack(tensors) for tensors in zip(*steps, strict=True))


def slow_catseqcorr(model: Model, document: Document, m: Tensor, h_0: Tensor) -> tuple[Tensor, ...]:
    """-> h~, alpha, each (tgt_len, ...)."""
    decoder, steps, earlier = model.decoder, [], []
    h, h_tilde, coverage = h_0, torch.zeros_like(h_0), h_0.new_zeros(len(m))
    for token in inputs_of(document):
        r = slow_review(decoder.review, earlier) if earlier else torch.zeros_like(h_0)
        keys = slow_coverage(decoder.cover, m, coverage)
        x = torch.cat([model.embedding.weight[token], r])
        h, h_tilde, alpha = slow_step(decoder.step, x, list(m), h, h_tilde, keys)
        coverage = coverage + alpha
        earlier.append(h)
        steps.append((h_tilde, alpha))
    return tuple(torch.stack(tensors) for tensors in zip(*steps, strict=True))
