"""Exclusive search on the authors' numbers: greedy lines of a tiny model, computed here in the plainest way."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from helpers.files import TESTS
from torch import Tensor, nn

from onmt_exhird.search import SearchSettings, StreamConstraint, parse_window

GOLDEN = TESTS / "golden" / "model_public.json"


class PlainModel:
    """The hierarchical decoder for one document, one token at a time."""

    def __init__(self, golden: dict[str, Any], source: list[str]) -> None:
        self.weights = {name: torch.tensor(value).double() for name, value in golden["weights"].items()}
        self.vocab = golden["vocab"]
        self.oov = list(dict.fromkeys(word for word in source if word not in self.vocab))
        self.source = torch.tensor([(self.vocab + self.oov).index(word) for word in source])
        encoder = nn.GRU(6, 4, num_layers=2, bidirectional=True, batch_first=True).double()
        encoder.load_state_dict(self.part("encoder"))
        states, final = encoder(self.embed(self.source)[None])
        self.memory = states[0]
        self.phrase_cell, self.word_cell = nn.GRUCell(8, 8).double(), nn.GRUCell(14, 8).double()
        self.phrase_cell.load_state_dict(self.part("GRU_1"))
        self.word_cell.load_state_dict(self.part("GRU_2"))
        self.phrase, self.word = torch.cat([final[2], final[3]], dim=1), torch.zeros(1, 8).double()
        self.h_tilde = torch.zeros(1, 8).double()

    def part(self, name: str) -> dict[str, Tensor]:
        prefix = name + "."
        return {key.removeprefix(prefix): value for key, value in self.weights.items() if key.startswith(prefix)}

    def embed(self, ids: Tensor) -> Tensor:
        return self.weights["embedding"][ids.where(ids < len(self.vocab), torch.tensor(0))]

    def step(self, token: int) -> Tensor:
        """Feed one token and return the log-probabilities (1, extended vocabulary) of the next."""
        feed = self.h_tilde
        if self.vocab[token : token + 1] in (["<s>"], [";"]):
            self.phrase = self.word = self.phrase_cell(self.h_tilde, self.phrase)
            feed, token = torch.zeros_like(feed), self.vocab.index("<s>")
        self.word = self.word_cell(torch.cat([feed, self.embed(torch.tensor([token]))], dim=1), self.word)
        w = self.weights
        scores = (self.word @ w["W_alpha"] + self.phrase @ w["W_1"]) @ self.memory.T
        attention = scores.softmax(1)
        self.h_tilde = torch.tanh(torch.cat([self.word, attention @ self.memory], dim=1) @ w["W_2"].T)
        logits = self.h_tilde @ w["W_3"].T + w["b_V"]
        logits[:, 1] = -torch.inf
        gate = torch.sigmoid(self.h_tilde @ w["w_g"] + w["b_g"]).view(1, 1)
        generated = nn.functional.pad((1 - gate) * logits.softmax(1), (0, len(self.oov)))
        return generated.scatter_add(1, self.source[None], gate * attention).log()


def decode(golden: dict[str, Any], source: list[str], window: str, keep_state: bool) -> str:
    model = PlainModel(golden, source)
    settings = SearchSettings(
        exclusive_window=parse_window(window), max_phrases=golden["greedy_settings"]["max_phrases"]
    )
    constraint = StreamConstraint(golden["vocab"], settings)
    sequence = torch.tensor([[2]])
    while sequence[0, -1] != 3:
        before = model.h_tilde, model.word
        log_probs = model.step(int(sequence[0, -1]))
        if keep_state and constraint.forced_end(sequence):
            model.h_tilde, model.word = before
        constraint.apply(log_probs, sequence)
        sequence = torch.cat([sequence, log_probs.argmax(1, keepdim=True)], dim=1)
    return " ".join((golden["vocab"] + model.oov)[index] for index in sequence[0, 1:-1])


@pytest.mark.parametrize("window", ["0", "1", "2", "all"])
def test_greedy_lines_equal_the_authors_when_a_forced_end_keeps_the_state(window: str) -> None:
    golden = json.loads(GOLDEN.read_text())
    for document in golden["documents"]:
        assert decode(golden, document["src"], window, keep_state=True) == document["expected"]["greedy"][window]


def test_a_forced_end_that_moves_the_state_gives_other_lines() -> None:
    golden = json.loads(GOLDEN.read_text())
    lines = [decode(golden, document["src"], "0", keep_state=False) for document in golden["documents"]]
    assert lines != [document["expected"]["greedy"]["0"] for document in golden["documents"]]
