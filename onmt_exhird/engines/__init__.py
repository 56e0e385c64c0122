"""Engines that spread documents over many machines: Ray Data, Spark. Thin: the work is `onmt_exhird.bulk`'s.

Rows go to an engine's workers and come back in any order; shards are written here, by the process that reads the
documents, so that a run can go on whatever the engine has lost.
"""

from __future__ import annotations

import logging
import socket
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from onmt_exhird.bulk.answering import Load
from onmt_exhird.bulk.progress import Progress
from onmt_exhird.bulk.shards import Asked, Shard, Writer, Written
from onmt_exhird.bulk.workers import Pool
from onmt_exhird.documents.items import Names
from onmt_exhird.documents.json_records import item_of_record
from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.results import Keyphrase, Keyphrases

BATCH = 512  # rows that a worker answers at once
PER_JOB = 10_000  # rows for each worker that are given to an engine at a time
FOUND = ("keyphrases", "truncated", "error")  # the columns of what was found


class Answerer:
    """Answers rows in a process of its own: a document that kills it kills neither the engine's worker nor the job."""

    def __init__(self, load: Load) -> None:
        self._pool = Pool(load, _to_rows, 1, share=False, say=logging.getLogger(__name__).warning)

    def __call__(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What was found for each row, under the names of `FOUND`: its keyphrases as plain data, or an error."""
        items = (item_of_record(f"row {number}", dict(row), Names()) for number, row in enumerate(rows, start=1))
        [found] = self._pool.run([Shard(0, [Asked(item, None) for item in items])])
        return found


def _to_rows(shard: Shard, results: Sequence[Keyphrases | str]) -> list[dict[str, Any]]:
    found = iter(results)
    rows: list[dict[str, Any]] = []
    for item, _ in shard.asked:
        result = next(found) if item.document is not None else item.fault
        plain = {"error": result} if isinstance(result, str) else result.to_dict()
        rows.append({name: plain.get(name) for name in FOUND})
    return rows


def _read_row(row: Mapping[str, Any]) -> Keyphrases | str:
    """The inverse, but for the document."""
    if row["error"] is not None:
        return str(row["error"])
    phrases = (phrase | {"spans": tuple(map(tuple, phrase["spans"]))} for phrase in row["keyphrases"])
    return Keyphrases(tuple(Keyphrase(**phrase) for phrase in phrases), "", row["truncated"])


class Cluster(ABC):
    """An engine that does the work of a run; a shard is written when the last of its rows has come."""

    jobs: int  # workers

    @abstractmethod
    def answer(self, rows: list[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Rows with ``shard``, ``row``, ``title`` and ``text``, and then those of `FOUND`, in any order."""

    def __call__(self, shards: Iterator[Shard], writer: Writer, progress: Progress) -> Iterator[Written]:
        for group in self._groups(shards):
            rows = [row for shard in group for row in _rows_of(shard)]
            left = Counter(row["shard"] for row in rows)
            found: dict[tuple[int, int], Keyphrases | str] = {}
            by_number = {shard.number: shard for shard in group}
            yield from (writer(shard, []) for shard in group if not left[shard.number])
            for row in self.answer(rows) if rows else ():
                number, place = row["shard"], row["row"]
                if (number, place) in found or not left[number]:
                    raise ExhirdError(f"row {place} of shard {number} came back twice; give the same command again")
                found[number, place] = _read_row(row)
                left[number] -= 1
                if not left[number]:
                    results = [found.pop((number, one)) for one in range(len(by_number[number].documents))]
                    yield writer(by_number[number], results)
                    progress.watch(0)
            if left.total():
                raise ExhirdError(f"{left.total():,} rows did not come back; give the same command again")

    def _groups(self, shards: Iterator[Shard]) -> Iterator[list[Shard]]:
        """Shards that are given to the engine at a time: enough for all workers, and few enough for memory."""
        group: list[Shard] = []
        for shard in shards:
            group.append(shard)
            if sum(len(one.asked) for one in group) >= PER_JOB * self.jobs:
                yield group
                group = []
        if group:
            yield group


def _rows_of(shard: Shard) -> Iterator[dict[str, Any]]:
    for number, document in enumerate(shard.documents):
        title, text = ("", document) if isinstance(document, str) else document
        yield {"shard": shard.number, "row": number, "title": title, "text": text}


def check_address(address: str) -> None:
    """Raise an `ExhirdError` unless somebody listens at an address, or at the first of several."""
    host, _, port = address.rpartition("//")[2].partition(",")[0].rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError) as error:
        raise ExhirdError(f"nobody answers at '{address}': {error}; is the address right, and does it run?") from None
