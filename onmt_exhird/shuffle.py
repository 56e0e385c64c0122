"""Lines in a random order that depends on a seed only, in memory that does not grow with their number."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

PILE = 32 * 2**20  # characters of a pile, about: one is in memory at a time
MOST_PILES = 512  # open at a time


def shuffle(pairs: Iterable[tuple[str, str]], seed: int, size: int, folder: Path) -> Iterator[tuple[str, str]]:
    """Pairs of lines, each with its end, in a random order; all orders are equally likely.

    Each is put on one of several piles at random, and each pile is then shuffled. ``size`` is about how many
    characters there are, which says how many piles; these are files in the folder that nobody else sees.

    >>> list(shuffle([("a\\n", "1\\n"), ("b\\n", "2\\n"), ("c\\n", "3\\n")], 2, 12, Path(".")))
    [('c\\n', '3\\n'), ('a\\n', '1\\n'), ('b\\n', '2\\n')]
    """
    rng = random.Random(seed)
    with ExitStack() as stack:
        piles = [
            stack.enter_context(TemporaryFile("w+", encoding="utf-8", newline="\n", dir=folder))
            for _ in range(min(size // PILE + 1, MOST_PILES))
        ]
        for pair in pairs:
            rng.choice(piles).writelines(pair)
        for pile in piles:
            yield from _shuffled(pile, rng)


def _shuffled(pile: IO[str], rng: random.Random) -> list[tuple[str, str]]:
    pile.seek(0)
    pairs = list(zip(pile, pile, strict=True))
    rng.shuffle(pairs)
    return pairs
