"""What exclusion of words costs where words are made of pieces: its share of the time of greedy search.

    python tools/benchmarks/pieces.py --threads 1

Models of the paper's size with random parameters write eight phrases for each of 128 documents. CPU seconds; what the
grammar takes, which a vocabulary of words needs as well, is told apart.
"""

from __future__ import annotations

import argparse
import random
import string
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from onmt_exhird.nn.model import Architecture, SpecialIds
from onmt_exhird.nn.output_layer import lay_out
from onmt_exhird.search import SearchSettings
from onmt_exhird.search.greedy import Greedy
from onmt_exhird.search.piece_constraint import PieceConstraint
from onmt_exhird.search.sources import Sources
from onmt_exhird.stream import ABSENT, BOS, DIGIT, END, EOS, PAD, PRESENT, UNK
from onmt_exhird.text import ENGLISH, stem_words

SPECIALS = [UNK, PAD, BOS, EOS, PRESENT, ABSENT, END, DIGIT]
PIECES, DOCUMENTS, LENGTH, PHRASES = 8000, 128, 220, 8
# How sure a model is of what comes next (the deviation of its output layer), and how much a phrase likes to end.
MODELS = {"sure, short phrases": (0.4, 9.0), "sure, long phrases": (0.4, 7.0), "unsure": (0.08, 4.5)}
CASES: dict[str, dict[str, Any]] = {
    "none": {},
    "window 1": {"exclusive_window": 1},
    "window all": {"exclusive_window": None},
    "window 1, stems": {"exclusive_window": 1, "exclude_stems": True},
    "window 1, phrases": {"exclusive_window": 1, "exclude_phrases": True},
}


def invent_vocabulary(rng: random.Random) -> list[str]:
    pieces: dict[str, None] = {}
    while len(pieces) < PIECES:
        text = "".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 6)))
        pieces[rng.choice(["▁", "▁", ""]) + text] = None
    return [*SPECIALS, *pieces]


def build_model(size: int, spread: float, ends: float) -> Any:
    torch.manual_seed(0)
    model = Architecture("exhird", size, 100, 300, encoder_layers=2).build(SpecialIds(0, 1, 2, 3, 6))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.08)
    torch.nn.init.normal_(model.generator.weight, std=spread)
    model.generator.bias.data[SPECIALS.index(END)] = ends
    model.generator = lay_out(model.eval().requires_grad_(False).generator, scored=False)
    return model


class Clock:
    """Adds up the CPU seconds of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *args: Any) -> Any:
        begin = time.process_time()
        try:
            return self.function(*args)
        finally:
            self.seconds += time.process_time() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description="What exclusion of words made of pieces costs.")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="default 1")
    torch.set_num_threads(parser.parse_args().threads)
    tokens = invent_vocabulary(random.Random(1))
    ids = torch.randint(len(SPECIALS), len(tokens), (DOCUMENTS, LENGTH))
    sources = Sources(ids, torch.full((DOCUMENTS,), LENGTH), ids, [[]] * DOCUMENTS)
    stem_words(["words"])  # imports the stemmer
    print("| model | exclusion | of search, % | without the grammar, % | tokens per phrase |\n|---|---|---|---|---|")
    for kind, shape in MODELS.items():
        model = build_model(len(tokens), *shape)
        for name, options in CASES.items():
            settings = SearchSettings(min_phrases=PHRASES, max_phrases=PHRASES, **options)
            print(f"| {kind} | {name} | {measure(model, PieceConstraint(tokens, settings, ENGLISH), sources)} |")
    return 0


def measure(model: Any, constraint: PieceConstraint, sources: Sources) -> str:
    """The constraint's share of a search, with the grammar and without it, in per cent; the length of phrases."""
    whole, grammar = Clock(constraint.apply), Clock(constraint._apply_grammar)
    constraint.apply, constraint._apply_grammar = whole, grammar  # type: ignore[method-assign]
    search = Clock(lambda: list(Greedy(model, constraint, 2000)(sources)))
    length = sum(len(one.tokens) - 1 for one in search()) / DOCUMENTS / PHRASES
    shares = (100 * seconds / search.seconds for seconds in (whole.seconds, whole.seconds - grammar.seconds))
    return " | ".join(f"{number:.1f}" for number in (*shares, length))


if __name__ == "__main__":
    sys.exit(main())
