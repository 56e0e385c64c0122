"""Shards: documents that are answered together and written as one file."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onmt_exhird.documents.formats import JSONL, PARQUET
from onmt_exhird.documents.items import Document, Item
from onmt_exhird.documents.json_records import to_json
from onmt_exhird.errors import ExhirdError

if TYPE_CHECKING:
    from onmt_exhird.generator.results import Keyphrases

FORMATS = (JSONL, "jsonl.gz", PARQUET)
LETTERS = 1 << 25  # of a shard's documents, at most, but for the last of them; so long ones fit into memory
PART = ".part"  # the end of the name of a shard that is being written


class Asked(NamedTuple):
    """What was read, and the id of its answer."""

    item: Item
    id: Any


@dataclass(frozen=True)
class Shard:
    """Documents with a number in the whole, from 0 on."""

    number: int
    asked: Sequence[Asked]

    @property
    def documents(self) -> list[Document]:
        """Those that can be answered, in order."""
        return [one.item.document for one in self.asked if one.item.document is not None]


def cut(items: Iterable[Item], size: int) -> Iterator[Shard]:
    """Shards of so many records, fewer if they are long; what has no id gets its number in the whole.

    >>> [[one.id for one in shard.asked] for shard in cut([Item("", "a"), Item("", "b", "x"), Item("", "c")], 2)]
    [[1, 'x'], [3]]
    """
    number = letters = 0
    asked: list[Asked] = []
    for count, item in enumerate((item for item in items if item.is_record), start=1):
        asked.append(Asked(item, count if item.id is None else item.id))
        letters += sum(map(len, item.document or ""))
        if len(asked) >= size or letters >= LETTERS:
            yield Shard(number, asked)
            number, letters, asked = number + 1, 0, []
    if asked:
        yield Shard(number, asked)


@dataclass(frozen=True)
class Written:
    """What is known of a shard that is there.

    failed   how many of its documents have an error instead of keyphrases
    """

    number: int
    name: str
    documents: int
    failed: int
    bytes: int
    sha256: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Writer:
    """Writes shards into a folder: each appears as a whole.

    render   the record of an answer, as plain data; of None, with the item's fault
    """

    folder: Path
    format: str
    render: Callable[[Item, Any, Keyphrases | None], dict[str, Any]]

    def __call__(self, shard: Shard, results: Sequence[Keyphrases | str]) -> Written:
        """Write the answers of a shard; ``results`` are those of its `documents`."""
        rows, failed = [], 0
        found = iter(results)
        for item, identity in shard.asked:
            result = next(found) if item.document is not None else None
            if isinstance(result, str):
                item, result = replace(item, fault=result), None
            failed += result is None
            rows.append(self.render(item, identity, result))
        name = f"shard-{shard.number:06}.{self.format}"
        data = self._encode(rows)
        try:
            write_whole(self.folder / name, data)
        except OSError as error:
            raise ExhirdError(
                f"{self.folder / name}: cannot be written: {error.strerror or error}; what is done is kept: make "
                "room and give the same command again"
            ) from error
        return Written(shard.number, name, len(rows), failed, len(data), hashlib.sha256(data).hexdigest())

    def _encode(self, rows: list[dict[str, Any]]) -> bytes:
        if self.format == PARQUET:
            from onmt_exhird.bulk.parquet import encode

            return encode(rows)
        lines = b"".join(map(to_json, rows))
        if self.format == JSONL:
            return lines
        packed = io.BytesIO()
        with gzip.GzipFile("", "wb", fileobj=packed, mtime=0) as file:
            file.write(lines)
        return packed.getvalue()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is there as a whole or not at all, whatever ends this process or the machine."""
    part = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
