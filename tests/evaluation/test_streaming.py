"""Documents are read once, side by side, and what is kept of them does not grow with their number."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from fractions import Fraction
from math import fsum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird.evaluation import System, evaluate, metrics
from onmt_exhird.evaluation.api import UnequalLengths
from onmt_exhird.evaluation.metrics import exact_parts

SOURCES = ["a b c", "b c d", "c d e", "d e f", "e f g"]
GOLD = ["a ; z", "b ; c ; y", "c", "", "e f"]
BASE = ["a ; b", "b ; y ; y", "d", "d ; x", ""]
OTHER = ["z", "b ; c", "c ; c", "", "e f ; g"]


def systems(through: type) -> list[System]:
    return [System("base", [through(BASE)]), System("other", [through(OTHER), through(BASE[::-1])])]


@pytest.mark.parametrize("confidence", [False, True])
def test_iterators_are_scored_as_lists(confidence: bool) -> None:
    options = {"confidence": confidence, "resamples": 7, "details": True}
    as_lists = evaluate(SOURCES, GOLD, systems(list), **options)
    once = evaluate(iter(SOURCES), iter(GOLD), systems(iter), **options)
    assert once == as_lists


def test_predictions_of_one_system_may_be_an_iterator() -> None:
    assert evaluate(SOURCES, GOLD, iter(BASE)) == evaluate(SOURCES, GOLD, BASE)


@pytest.mark.parametrize("convention", ["exhird", "chan", "meng"])
@pytest.mark.parametrize("confidence", [False, True])
@pytest.mark.parametrize("block", [1, 2, 3])
def test_scores_do_not_depend_on_when_sums_are_taken(
    monkeypatch: pytest.MonkeyPatch, block: int, convention: str, confidence: bool
) -> None:
    options = {"convention": convention, "confidence": confidence, "resamples": 7}
    together = evaluate(SOURCES, GOLD, systems(list), **options)
    monkeypatch.setattr(metrics, "_BLOCK", block)
    assert evaluate(SOURCES, GOLD, systems(list), **options) == together


@settings(max_examples=100)
@given(st.lists(st.floats(0, 1e6) | st.integers(1, 9).map(lambda n: 1 / n), max_size=30), st.integers(0, 30))
def test_parts_stand_for_the_exact_sum(values: list[float], cut: int) -> None:
    parts = exact_parts(values[:cut])
    assert sum(map(Fraction, parts)) == sum(map(Fraction, values[:cut]))
    assert fsum(parts + values[cut:]) == fsum(values)


@pytest.mark.parametrize(
    "sources, gold, index, have", [(5, 3, 0, 3), (5, 6, 0, 6), (5, 5, 2, 4), (4, 4, 1, 5), (2, 2, 1, 5)]
)
def test_lists_of_other_lengths_are_found_at_the_end(sources: int, gold: int, index: int, have: int) -> None:
    runs = {"one": iter(BASE), "two": iter(OTHER[:4])}
    with pytest.raises(UnequalLengths, match=f"has {have} documents, but there are {sources} sources") as found:
        evaluate(iter(SOURCES[:sources]), iter([*GOLD, "x"][:gold]), runs)
    assert (found.value.index, found.value.have, found.value.want) == (index, have, sources)


def peak_of(documents: int) -> int:
    def lines(seed: int, words: int) -> Iterator[str]:
        rng = random.Random(seed)
        for _ in range(documents):
            yield " ; ".join(rng.choices("abcdefgh", k=words))

    tracemalloc.start()
    try:
        evaluate(lines(1, 50), lines(2, 5), {"one": lines(3, 5), "two": lines(4, 7)})
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_BLOCK", 50)
    peak_of(60)  # fills the stemmer's memory
    assert peak_of(600) < peak_of(150) + 450 * 20
