"""Lines in a random order, in bounded memory."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest

from onmt_exhird import shuffle as module
from onmt_exhird.shuffle import shuffle


def pairs(count: int) -> list[tuple[str, str]]:
    return [(f"s{number}\n", f"t{number}\n") for number in range(count)]


def test_every_order_is_as_likely_as_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over several piles: 24 orders of four lines, 4,800 seeds; chi-square with 23 degrees of freedom."""
    monkeypatch.setattr(module, "PILE", 4)
    seen = Counter(tuple(shuffle(pairs(4), seed, 12, tmp_path)) for seed in range(4800))
    assert set(seen) == set(permutations(pairs(4)))
    assert sum((count - 200) ** 2 / 200 for count in seen.values()) < 49.7  # p = 0.001


def test_nothing_is_lost_or_doubled_and_no_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PILE", 1000)
    mixed = list(shuffle(pairs(5000), 7, 70_000, tmp_path))
    assert mixed != pairs(5000) and sorted(mixed) == sorted(pairs(5000))
    assert not list(tmp_path.iterdir())


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 MB, with piles of 1 MB, a few MB are in memory at any time."""
    import tracemalloc

    monkeypatch.setattr(module, "PILE", 2**20)
    lines = ((f"{number} " + "x" * 990 + "\n", "y\n") for number in range(40_000))
    tracemalloc.start()
    count = sum(1 for _ in shuffle(lines, 1, 40_000_000, tmp_path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 40_000 and peak < 8 * 2**20
