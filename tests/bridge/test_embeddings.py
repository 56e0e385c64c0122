"""Embeddings that a training starts from: read as upstream reads them, and made of the documents themselves."""

from __future__ import annotations

import sys
from pathlib import Path

import onmt.modules.embeddings
import pyonmttok
import pytest
import torch
from helpers.files import load_tool, write_lines
from helpers.stock import run_stock

from onmt_exhird.bridge.checkpoints import load_harmless


@pytest.fixture(scope="module")
def skipgram():
    return load_tool("skipgram")


def test_a_row_is_that_of_its_word_and_zero_where_there_is_none() -> None:
    vocab = pyonmttok.build_vocab_from_tokens(["a", "b", "c"])
    vectors = {"c": [1.0, 2.0], "a": [3.0, 4.0]}
    table = onmt.modules.embeddings.convert_to_torch_tensor(vectors, vocab)
    assert {word: table[vocab.tokens_to_ids[word]].tolist() for word in "abc"} == vectors | {"b": [0.0, 0.0]}


def test_a_vocabulary_is_listed_once() -> None:
    """Each listing makes a dictionary of all words; upstream asks for one for each word."""
    vocab = pyonmttok.build_vocab_from_tokens(["a", "b", "c"])
    listings = []

    class Counting:
        @property
        def tokens_to_ids(self) -> dict[str, int]:
            listings.append(vocab.tokens_to_ids)
            return listings[-1]

        def __len__(self) -> int:
            return len(vocab)

    onmt.modules.embeddings.convert_to_torch_tensor({"a": [0.5], "b": [1.5]}, Counting())
    assert len(listings) == 1


def test_words_without_a_vector_get_a_random_one_and_all_are_of_one_scale(skipgram) -> None:
    vectors = {"graph": [3.0, -4.0], "tree": [0.0, 5.0], "elsewhere": [900.0, 900.0]}
    found = dict(line.split(" ", 1) for line in skipgram.lines(["graph", ";", "tree", "<p_start>"], vectors, 2, seed=1))
    rows = {word: [float(x) for x in row.split()] for word, row in found.items()}
    assert rows["graph"] == pytest.approx([0.08485, -0.11314]) and rows["tree"] == pytest.approx([0.0, 0.14142])
    assert rows[";"] != rows["<p_start>"] and all(abs(x) <= 0.1 for word in (";", "<p_start>") for x in rows[word])


def test_training_starts_from_the_vectors(skipgram, workshop: Path) -> None:
    words = ["<unk>", "<s>", "</s>", *(line.split("\t")[0] for line in (workshop / "vocab.txt").open())]
    lines = list(skipgram.lines(words, {}, 24, seed=5))
    write_lines(workshop / "vectors.txt", lines)
    run_stock(
        "onmt_train", "-config", "tied.yaml", "-both_embeddings", "vectors.txt", "-embeddings_type", "GloVe",
        "-learning_rate", 0, "-train_steps", 1, "-valid_steps", 1, "-save_data", "vectors", "-save_model", "started",
        cwd=workshop,
    )  # fmt: skip
    saved = load_harmless(workshop / "started_step_1.pt")
    given = {line.split(" ")[0]: [float(x) for x in line.split(" ")[1:]] for line in lines}
    for word, row in zip(saved["vocab"]["src"], saved["generator"]["weight"], strict=True):
        if word in given:
            torch.testing.assert_close(row, torch.tensor(given[word]))


def test_without_gensim_the_remedy_is_named(skipgram, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(SystemExit, match="pip install gensim"):
        skipgram.train(tmp_path / "train.src", 2, 1, 1, 1)
