"""What exclusive search promises, kept by every model, also by one that has learned nothing and writes wildly."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.bridge_models import VOCABS, WORDS, build, options
from helpers.files import write_lines
from helpers.stock import translate
from onmt.inputters.inputter import vocabs_to_dict

from onmt_exhird import stream

NAMES = ["exhird", "rnn", "catseqd", "catseqcorr", "transformer"]
SEARCHES = {"greedy": ["-beam_size", 1], "beam": ["-beam_size", 3, "-n_best", 2]}
LIMITS = ["-min_phrases", 5, "-max_phrases", 6, "-max_phrase_words", 3]  # so that there is something to exclude
Searched = Callable[..., list[str]]


@pytest.fixture(scope="module", params=NAMES)
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with random parameters, and documents of 1 to 11 words, some of them unknown."""
    folder = tmp_path_factory.mktemp(request.param)
    opt = options(request.param)
    model = build(opt)
    body = {name: tensor for name, tensor in model.state_dict().items() if "generator" not in name}
    saved = {"model": body, "generator": model.generator.state_dict(), "vocab": vocabs_to_dict(VOCABS), "opt": opt}
    torch.save(saved | {"optim": {}}, folder / "model.pt")
    rng = random.Random(7)
    words = [*WORDS[7:], "zuvoka", "poliku", "rataku"]
    write_lines(folder / "some.src", [" ".join(rng.choices(words, k=rng.randint(1, 11))) for _ in range(7)])
    return folder / "model.pt"


@pytest.fixture(params=SEARCHES)
def search(request: pytest.FixtureRequest, checkpoint: Path) -> Searched:
    """`onmt_translate`, greedy or with a beam."""

    def run(*more: object) -> list[str]:
        return translate(checkpoint.parent, checkpoint, "some.src", *SEARCHES[request.param], *LIMITS, *more)

    return run


@pytest.mark.parametrize("window", [1, 3, "all"])
def test_streams_are_well_formed_and_no_first_word_returns_within_the_window(search: Searched, window: object) -> None:
    for line in search("-exclusive_search", "-exclusive_window", window):
        phrases = stream.parse(line)
        first_words = [phrase.words[0] for phrase in phrases]
        for position, word in enumerate(first_words):
            start = 0 if window == "all" else max(position - int(str(window)), 0)
            assert word not in first_words[start:position]
        assert 5 <= len(phrases) <= 6 and all(len(phrase.words) <= 3 for phrase in phrases)


def test_a_window_of_none_is_plain_search(search: Searched) -> None:
    plain = search()
    assert search("-exclusive_search", "-exclusive_window", 0) == plain
    assert search("-exclusive_search", "-exclusive_window", 1) != plain


def test_the_batch_never_changes_what_exclusive_search_finds(search: Searched) -> None:
    one, three, all_of_them = (
        search("-exclusive_search", "-exclusive_window", 2, "-batch_size", n) for n in (1, 3, 64)
    )
    assert one == three == all_of_them
