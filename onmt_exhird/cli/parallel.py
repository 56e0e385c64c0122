"""Work on a long stream of items by several processes, its results in order."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from onmt_exhird.errors import ExhirdError

IN_FLIGHT = 4  # items per process that may be under way, which bounds the memory

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Items in lists, since a process should get more than one at once: handing over costs, too."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


_setup: Any = None  # of a worker


def _start_worker(setup: Any) -> None:
    global _setup
    _setup = setup


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Ctrl-C waits until the block is done, and for ever in a process that is started in it.

    It is for the parent, which ends its workers: one that died of it while holding a queue would hang them all.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _work(function: Callable[[Any, Any], Any], item: Any) -> Any:
    return function(_setup, item)


def ordered_map(
    function: Callable[[Any, Any], Result], setup: Any, items: Iterable[Any], jobs: int
) -> Iterator[Result]:
    """``function(setup, item)`` of every item, in order, by several processes, with few items in memory at a time.

    Unlike `multiprocessing.Pool.imap`, which reads all its input ahead. ``setup`` goes to each process only once.
    """
    if jobs == 1:
        yield from (function(setup, item) for item in items)
        return
    from concurrent.futures import Future, ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    waiting: deque[Future[Result]] = deque()
    pool = ProcessPoolExecutor(jobs, initializer=_start_worker, initargs=(setup,))
    try:
        for item in items:
            with _interrupted_later():
                waiting.append(pool.submit(_work, function, item))
            if len(waiting) >= jobs * IN_FLIGHT:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise ExhirdError("a worker process was killed, perhaps for want of memory; try fewer --jobs") from error
    finally:
        pool.shutdown(cancel_futures=True)  # if this is the end before the end, what waits is not worth doing
