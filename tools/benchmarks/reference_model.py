"""ExHiRD written down plainly: what `tools/bench.py` compares the plug-in with.

The manner is that of the authors' program. In training a batch's phrases lie in a padded grid, the output layer runs
over the whole grid, the full distribution over vocabulary and copied words is built, autograd and Adam do the rest. In
decoding every step of a document builds that distribution. The model is the same: for the same weights the loss and
the greedy output equal the plug-in's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Ids(NamedTuple):
    """The ids of the tokens that are no words."""

    unk: int
    pad: int
    bos: int
    eos: int
    present: int
    absent: int
    end: int


class Grid(NamedTuple):
    """A batch of targets, a phrase a row; the last row of a document holds ``</s>`` alone.

    inputs    (batch, phrases, words)   what each step is given
    targets   (batch, phrases, words)   extended ids of what it should predict
    last      (batch, phrases)          the position that predicts the end of the phrase
    """

    inputs: Tensor
    targets: Tensor
    last: Tensor


def make_grid(tgt: Tensor, tgt_ext: Tensor, ids: Ids) -> Grid:
    """From flat streams (batch, tgt_len), the first token ``<s>``: vocabulary ids and extended ids."""
    documents = []
    for plain, extended in zip(tgt.tolist(), tgt_ext.tolist(), strict=True):
        rows: list[tuple[list[int], list[int]]] = []
        begins = True
        for before, target in zip(plain, extended[1:], strict=False):
            if target == ids.pad:
                break
            if begins:
                rows.append(([], []))
            rows[-1][0].append(ids.bos if begins else before)
            rows[-1][1].append(target)
            begins = target == ids.end
        documents.append(rows)
    phrases = max(map(len, documents))
    words = max(len(inputs) for rows in documents for inputs, _ in rows)
    grid = torch.full((2, len(documents), phrases, words), ids.pad)
    last = torch.zeros(len(documents), phrases, dtype=torch.long)
    for b, rows in enumerate(documents):
        for i, (inputs, targets) in enumerate(rows):
            grid[0, b, i, : len(inputs)] = torch.tensor(inputs)
            grid[1, b, i, : len(targets)] = torch.tensor(targets)
            last[b, i] = len(inputs) - 1
    return Grid(grid[0], grid[1], last)


class ReferenceModel(nn.Module):
    """The symbols are those of `onmt_exhird.nn.hierarchical`."""

    def __init__(self, vocab: int, embedding: int, hidden: int, layers: int, ids: Ids) -> None:
        super().__init__()
        self.ids, self.vocab = ids, vocab
        self.embedding = nn.Embedding(vocab, embedding)
        self.encoder = nn.GRU(embedding, hidden // 2, layers, batch_first=True, bidirectional=True)
        self.phrase_cell = nn.GRUCell(hidden, hidden)
        self.word_cell = nn.GRUCell(hidden + embedding, hidden)
        self.phrase_attention = nn.Linear(hidden, hidden, bias=False)
        self.word_attention = nn.Linear(hidden, hidden, bias=False)
        self.combine = nn.Linear(2 * hidden, hidden, bias=False)
        self.output = nn.Linear(hidden, vocab)
        self.gate = nn.Linear(hidden, 1)

    @classmethod
    def like(cls, given: Mapping[str, Tensor], ids: Ids) -> ReferenceModel:
        """With the weights, by name, of an OpenNMT-py model of ``-decoder_type exhird``."""
        embedding = given["decoder.embeddings.make_embedding.emb_luts.0.weight"]
        vocab, hidden = given["generator.weight"].shape
        layers = sum("encoder.rnn.weight_ih_l" in name for name in given) // 2
        reference = cls(vocab, embedding.size(1), hidden, layers, ids)
        weights = {
            "embedding.weight": embedding,
            "phrase_attention.weight": given["decoder.hierarchy.phrase_attention"].t(),
            "word_attention.weight": given["decoder.hierarchy.word_attention"].t(),
            "combine.weight": given["decoder.hierarchy.combine"],
            "output.weight": given["generator.weight"],
            "output.bias": given["generator.bias"],
            "gate.weight": given["generator.gate_weight"].unsqueeze(0),
            "gate.bias": given["generator.gate_bias"],
        }
        prefixes = {"encoder.rnn.": "encoder."}
        prefixes |= {f"decoder.hierarchy.{cell}.": f"{cell}." for cell in ("phrase_cell", "word_cell")}
        for prefix, ours in prefixes.items():
            found = {name: value for name, value in given.items() if name.startswith(prefix)}
            weights |= {ours + name.removeprefix(prefix): value for name, value in found.items()}
        reference.load_state_dict(weights)
        return reference

    def encode(self, src: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """src (batch, src_len), lengths (batch) -> m (batch, src_len, d), h_0 (batch, d)"""
        packed = pack_padded_sequence(self.embedding(src), lengths.tolist(), batch_first=True, enforce_sorted=False)
        states, final = self.encoder(packed)
        return pad_packed_sequence(states, batch_first=True)[0], torch.cat([final[-2], final[-1]], 1)

    def attend(self, query: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """query (batch, d), memory (batch, src_len, d), mask (batch, src_len) -> (batch, src_len)"""
        scores = torch.bmm(memory, query.unsqueeze(2)).squeeze(2)
        return scores.masked_fill(~mask, -torch.inf).softmax(1)

    def begin(self, end: Tensor, hidden: Tensor, memory: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The phrase step: h~_{i-1,end}, h_{i-1} (batch, d) -> h_i (batch, d), beta_i (batch, src_len)"""
        hidden = self.phrase_cell(end, hidden)
        return hidden, self.attend(self.phrase_attention(hidden), memory, mask)

    def step(
        self, token: Tensor, tilde: Tensor, word: Tensor, beta: Tensor, memory: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The word step: -> h~ (batch, d), h_{i,j} (batch, d), the rescaled attention (batch, src_len)"""
        word = self.word_cell(torch.cat([tilde, self.embedding(token)], 1), word)
        both = self.attend(self.word_attention(word), memory, mask) * beta
        alpha = both / both.sum(1, keepdim=True)
        context = torch.bmm(alpha.unsqueeze(1), memory).squeeze(1)
        return torch.tanh(self.combine(torch.cat([word, context], 1))), word, alpha

    def mixture(self, tilde: Tensor, alpha: Tensor, src_ext: Tensor, size: int) -> Tensor:
        """tilde (n, d), alpha (n, src_len), src_ext (n, src_len) -> probabilities (n, size)"""
        logits = self.output(tilde)
        logits[:, self.ids.pad] = -torch.inf
        gate = torch.sigmoid(self.gate(tilde))
        copied = torch.zeros(len(tilde), size - self.vocab)
        generated = torch.cat([logits.softmax(1) * (1 - gate), copied], 1)
        return generated.scatter_add(1, src_ext, gate * alpha)

    def loss(self, batch: dict[str, Any]) -> Tensor:
        """The sum of -log P over the real tokens of a training batch."""
        grid = make_grid(batch["tgt"][:, :, 0], batch["tgt_ext"], self.ids)
        memory, hidden = self.encode(batch["src"][:, :, 0], batch["srclen"])
        mask = torch.arange(memory.size(1)) < batch["srclen"].unsqueeze(1)
        documents, phrases, words = grid.inputs.shape
        end = torch.zeros_like(hidden)
        tildes, alphas = [], []
        for i in range(phrases):
            hidden, beta = self.begin(end, hidden, memory, mask)
            tilde, word = torch.zeros_like(hidden), hidden
            row = []
            for j in range(words):
                tilde, word, alpha = self.step(grid.inputs[:, i, j], tilde, word, beta, memory, mask)
                row.append(tilde)
                alphas.append(alpha)
            end = torch.stack(row, 1)[torch.arange(documents), grid.last[:, i]]
            tildes += row
        size = self.vocab + max(map(len, batch["src_ex_vocab"]))
        src_ext = batch["src_map"].repeat(phrases * words, 1)
        probabilities = self.mixture(torch.cat(tildes), torch.cat(alphas), src_ext, size)
        targets = grid.targets.permute(1, 2, 0).flatten()  # (phrases * words * batch)
        probability = probabilities.gather(1, targets.unsqueeze(1)).squeeze(1)
        return -probability.masked_fill(targets == self.ids.pad, 1.0).log().sum()

    @torch.no_grad()
    def greedy(
        self, src: Sequence[int], src_ext: Sequence[int], copied: int, phrases: int, phrase_words: int, window: int
    ) -> list[int]:
        """The stream of one document with exactly so many phrases, as extended ids, by exclusive search."""
        ids = self.ids
        memory, hidden = self.encode(torch.tensor([src]), torch.tensor([len(src)]))
        mask = torch.ones(1, len(src), dtype=torch.bool)
        extended = torch.tensor([src_ext])
        end = torch.zeros_like(hidden)
        stream: list[int] = []
        firsts: list[int] = []
        for _ in range(phrases):
            hidden, beta = self.begin(end, hidden, memory, mask)
            tilde, word = torch.zeros_like(hidden), hidden
            token = ids.bos
            for position in range(phrase_words + 2):
                if position > phrase_words:
                    stream.append(ids.end)  # the phrase is full
                    break
                given = torch.tensor([token if token < self.vocab else ids.unk])
                tilde, word, alpha = self.step(given, tilde, word, beta, memory, mask)
                p = self.mixture(tilde, alpha, extended, self.vocab + copied)[0]
                if position == 0:
                    token = max((ids.present, ids.absent), key=lambda tag: float(p[tag]))
                else:
                    forbidden = [ids.pad, ids.bos, ids.eos, ids.present, ids.absent]
                    if position == 1:
                        forbidden += [ids.end, *firsts[max(0, len(firsts) - window) :]]
                    p[forbidden] = -1.0
                    token = int(p.argmax())
                    if position == 1:
                        firsts.append(token)
                stream.append(token)
                if token == ids.end:
                    break
            end = tilde
        return stream


class ReferenceTraining:
    """Plain training steps."""

    def __init__(self, model: ReferenceModel, learning_rate: float, max_norm: float) -> None:
        self.model, self.max_norm = model, max_norm
        self.optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, eps=1e-9)

    def step(self, batch: dict[str, Any]) -> None:
        self.optimizer.zero_grad()
        (self.model.loss(batch) / len(batch["tgt"])).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.optimizer.step()
