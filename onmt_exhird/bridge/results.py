"""Results that nobody will ask for are not kept."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

from onmt_exhird.bridge.batches import Batch
from onmt_exhird.bridge.seams import Upstream


class Bucket:
    """The batches of one bucket, in the form in which upstream's translator takes the batches of all."""

    bucket_size = sys.maxsize  # upstream ends a bucket by counting; here it is at its end when no batch is left

    def __init__(self, batches: Iterable[tuple[Batch, int]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[tuple[Batch, int]]:
        return ((batch, 0) for batch, _ in self.batches)


def buckets(batches: Iterable[tuple[Batch, int]]) -> Iterator[Bucket]:
    """Batches with the number of their bucket, bucket by bucket; each has to be read before the next.

    >>> [list(bucket) for bucket in buckets([({"a": 1}, 0), ({"b": 2}, 0), ({"c": 3}, 1)])]
    [[({'a': 1}, 0), ({'b': 2}, 0)], [({'c': 3}, 0)]]
    """
    for _, group in groupby(batches, key=itemgetter(1)):
        yield Bucket(group)


def forget_what_is_written(module: Upstream) -> None:
    """Upstream's command keeps all predictions and scores until its end, and then drops them."""
    translate = module.translate

    def translate_and_forget(opt: Namespace) -> None:
        opt.forget_results = True
        translate(opt)

    module.translate = translate_and_forget
