"""A run: all shards that are missing, by workers of this machine or by an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from onmt_exhird.bulk.answering import Loader
from onmt_exhird.bulk.folder import Folder
from onmt_exhird.bulk.progress import Progress
from onmt_exhird.bulk.shards import Shard, Writer, Written, cut
from onmt_exhird.bulk.workers import Pool, can_share
from onmt_exhird.documents.items import Item


class Engine(Protocol):
    """Who does the work: it has all shards done and written, and says what was."""

    def __call__(self, shards: Iterator[Shard], writer: Writer, progress: Progress) -> Iterable[Written]: ...


class Local:
    """Worker processes on this machine."""

    def __init__(self, loader: Loader, jobs: int) -> None:
        self.loader, self.jobs = loader, jobs

    def __call__(self, shards: Iterator[Shard], writer: Writer, progress: Progress) -> Iterator[Written]:
        share = can_share(self.loader.device)
        with Pool(self.loader, writer, self.jobs, share, progress.say, progress.watch) as pool:
            yield from pool.run(shards)


def fill(
    folder: Folder,
    items: Callable[[], Iterable[Item]],
    size: int,
    writer: Writer,
    start: Callable[[], Engine],
) -> int:
    """Write what is missing in a folder that is open; how many documents of the whole have failed.

    items   reads the documents from the first on; twice if the folder does not say how many there are
    size    documents of a shard
    start   gives the engine, if there is something to do
    """
    if folder.documents is None:
        folder.begin(sum(item.is_record for item in items()))
    assert folder.documents is not None
    done = sum(one.documents for one in folder.written.values())
    if done < folder.documents:
        engine = start()
        progress = Progress(folder.documents, done)
        missing = (shard for shard in cut(items(), size) if shard.number not in folder.written)
        for written in engine(missing, writer, progress):
            folder.add(written)
            progress.done += written.documents
        progress.end()
    if not folder.finished:
        folder.finish()
    return folder.failed
