"""The paper's equations in loops over phrases and words, one document at a time: slow and obvious."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from onmt_exhird.nn.copying import CopyGenerator
from onmt_exhird.nn.hierarchical import HierarchicalDecoder

UNK, PAD, BOS, EOS, END, PRESENT, ABSENT = range(7)
WORDS = range(7, 12)  # ordinary words of the vocabulary
VOCAB = 12
TAGS = [PRESENT, ABSENT]
EMBEDDING, HIDDEN = 3, 4


class Document(NamedTuple):
    """Extended ids; each phrase is a tag, words, ``;``, and the last one is ``</s>`` alone."""

    source: list[int]
    phrases: list[list[int]]

    @property
    def target(self) -> list[int]:
        return [token for phrase in self.phrases for token in phrase]


class Model(nn.Module):
    """Embedding, decoder and generator with large random weights, in float64."""

    def __init__(self, seed: int, scale: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(VOCAB, EMBEDDING)
        self.decoder = HierarchicalDecoder(EMBEDDING, HIDDEN)
        self.generator = CopyGenerator(HIDDEN, VOCAB, PAD)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -scale, scale)
        self.double()


def random_document(generator: torch.Generator, phrases: int, src_len: int) -> Document:
    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    oov = 2
    source = [draw(WORDS[0], VOCAB + oov) for _ in range(src_len)]
    copied = sorted({word for word in source if word >= VOCAB})
    words = [UNK, *WORDS, *copied]
    drawn = [[TAGS[draw(0, 2)], *(words[draw(0, len(words))] for _ in range(draw(1, 4))), END] for _ in range(phrases)]
    return Document(source, [*drawn, [EOS]])


def restricted(token: int) -> int:
    return token if token < VOCAB else UNK


def gru(cell: nn.GRUCell, x: Tensor, h: Tensor) -> Tensor:
    """A GRU as defined in torch's documentation, for one vector."""
    w_ir, w_iz, w_in = cell.weight_ih.chunk(3)
    w_hr, w_hz, w_hn = cell.weight_hh.chunk(3)
    b_ir, b_iz, b_in = cell.bias_ih.chunk(3)
    b_hr, b_hz, b_hn = cell.bias_hh.chunk(3)
    r = torch.sigmoid(w_ir @ x + b_ir + w_hr @ h + b_hr)
    z = torch.sigmoid(w_iz @ x + b_iz + w_hz @ h + b_hz)
    n = torch.tanh(w_in @ x + b_in + r * (w_hn @ h + b_hn))
    return (1 - z) * n + z * h


class SlowSteps(NamedTuple):
    """One entry for every token of the target."""

    attentional: list[Tensor]  # (d)
    attention: list[Tensor]  # (src_len)
    phrase_attention: list[Tensor]  # (src_len)


def slow_decode(model: Model, document: Document, m: Tensor, h_0: Tensor) -> SlowSteps:
    """Section 4.2 of the paper; m (src_len, d), h_0 (d)."""
    decoder, steps = model.decoder, SlowSteps([], [], [])
    h, h_tilde_end = h_0, torch.zeros_like(h_0)
    for phrase in document.phrases:
        h = gru(decoder.phrase_cell, h_tilde_end, h)
        s = torch.stack([h @ decoder.phrase_attention @ m_n for m_n in m])
        beta = torch.exp(s) / torch.exp(s).sum()
        h_word, h_tilde, token = h, torch.zeros_like(h), BOS
        for following in phrase:
            e = model.embedding.weight[restricted(token)]
            h_word = gru(decoder.word_cell, torch.cat([h_tilde, e]), h_word)
            s = torch.stack([h_word @ decoder.word_attention @ m_n for m_n in m])
            alpha = torch.exp(s) / torch.exp(s).sum()
            rescaled = alpha * beta / (alpha * beta).sum()
            a = torch.stack([weight * m_k for weight, m_k in zip(rescaled, m, strict=True)]).sum(0)
            h_tilde = torch.tanh(decoder.combine @ torch.cat([h_word, a]))
            steps.attentional.append(h_tilde)
            steps.attention.append(rescaled)
            steps.phrase_attention.append(beta)
            token = following
        h_tilde_end = h_tilde
    return steps


def slow_probability(generator: CopyGenerator, h_tilde: Tensor, attention: Tensor, source: list[int], y: int) -> Tensor:
    """Section 4.2.2 of the paper for one token, in loops."""
    e = h_tilde if generator.projection is None else torch.stack([row @ h_tilde for row in generator.projection])
    weights = [torch.exp(generator.weight[v] @ e + generator.bias[v]) for v in range(generator.vocab_size)]
    total = torch.stack([w for v, w in enumerate(weights) if v != generator.pad_id]).sum()
    gate = 1 / (1 + torch.exp(-(generator.gate_weight @ h_tilde) - generator.gate_bias[0]))
    probability = torch.zeros((), dtype=h_tilde.dtype)
    if y < generator.vocab_size and y != generator.pad_id:
        probability = probability + (1 - gate) * weights[y] / total
    for position, word in enumerate(source):
        if word == y:
            probability = probability + gate * attention[position]
    return probability


def slow_losses(model: Model, document: Document, steps: SlowSteps, window: int) -> tuple[Tensor, Tensor]:
    """The generation loss and Algorithm 1 of the paper, for one document."""
    generation = torch.zeros((), dtype=torch.float64)
    exclusive = torch.zeros((), dtype=torch.float64)
    position = 0
    for i, phrase in enumerate(document.phrases):
        for j, y in enumerate(phrase):

            def p(word: int, at: int = position) -> Tensor:
                return slow_probability(
                    model.generator, steps.attentional[at], steps.attention[at], document.source, word
                )

            generation = generation - torch.log(p(y))
            if j == 1:
                for earlier in document.phrases[max(i - window, 0) : i]:
                    if earlier[1] != y:
                        exclusive = exclusive - torch.log(1 - p(earlier[1]))
            position += 1
    return generation, exclusive


class Batch(NamedTuple):
    """Documents padded to a batch, with random encoder states that require gradients."""

    documents: list[Document]
    states: Tensor  # (batch, src_len, d)
    h_0: Tensor  # (batch, d)
    lengths: Tensor  # (batch)
    source: Tensor  # (batch, src_len)
    target: Tensor  # (batch, tgt_len)
    inputs: Tensor  # (batch, tgt_len)

    @property
    def tgt_len(self) -> Tensor:
        """How many tokens each target has (batch)."""
        return torch.tensor([len(document.target) for document in self.documents])

    @property
    def is_real(self) -> Tensor:
        """Where the targets are no padding (batch, tgt_len)."""
        return torch.arange(self.target.size(1)) < self.tgt_len.unsqueeze(1)

    @classmethod
    def of(cls, documents: list[Document], extra: int = 0) -> Batch:
        """``extra`` is padding beyond what the documents need. A document has the same states in every batch."""
        src_len = max(len(d.source) for d in documents) + extra
        tgt_len = max(len(d.target) for d in documents) + extra
        states = torch.full((len(documents), src_len, HIDDEN), 7.0, dtype=torch.float64)
        h_0 = torch.empty(len(documents), HIDDEN, dtype=torch.float64)
        source = torch.full((len(documents), src_len), PAD)
        target = torch.full((len(documents), tgt_len), PAD)
        for row, document in enumerate(documents):
            torch.manual_seed(sum(document.source) + 100 * len(document.target))
            h_0[row] = torch.rand(HIDDEN, dtype=torch.float64) * 2 - 1
            states[row, : len(document.source)] = torch.rand(len(document.source), HIDDEN, dtype=torch.float64) * 2 - 1
            source[row, : len(document.source)] = torch.tensor(document.source)
            target[row, : len(document.target)] = torch.tensor(document.target)
        first = torch.full((len(documents), 1), BOS)
        inputs = torch.cat([first, target[:, :-1]], 1)
        lengths = torch.tensor([len(d.source) for d in documents])
        inputs = inputs.masked_fill(inputs >= VOCAB, UNK)
        return cls(documents, states.requires_grad_(), h_0.requires_grad_(), lengths, source, target, inputs)
