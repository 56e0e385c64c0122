"""Training data in an order that a resumed training can find again.

What a process reads is a pure function of the seed, of its part of the corpora and of the bucket: each bucket begins
at a known place of each corpus, with random numbers of its own. A batch says to which bucket it belongs and as which of
its batches, so a checkpoint knows how far the trainer has come, whatever the reading processes have prepared ahead.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from onmt_exhird.bridge.corpora import Mixer
from onmt_exhird.bridge.data_checks import begins_with_a_stream
from onmt_exhird.bridge.random_numbers import number_from, random_numbers_from
from onmt_exhird.bridge.readers import live_and_die_with_the_trainer
from onmt_exhird.bridge.seams import Upstream, UpstreamClass, put_before
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


def writes_keyphrases(opt: Any) -> bool:
    """Whether a training is one of the plug-in's, or of streams: others read their data as upstream does."""
    targets = [corpus.get("path_tgt") for corpus in opt.data.values()]
    return uses_the_plug_in(vars(opt)) or any(map(begins_with_a_stream, filter(None, targets)))


class DataThatGoOn(UpstreamClass):
    """Upstream's iterator over batches; in training, from any place on, each with the `Place` it was read from.

    mixer         the `Mixer` of the corpora: upstream's name for it
    seed          of the training
    plain         whether a training's data are read as upstream does
    part          the part of the data that this process reads
    went_before   the state of `Places` to go on from, if there is one
    start         where the bucket that is being read began
    fruitful      how often each corpus had been begun when a bucket last had an example
    """

    mixer: Mixer
    seed = 0  # of an iterator that was not made from options
    plain = False
    part = 0
    went_before: dict[str, Any] | None = None
    start: Start
    fruitful: Mapping[str, int] = {}

    @classmethod
    def from_opt(cls, corpora: Any, transforms: Any, vocabs: Any, opt: Any, *args: Any, **kwargs: Any) -> DataThatGoOn:
        iterator = super().from_opt(corpora, transforms, vocabs, opt, *args, **kwargs)
        iterator.seed = opt.seed
        iterator.plain = iterator._trains() and not writes_keyphrases(opt)
        return iterator

    def _trains(self) -> bool:
        from onmt.constants import CorpusTask

        return self.task == CorpusTask.TRAIN

    def _init_datasets(self, worker: int) -> None:
        """Called in each reading process; after a resume the one whose turn it is is the first."""
        if torch.utils.data.get_worker_info() is not None:
            live_and_die_with_the_trainer()
        self.part = worker
        if self.went_before:
            self.part = (worker + self.went_before["next"]) % len(self.went_before["parts"])
        super()._init_datasets(self.part)

    def go_on_from(self, state: dict[str, Any]) -> None:
        self.went_before = state
        if self.num_workers == 0:  # else the reading processes, which start later, do it
            self._init_datasets(0)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        if self.plain or not self._trains():
            yield from super().__iter__()
            return
        skipped = self._go_to_where_it_stopped()
        for bucket, _ in self._bucketing():
            for number, examples in enumerate(self._shuffled_batches(bucket), start=1):
                if number > skipped:
                    yield self._tensors(examples), Place(self.part, self.start, number)
            skipped = 0

    def _go_to_where_it_stopped(self) -> int:
        """Make the bucket in which a training stopped the next; returns how many of its batches it has had."""
        done = self.went_before["parts"][self.part] if self.went_before else None
        if not done:
            return 0
        start, batches = done
        self.bucket_idx, self.first_size = start["bucket"], start["size"]
        self.mixer.go_to(start)
        return batches

    def _read_bucket(self, documents: Iterator[Any], size: int) -> tuple[list[Any], int]:
        """The examples of the next bucket, as many or fewer, and how many documents were read for them."""
        if self.plain or not self._trains():
            return super()._read_bucket(documents, size)
        self.start = {"bucket": self.bucket_idx, "size": size, **self.mixer.place()}
        with self._random_numbers_of_the_bucket():
            bucket, read = super()._read_bucket(documents, size)
        if bucket:
            self.fruitful = dict(self.mixer.passes)
        elif read:
            self._stop_if_none_is_left()
        return bucket, read

    @contextmanager
    def _random_numbers_of_the_bucket(self) -> Iterator[None]:
        """For its transforms, and for the order of its batches, which are shuffled later."""
        from onmt.inputters.dynamic_iterator import RandomShuffler

        number = number_from(self.seed, self.part, self.bucket_idx)
        self.random_shuffler = RandomShuffler(random.Random(number).getstate())
        with random_numbers_from(number):
            for transform in self.transforms.values():
                transform._set_seed(number)
            yield

    def _stop_if_none_is_left(self) -> None:
        """A bucket without an example may follow by chance; two whole passes without one do not."""
        if all(self.mixer.passes[name] >= self.fruitful.get(name, 1) + 2 for name in self.mixer.turns):
            files = ", ".join(str(getattr(corpus, "src", name)) for name, corpus in self.corpora.items())
            raise ExhirdError(
                f"every document of {files} was dropped by the transforms {', '.join(self.transforms)}: "
                "there is nothing to train on"
            )

    def _shuffled_batches(self, bucket: list[Any]) -> Iterable[list[Any]]:
        by_length = sorted(self._add_indice(bucket), key=lambda pair: self.sort_key(pair[0]))
        cut = self.batch_iter(by_length, self.batch_size, self.batch_type, self.batch_size_multiple)
        return self.random_shuffler(list(cut))

    def _tensors(self, examples: list[Any]) -> Any:
        from onmt.inputters.dynamic_iterator import tensorify

        examples.sort(key=lambda pair: self.sort_key(pair[0]), reverse=True)  # recurrent encoders want it so
        return tensorify(self.vocabs, examples, self.device, self.left_pad)


def training_data_that_goes_on(dynamic_iterator: Upstream) -> None:
    """Upstream's training data begin at the first line after a resume, in an order that depends on all before."""
    put_before(dynamic_iterator, "DynamicDatasetIter", DataThatGoOn)
    dynamic_iterator.WeightedMixer = Mixer
