"""Corpora that are read from any place on, mixed by their weights."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from onmt_exhird.bridge.seams import Upstream


class Mixer:
    """Examples of several corpora in turn, each as often as its weight says, over and over, from any place on.

    read    how many examples of each corpus were taken in this pass
    passes  how often each corpus was begun
    turn    whose turn it is
    """

    def __init__(self, iterables: Mapping[str, Any], weights: Mapping[str, int]) -> None:
        self.iterables = iterables
        self.turns = [name for name, weight in weights.items() for _ in range(weight)]
        self.turn = 0
        self.read = dict.fromkeys(iterables, 0)
        self.passes = dict.fromkeys(iterables, 1)
        self._iterators: dict[str, Iterator[Any]] = {}

    def place(self) -> dict[str, Any]:
        return {"turn": self.turn, "read": dict(self.read), "passes": dict(self.passes)}

    def go_to(self, place: Mapping[str, Any]) -> None:
        self.turn, self.read, self.passes = place["turn"], dict(place["read"]), dict(place["passes"])
        self._iterators = {}

    def __iter__(self) -> Iterator[Any]:
        barren = 0  # turns in a row without an example: a reading process may have no part of a small corpus
        while barren < len(self.turns):
            name = self.turns[self.turn]
            self.turn = (self.turn + 1) % len(self.turns)
            example = self._next(name)
            barren = barren + 1 if example is None else 0
            if example is not None:
                yield example

    def _open(self, name: str) -> Iterator[Any]:
        iterable = self.iterables[name]
        iterable.skip = self.read[name]
        return iter(iterable)

    def _next(self, name: str) -> Any:
        """The next example of a corpus, from its beginning after its end; None if this process has no part of it."""
        if name not in self._iterators:
            self._iterators[name] = self._open(name)
        example = next(self._iterators[name], None)
        if example is None and self.read[name]:
            self.read[name] = 0
            self.passes[name] += 1
            self._log()
            self._iterators[name] = self._open(name)
            example = next(self._iterators[name], None)
        self.read[name] += example is not None
        return example

    def _log(self) -> None:
        from onmt.utils.logging import init_logger, logger

        if not logger.handlers:  # in a reading process
            init_logger()
        passes = "".join(f"\n\t\t\t* {name}: {count}" for name, count in self.passes.items())
        logger.info(f"Weighted corpora loaded so far:{passes}")


def line_number(index: int, stride: int, offset: int) -> int:
    """The line, from 0 on, of a process's example: each of so many processes in turn gets as many lines at a time.

    >>> [line_number(index, stride=2, offset=1) for index in range(5)]
    [2, 3, 6, 7, 10]
    """
    block, line = divmod(index, stride)
    return (block * stride + offset) * stride + line


def lines_that_can_be_skipped(dynamic_iterator: Upstream) -> None:
    """Upstream reads a corpus from its first line on only, and numbers lines wrongly where several processes read."""
    from onmt.inputters import text_corpus

    iterator = text_corpus.ParallelCorpusIterator
    process = iterator._process

    def examples(self: Any) -> Iterator[Any]:
        lines = self.corpus.load(stride=self.stride, offset=self.offset)
        deque(islice(lines, self.skip), maxlen=0)
        for index, example in enumerate(process(self, lines), start=self.skip):
            example[0]["cid_line_number"] = line_number(index, self.stride, self.offset)
            yield example

    iterator.skip = 0
    iterator.__iter__ = examples
