"""Training data in an order that can be found again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.files import write_lines
from onmt.inputters.text_corpus import ParallelCorpus, ParallelCorpusIterator

from onmt_exhird.bridge.corpora import Mixer, line_number
from onmt_exhird.bridge.places import Place, Places
from onmt_exhird.bridge.random_numbers import number_from, random_numbers_from


class Corpus:
    """Names for examples, and `skip` as a corpus of upstream's has it here."""

    skip = 0

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size

    def __iter__(self) -> Iterator[str]:
        return iter([f"{self.name}{number}" for number in range(self.skip, self.size)])


def mixer() -> Mixer:
    return Mixer({"a": Corpus("a", 5), "b": Corpus("b", 2), "none": Corpus("none", 0)}, {"a": 2, "b": 1, "none": 1})


def test_corpora_come_in_turn_by_their_weights_and_over_again() -> None:
    assert list(islice(mixer(), 12)) == "a0 a1 b0 a2 a3 b1 a4 a0 b0 a1 a2 b1".split()


@pytest.mark.parametrize("taken", range(13))
def test_a_mixer_goes_on_from_any_place(taken: int) -> None:
    first, again = mixer(), mixer()
    examples = iter(first)
    for _ in range(taken):
        next(examples)
    again.go_to(first.place())
    assert list(islice(again, 15)) == list(islice(mixer(), taken, taken + 15))


def test_a_mixer_of_nothing_ends() -> None:
    assert list(Mixer({"a": Corpus("a", 0)}, {"a": 3})) == []
    assert list(Mixer({"a": Corpus("a", 4)}, {"a": 0})) == []


@pytest.mark.parametrize(("stride", "lines"), [(1, 7), (2, 23), (3, 50)])
def test_lines_are_numbered_as_in_the_file_whoever_reads_them(tmp_path: Path, stride: int, lines: int) -> None:
    path = str(write_lines(tmp_path / "a.src", [f"w{number}" for number in range(lines)]))
    seen: dict[int, str] = {}
    for offset in range(stride):
        iterator: Any = ParallelCorpusIterator(ParallelCorpus("a", path, path), None, stride=stride, offset=offset)
        iterator.transform = type("Nothing", (), {"stats": lambda self: ""})()
        seen |= {example["cid_line_number"]: example["src"][0] for example, _, _ in iterator}
        iterator.skip = 3
        later = [example["cid_line_number"] for example, _, _ in iterator]
        assert later == [line_number(index, stride, offset) for index in range(3, 3 + len(later))]
    assert seen == {number: f"w{number}" for number in range(lines)}


def test_random_numbers_inside_depend_on_the_number_only_and_outside_are_untouched() -> None:
    def draw() -> list[float]:
        return [random.random(), float(np.random.rand()), float(torch.rand(1))]

    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = draw()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    with random_numbers_from(5):
        first = draw()
    assert draw() == expected
    with random_numbers_from(5):
        assert draw() == first
    with random_numbers_from(6):
        assert draw() != first


def test_a_number_depends_on_every_fact() -> None:
    assert len({number_from(seed, part, bucket) for seed in (1, 2) for part in (0, 1) for bucket in range(50)}) == 200


def test_places_remember_each_part_and_whose_turn_it_is() -> None:
    places = Places(3)
    for place in (Place(0, {"bucket": 0}, 1), Place(1, {"bucket": 0}, 1), Place(2, {"bucket": 0}, 1)):
        places.note(place)
    places.note(Place(0, {"bucket": 1}, 1))
    again = Places(3)
    again.load(places.state())
    assert again.state() == {"next": 1, "parts": [({"bucket": 1}, 1), ({"bucket": 0}, 1), ({"bucket": 0}, 1)]}
