"""Processes that work on shards. One that is killed is replaced, and its shard is done again.

A document that kills those who work on it would stop everything. So it is remembered which documents were under way
when a worker died. Those that were so twice are answered one by one the next time; the one with which a worker dies
then is set aside with an error. Who is killed by others, for want of memory say, loses nothing by that.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, NamedTuple

from onmt_exhird.bulk.answering import Generate, Load, Marks, answer
from onmt_exhird.bulk.shards import Shard
from onmt_exhird.errors import ExhirdError

if TYPE_CHECKING:
    from onmt_exhird.generator.results import Keyphrases

DEATHS = 2  # of workers, after which a document that was under way each time is answered alone
IDLE_DEATHS = 3  # of workers on a shard while no document was under way: then it is not a document's fault
LOOK = 0.5  # seconds between two looks at what was done, and at whether the parent lives

Deliver = Callable[[Shard, "Sequence[Keyphrases | str]"], Any]


def can_share(device: str) -> bool:
    """Whether a process may be forked after the model was loaded, so that all have the same memory for it."""
    return sys.platform == "linux" and device == "cpu"


@dataclass
class Task:
    """A shard, and what happened to those who worked on it.

    killed   how often each document was under way when a worker died
    aside    the documents that are not tried again, and why
    idle     how many workers died while none was under way
    """

    shard: Shard
    killed: Counter[int] = field(default_factory=Counter)
    aside: dict[int, str] = field(default_factory=dict)
    idle: int = 0

    def plan(self) -> Plan:
        """What is to be done now, after what happened."""
        positions = [place for place in range(len(self.shard.documents)) if place not in self.aside]
        alone = [number for number, place in enumerate(positions) if self.killed[place] >= DEATHS]
        return Plan(self.shard, positions, alone, self.aside)

    def note_death(self, marks: Marks, how: str) -> None:
        """Remember which documents were under way when a worker died; ``how`` it died is told in an error record."""
        plan = self.plan()
        together = [number for number in range(len(plan.positions)) if number not in set(plan.alone)]
        asked = plan.alone if marks.alone else together
        dying = [plan.positions[asked[number]] for number in marks.under_way if number < len(asked)]
        if not dying:
            self.idle += 1
        elif marks.alone:
            self.aside[dying[0]] = f"set aside, since the process that worked on it died {DEATHS + 1} times ({how})"
        else:
            self.killed.update(dying)


class Plan(NamedTuple):
    """What a worker is told.

    positions   of the documents of the shard that are answered
    alone       numbers in ``positions``, of those that are answered one by one
    aside       why the other documents are not
    """

    shard: Shard
    positions: list[int]
    alone: list[int]
    aside: dict[int, str]

    def work(self, generate: Generate, marks: Marks) -> list[Keyphrases | str]:
        """The results of all documents of the shard."""
        documents = self.shard.documents
        found = answer(generate, [documents[place] for place in self.positions], marks, self.alone)
        results = dict(zip(self.positions, found, strict=True)) | self.aside
        return [results[place] for place in range(len(documents))]


class Worker:
    """A process and what it works on."""

    def __init__(self, context: Any, load: Load, deliver: Deliver) -> None:
        self.marks = Marks(context.RawArray("q", 3))
        self.connection, theirs = context.Pipe()
        arguments = (load, deliver, theirs, self.marks.memory, os.getpid())
        self.process = context.Process(target=_work, args=arguments, daemon=True)
        self.process.start()
        theirs.close()  # so that its end is heard of
        self.task: Task | None = None

    def give(self, task: Task) -> None:
        self.task = task
        self.marks.set(0, 0, alone=False)
        try:
            self.connection.send(task.plan())
        except OSError:  # it has died; that is found when its answer is asked for
            return

    @property
    def answered(self) -> int:
        """How many documents of its shard it has answered so far; those that are answered alone come first."""
        if self.task is None:
            return 0
        return self.marks.under_way.start + (0 if self.marks.alone else len(self.task.plan().alone))

    def take(self) -> Any:
        """Its answer; raises EOFError if it died instead."""
        try:
            return self.connection.recv()
        except OSError as error:
            raise EOFError from error

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _work(load: Load, deliver: Deliver, connection: Connection, memory: Any, parent: int) -> None:
    """What a worker does: it takes shards until there are no more, or nobody to give them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the parent, who ends us
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    marks = Marks(memory)
    try:
        generate = load()
        while True:
            plan = connection.recv()
            results = plan.work(generate, marks)
            marks.set(marks.under_way.stop, marks.under_way.stop, alone=False)
            connection.send(deliver(plan.shard, results))
    except EOFError:
        return
    except Exception as error:
        connection.send(error)


def _end_with(parent: int) -> None:
    """End this process if its parent has: what it does would be done twice."""
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)


class Pool:
    """Workers that stay until they are ended, for one run after the other.

    load      gives a process the model's `generate`
    deliver   what a worker does with the results of a shard; what it returns is given back
    share     whether the model is loaded here, once, and workers are forked; else each loads it
    say       is told what people should know
    watch     is told now and then how many documents of the shards under way are answered
    """

    def __init__(
        self,
        load: Load,
        deliver: Deliver,
        jobs: int,
        share: bool,
        say: Callable[[str], object],
        watch: Callable[[int], object] = lambda count: None,
    ) -> None:
        self.deliver, self.jobs, self.say, self.watch = deliver, jobs, say, watch
        self._context: Any = multiprocessing.get_context("fork" if share else "spawn")
        self._load, self._share = load, share
        self._workers: list[Worker] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers = []

    def run(self, shards: Iterable[Shard]) -> Iterator[Any]:
        """Have all shards done; what was delivered, as it comes."""
        coming = map(Task, shards)
        again: deque[Task] = deque()
        while True:
            while sum(worker.task is not None for worker in self._workers) < self.jobs:
                task = again.popleft() if again else next(coming, None)
                if task is None:
                    break
                self._idle_worker().give(task)
            busy = [(worker, worker.task) for worker in self._workers if worker.task is not None]
            if not busy:
                return
            ready = wait([one for worker, _ in busy for one in (worker.connection, worker.process.sentinel)], LOOK)
            for worker, task in busy:
                if worker.connection in ready or worker.process.sentinel in ready:
                    worker.task = None
                    try:
                        reply = worker.take()
                    except EOFError:
                        again.append(self._bury(worker, task))
                        continue
                    if isinstance(reply, Exception):
                        raise reply
                    yield reply
            self.watch(sum(worker.answered for worker, _ in busy))

    def _idle_worker(self) -> Worker:
        for worker in self._workers:
            if worker.task is None:
                return worker
        if self._share:
            generate = self._load()
            gc.collect()
            gc.freeze()  # what the collector never visits, it never writes to: the memory stays shared
            self._load, self._share = (lambda: generate), False
        self._workers.append(Worker(self._context, self._load, self.deliver))
        return self._workers[-1]

    def _bury(self, worker: Worker, task: Task) -> Task:
        """Note what a dead worker died of; its task is to be done again."""
        self._workers.remove(worker)
        worker.end()
        how = _describe_end(worker.process.exitcode)
        before = len(task.aside)
        task.note_death(worker.marks, how)
        if task.idle >= IDLE_DEATHS:
            raise ExhirdError(
                f"{IDLE_DEATHS} worker processes died ({how}) before they began with shard {task.shard.number}; there "
                "may be too little memory: try fewer --jobs"
            )
        what = "a document of it is set aside" if len(task.aside) > before else "it is done again"
        self.say(f"a worker process died ({how}) on shard {task.shard.number}; {what}")
        return task


def _describe_end(code: int) -> str:
    """How a process ended, in words.

    >>> _describe_end(-9), _describe_end(1)
    ('signal 9, SIGKILL', 'exit code 1')
    """
    return f"exit code {code}" if code >= 0 else f"signal {-code}, {signal.Signals(-code).name}"
