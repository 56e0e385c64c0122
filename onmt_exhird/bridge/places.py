"""Training data in an order that a resumed training can find again.

What a process reads is a pure function of the seed, of its part of the corpora and of the bucket: each bucket begins
at a known place of each corpus, with random numbers of its own. A batch says to which bucket it belongs and as which of
its batches, so a checkpoint knows how far the trainer has come, whatever the reading processes have prepared ahead.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from multiprocessing.util import Finalize
from typing import Any, NamedTuple

import numpy as np
import torch

from onmt_exhird.bridge.data_checks import begins_with_a_stream
from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.bridge.usage import uses_the_plug_in
from onmt_exhird.errors import ExhirdError

Start = dict[str, Any]  # where a bucket begins: its number and size, and the place in each corpus


class Place(NamedTuple):
    """Of a batch: the part of the data that it was read from, where its bucket began, which batch of it it is."""

    part: int
    start: Start
    number: int


class Places:
    """How far a trainer has come in each part of its data; there is one for each reading process, or one.

    >>> places = Places(parts=2)
    >>> places.note(Place(0, {"bucket": 0}, 1))
    >>> places.state()
    {'next': 1, 'parts': [({'bucket': 0}, 1), None]}
    """

    def __init__(self, parts: int) -> None:
        self.parts: list[tuple[Start, int] | None] = [None] * parts
        self.next = 0

    def note(self, place: Place) -> None:
        self.parts[place.part] = (place.start, place.number)
        self.next = (place.part + 1) % len(self.parts)  # they take turns

    def state(self) -> dict[str, Any]:
        return {"next": self.next, "parts": list(self.parts)}

    def load(self, state: dict[str, Any]) -> None:
        self.next, self.parts = state["next"], list(state["parts"])


def number_from(*facts: object) -> int:
    """A number that depends on all facts and on nothing else, to start random numbers from."""
    return int.from_bytes(hashlib.blake2b(repr(facts).encode(), digest_size=4).digest(), "big")


@contextmanager
def random_numbers_from(number: int) -> Iterator[None]:
    """Inside, whatever draws random numbers draws the same for the same number; outside nothing has been drawn."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    random.seed(number)
    np.random.seed(number)
    torch.default_generator.manual_seed(number)  # torch.manual_seed would also start those of a GPU anew
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


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


def live_and_die_with_the_trainer() -> None:
    """Of a reading process: Ctrl-C and the end of a service reach all of a group, but it ends when the trainer does.

    Also when that is killed: it would wait for ever for somebody to read what it has prepared.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    trainer = multiprocessing.parent_process()  # as it was when this one was started, which takes seconds

    def watch() -> None:
        while trainer is not None and os.getppid() == trainer.pid:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def let_readers_end() -> None:
    """From here on it is no accident when one ends; torch would say so at any moment."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def end_readers_at_exit() -> None:
    """Python asks reading processes to end by a SIGTERM, and then waits for them."""

    def kill() -> None:
        let_readers_end()
        for child in multiprocessing.active_children():
            child.kill()

    Finalize(None, kill, exitpriority=1)


def writes_keyphrases(opt: Any) -> bool:
    """Whether a training is one of the plug-in's, or of streams: others read their data as upstream does."""
    targets = [corpus.get("path_tgt") for corpus in opt.data.values()]
    return uses_the_plug_in(vars(opt)) or any(map(begins_with_a_stream, filter(None, targets)))


def training_data_that_goes_on(dynamic_iterator: Upstream) -> None:
    """Upstream's training data begin at the first line after a resume, in an order that depends on all before."""
    from onmt.constants import CorpusTask

    data = dynamic_iterator.DynamicDatasetIter
    from_opt, init_datasets, iterate, read_bucket = (
        data.from_opt.__func__,
        data._init_datasets,
        data.__iter__,
        data._read_bucket,
    )

    def from_opt_with_seed(
        cls: Any, corpora: Any, transforms: Any, vocabs: Any, opt: Any, *args: Any, **kwargs: Any
    ) -> Any:
        iterator = from_opt(cls, corpora, transforms, vocabs, opt, *args, **kwargs)
        iterator.seed = opt.seed
        iterator.plain = iterator.task == CorpusTask.TRAIN and not writes_keyphrases(opt)
        return iterator

    def _init_datasets(self: Any, worker: int) -> None:  # under upstream's name: reading processes ask for it
        """Called in each reading process; after a resume the one whose turn it is is the first."""
        if torch.utils.data.get_worker_info() is not None:
            live_and_die_with_the_trainer()
        self.part = worker
        if self.went_before:
            self.part = (worker + self.went_before["next"]) % len(self.went_before["parts"])
        init_datasets(self, self.part)

    def go_on_from(self: Any, state: dict[str, Any]) -> None:
        self.went_before = state
        if self.num_workers == 0:
            self._init_datasets(0)

    def read_with_own_random_numbers(self: Any, documents: Iterator[Any], size: int) -> tuple[list[Any], int]:
        if self.task != CorpusTask.TRAIN or self.plain:
            return read_bucket(self, documents, size)
        self.start = {"bucket": self.bucket_idx, "size": size, **self.mixer.place()}
        number = number_from(self.seed, self.part, self.bucket_idx)
        self.random_shuffler = dynamic_iterator.RandomShuffler(random.Random(number).getstate())
        with random_numbers_from(number):
            for transform in self.transforms.values():
                transform._set_seed(number)
            bucket, read = read_bucket(self, documents, size)
        if bucket:
            self.fruitful = dict(self.mixer.passes)
        elif read and all(self.mixer.passes[name] >= self.fruitful.get(name, 1) + 2 for name in self.mixer.turns):
            files = ", ".join(str(getattr(corpus, "src", name)) for name, corpus in self.corpora.items())
            raise ExhirdError(
                f"every document of {files} was dropped by the transforms {', '.join(self.transforms)}: "
                "there is nothing to train on"
            )
        return bucket, read

    def batches(self: Any) -> Iterator[tuple[Any, Any]]:
        if self.task != CorpusTask.TRAIN or self.plain:
            yield from iterate(self)
            return
        done = self.went_before["parts"][self.part] if self.went_before else None
        skipped = 0
        if done:
            start, skipped = done
            self.bucket_idx, self.first_size = start["bucket"], start["size"]
            self.mixer.go_to(start)
        for bucket, _ in self._bucketing():
            for number, examples in enumerate(shuffled_batches(self, bucket), start=1):
                if number > skipped:
                    yield tensors(self, examples), Place(self.part, self.start, number)
            skipped = 0

    def shuffled_batches(self: Any, bucket: list[Any]) -> Iterable[list[Any]]:
        by_length = sorted(self._add_indice(bucket), key=lambda pair: self.sort_key(pair[0]))
        cut = self.batch_iter(by_length, self.batch_size, self.batch_type, self.batch_size_multiple)
        return self.random_shuffler(list(cut))

    def tensors(self: Any, examples: list[Any]) -> Any:
        examples.sort(key=lambda pair: self.sort_key(pair[0]), reverse=True)  # recurrent encoders want it so
        return dynamic_iterator.tensorify(self.vocabs, examples, self.device, self.left_pad)

    data.went_before = None
    data.seed = 0  # of an iterator that was not made from options
    data.plain = False
    data.part = 0
    data.fruitful = {}
    data.from_opt = classmethod(from_opt_with_seed)
    data._init_datasets = _init_datasets
    data._read_bucket = read_with_own_random_numbers
    data.go_on_from = go_on_from
    data.__iter__ = batches
    dynamic_iterator.WeightedMixer = Mixer
