"""Requests on their way through the model, document by document."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onmt_exhird.serve.body import Document
from onmt_exhird.serve.problems import ClientGone

if TYPE_CHECKING:  # it imports torch, which takes longer than listening
    from onmt_exhird.generator.results import Keyphrases


@dataclass
class Job:
    """A request's documents, on their way through the queue.

    found   the keyphrases of those that are finished, by their places
    """

    documents: Sequence[Document]
    options: Mapping[str, Any]
    gone: Callable[[], bool]
    found: dict[int, Keyphrases] = field(default_factory=dict)
    answer: Future[list[Keyphrases]] = field(default_factory=Future)

    def put(self, place: int, keyphrases: Keyphrases) -> None:
        self.found[place] = keyphrases
        if len(self.found) == len(self.documents):
            with suppress(InvalidStateError):  # abandoned in the meantime
                self.answer.set_result([self.found[place] for place in range(len(self.documents))])

    def fail(self, error: BaseException) -> None:
        with suppress(InvalidStateError):  # answered already
            self.answer.set_exception(error)


class Flight:
    """The documents of requests with equal options that are under way; others join them.

    at_once   documents that may be
    more      gives the next request, or None; told whether it is the very first time
    """

    def __init__(self, at_once: int, more: Callable[[bool], Job | None]) -> None:
        self._at_once, self._more = at_once, more
        self._waiting: deque[tuple[Job, int]] = deque()
        self._flying: dict[int, tuple[Job, int]] = {}

    def arrivals(self) -> Iterator[list[Document]]:
        """The documents that have come, whenever the model asks; to the end of the last one that is under way."""
        count = 0
        while True:
            room = self._at_once - len(self._flying)
            while len(self._waiting) < room and (job := self._more(not count)) is not None:
                self._waiting.extend((job, place) for place in range(len(job.documents)))
            boarding = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
            if not boarding and not self._flying:
                return
            self._flying.update(enumerate(boarding, start=count))
            count += len(boarding)
            self.check()
            yield [job.documents[place] for job, place in boarding]

    def land(self, number: int, keyphrases: Keyphrases) -> None:
        """The document of this number, in the order of arrival, is finished."""
        job, place = self._flying.pop(number)
        job.put(place, keyphrases)

    def check(self) -> None:
        """Give up if nobody waits for anything any more."""
        jobs = [job for job, _ in (*self._flying.values(), *self._waiting)]
        if jobs and all(job.answer.done() or job.gone() for job in jobs):
            raise ClientGone
