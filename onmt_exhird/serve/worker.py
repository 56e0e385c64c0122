"""The one thread that owns the model. Requests wait in a bounded queue, and join those that are under way."""

from __future__ import annotations

import logging
import math
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from onmt_exhird.errors import ExhirdError
from onmt_exhird.serve.body import Document
from onmt_exhird.serve.flight import Flight, Job
from onmt_exhird.serve.limits import Limits
from onmt_exhird.serve.metrics import Metrics
from onmt_exhird.serve.problems import ClientGone, Problem

if TYPE_CHECKING:  # it imports torch, which takes longer than listening
    from onmt_exhird.generator.results import Keyphrases

logger = logging.getLogger(__name__)


class Generator(Protocol):
    """As much of KeyphraseGenerator as the service needs."""

    name: str
    card: str

    @property
    def config(self) -> Mapping[str, Any]: ...

    def generate_as_finished(
        self, arrivals: Iterable[Sequence[Document]], **options: Any
    ) -> Iterator[tuple[int, Keyphrases]]: ...


class Worker:
    """Loads the model in a thread of its own, then generates until it is stopped and nothing waits.

    load        gives the model; if it raises, `failure` holds what
    on_change   called, from that thread, when the model is loaded or could not be
    """

    def __init__(self, load: Callable[[], Generator], limits: Limits, metrics: Metrics, on_change: Callable[[], None]):
        self._load, self._on_change = load, on_change
        self.limits, self.metrics = limits, metrics
        self.generator: Generator | None = None
        self.failure: BaseException | None = None
        self._changed = threading.Condition()
        self._queue: deque[Job] = deque()
        self._under_way: list[Job] = []
        self._stopping = False
        self._seconds_per_document = 0.05  # a guess until the first batch
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def ready(self) -> bool:
        """Whether the model is loaded and the worker takes work."""
        return self.generator is not None and not self._stopping

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def idle(self) -> bool:
        with self._changed:
            return not self._queue and not self._under_way

    @property
    def waiting(self) -> int:
        """Documents in the queue."""
        with self._changed:
            return self._count_waiting()

    def generate(
        self, documents: Sequence[Document], options: Mapping[str, Any], gone: Callable[[], bool]
    ) -> list[Keyphrases]:
        """Wait for the model's results. `gone` tells whether the client still wants them.

        Raises Problem: 429 if the queue is full, 503 if the model is not loaded or stops, 422 if it refuses.
        """
        job = Job(documents, options, gone)
        with self._changed:
            self._check_open(len(documents))
            self._queue.append(job)
            self._changed.notify()
        return job.answer.result()

    def stop(self) -> None:
        """Take no more; what was taken is done."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def abandon(self) -> None:
        """Give up what was taken: those who wait are told."""
        with self._changed:
            jobs = [*self._under_way, *self._queue]
            self._queue.clear()
        for job in jobs:
            job.fail(Problem(503, "The server was stopped before it came to this request; send it again later."))

    def _check_open(self, documents: int) -> None:
        if self._stopping:
            raise Problem(503, "The server is stopping; send the request again later.", retry_after=5)
        if self.generator is None:
            raise Problem(503, "The model is still being loaded; try again in a moment.", retry_after=2)
        if self._is_full(documents):
            self._drop_gone()
        if self._is_full(documents):
            waiting = self._count_waiting()
            seconds = max(1, math.ceil(waiting * self._seconds_per_document))
            raise Problem(429, f"{waiting} documents are waiting already; try again in {seconds} s.", seconds)

    def _is_full(self, documents: int) -> bool:
        """Whether so many more documents, of one request, are too many."""
        requests = len(self._queue) + len(self._under_way)
        return requests >= self.limits.requests or self._count_waiting() + documents > self.limits.waiting

    def _count_waiting(self) -> int:
        return sum(len(job.documents) for job in self._queue)

    def _drop_gone(self) -> None:
        gone = [job for job in self._queue if job.gone()]
        for job in gone:
            self._queue.remove(job)
            job.fail(ClientGone())
        if gone:
            self.metrics.count_abandoned(sum(len(job.documents) for job in gone))

    def _run(self) -> None:
        try:
            self.generator = self._load()
        except BaseException as error:
            self.failure = error
        self._on_change()
        while self.generator is not None and (options := self._wait()) is not None:
            self._answer(options)

    def _wait(self) -> Mapping[str, Any] | None:
        """The options of the request that came first; None if there will be none."""
        with self._changed:
            while True:
                self._drop_gone()
                if self._queue:
                    return self._queue[0].options
                if self._stopping:
                    return None
                self._changed.wait()

    def _take(self, options: Mapping[str, Any], overtaking: bool) -> Job | None:
        """The next request with these options, before those with others only if it may overtake them."""
        with self._changed:
            self._drop_gone()
            for job in self._queue:
                if job.options == options:
                    self._queue.remove(job)
                    self._under_way.append(job)
                    return job
                if not overtaking:
                    break
            return None

    def _answer(self, options: Mapping[str, Any]) -> None:
        """Answer requests with these options, and those that come meanwhile, until none is left or others wait."""
        try:
            self._generate(options, lambda first: self._take(options, overtaking=first))
        except ClientGone as error:
            for job in self._under_way:
                job.fail(error)
        except Exception:
            for job in list(self._under_way):  # one request's trouble is not its neighbours'
                self._answer_alone(job)
        with self._changed:
            self._under_way = []

    def _answer_alone(self, job: Job) -> None:
        job.found.clear()
        itself = iter([job])
        try:
            self._generate(job.options, lambda _: next(itself, None))
        except ClientGone as error:
            job.fail(error)
        except Exception as error:
            job.fail(_tell(error))

    def _generate(self, options: Mapping[str, Any], more: Callable[[bool], Job | None]) -> None:
        """Give each request its answer as soon as it is there."""
        assert self.generator is not None
        at_once = max(1, self.limits.batch // options.get("beam_size", 1))  # a beam is so many documents' work
        flight, since = Flight(at_once, more), time.perf_counter()
        for number, keyphrases in self.generator.generate_as_finished(flight.arrivals(), **options):
            flight.land(number, keyphrases)
            now = time.perf_counter()
            self._count_document(now - since)
            since = now
            with self._changed:
                self._under_way = [other for other in self._under_way if not other.answer.done()]
            flight.check()

    def _count_document(self, seconds: float) -> None:
        """Seconds since the one before."""
        self.metrics.count_document(seconds)
        self._seconds_per_document += 0.02 * (seconds - self._seconds_per_document)


def _tell(error: Exception) -> Problem:
    """A user's mistake in its own words. Anything else without them, for they may hold a document."""
    if isinstance(error, ExhirdError):
        said = str(error)
        return Problem(422, f"{said[:1].upper()}{said[1:].rstrip('.')}.")
    log_without_message(logger, error)
    return Problem(500, "The model failed on this request; the server's log says where.")


def log_without_message(to: logging.Logger, error: BaseException) -> None:
    """Where an error came from. Its message stays out of the log, since it may hold the text of a document."""
    places = "".join(traceback.format_list(traceback.extract_tb(error.__traceback__)))
    to.error("%s (its message is left out, it may hold a text)\n%s", type(error).__name__, places.rstrip())
