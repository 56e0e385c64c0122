"""The folder that shards are written into: what it was made of, what is there, what is missing.

``manifest.json`` holds the inputs, the model and the options, and, once all is done, the list of shards. Until then
that list grows in ``shards.jsonl``, a line for each shard after it has its name.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from onmt_exhird.bulk.shards import PART, Written, write_whole
from onmt_exhird.documents.json_records import to_json
from onmt_exhird.errors import ExhirdError

MANIFEST, JOURNAL, LOCK = "manifest.json", "shards.jsonl", ".lock"
FORMAT = 1
_SHOWN = 8  # differences that are told


def digest(path: Path) -> dict[str, Any]:
    """What is known of an input file: its name, its size, and the checksum of its bytes."""
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            return {"name": path.name, "bytes": file.tell(), "sha256": sha256}
    except OSError as error:
        raise ExhirdError(f"{path}: cannot be read: {error.strerror or error}") from error


def differences(there: Any, asked: Any, name: str = "") -> Iterator[str]:
    """What differs between two plans, as people would say it.

    >>> list(differences({"options": {"window": 1, "top": None}}, {"options": {"window": "all", "top": None}}))
    ['options window: 1 there, "all" now']
    """
    if isinstance(there, list) and isinstance(asked, list):
        there, asked = dict(enumerate(there, start=1)), dict(enumerate(asked, start=1))
    if isinstance(there, Mapping) and isinstance(asked, Mapping):
        for key in [*there, *(key for key in asked if key not in there)]:
            yield from differences(there.get(key), asked.get(key), f"{name} {key}".strip())
    elif there != asked:
        yield f"{name}: {json.dumps(there)} there, {json.dumps(asked)} now"


class Folder:
    """A folder of shards of one plan.

    plan   what decides the content of the shards: plain data with ``inputs``, ``model``, ``options``
    """

    def __init__(self, path: Path, plan: Mapping[str, Any]) -> None:
        self.path, self.plan = path, plan
        self.written: dict[int, Written] = {}
        self.documents: int | None = None  # how many there are, once that was counted
        self.finished = False

    @contextmanager
    def opened(self) -> Iterator[Folder]:
        """The folder while no other process writes into it; refused if it holds something else."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with self._alone():
                self._read()
                for part in self.path.glob(f".*{PART}"):
                    part.unlink()
                yield self
        except OSError as error:
            raise ExhirdError(
                f"{self.path}: cannot be written into: {error.strerror or error}; choose another --output-dir"
            ) from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            import fcntl
        except ImportError:  # a system without such locks
            yield
            return
        with (self.path / LOCK).open("wb") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # this process's own: its workers do not have it
            except OSError:
                raise ExhirdError(f"{self.path}: another exhird generate writes into it; wait for its end") from None
            yield

    def _read(self) -> None:
        try:
            manifest = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            strange = sorted(
                one.name for one in self.path.iterdir() if one.name != LOCK and not one.name.endswith(PART)
            )
            if strange:
                raise ExhirdError(
                    f"{self.path}: has {strange[0]}, and no {MANIFEST}; choose an empty or a new folder"
                ) from None
            return
        except ValueError as error:
            raise ExhirdError(f"{self.path / MANIFEST}: no JSON: {error}; choose another folder") from error
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise ExhirdError(f"{self.path / MANIFEST}: not written by this version; choose another folder")
        asked = json.loads(json.dumps(self.plan))
        found = list(differences({key: manifest.get(key) for key in asked}, asked))
        if found:
            more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
            told = "; ".join([*found[:_SHOWN], *more])
            raise ExhirdError(f"{self.path} was made otherwise: {told}. Choose another folder, or remove this one")
        self.documents = manifest["documents"]
        self.finished = "shards" in manifest and not (self.path / JOURNAL).exists()
        for entry in [*manifest.get("shards", ()), *self._journal()]:
            one = Written(**entry)
            path = self.path / one.name
            if path.is_file() and path.stat().st_size == one.bytes:
                self.written[one.number] = one

    def _journal(self) -> Iterator[dict[str, Any]]:
        """The lines of the journal. One cut short by a full disk is removed, or the next would be written behind it."""
        with suppress(FileNotFoundError), (self.path / JOURNAL).open("rb+") as file:
            *lines, rest = file.read().split(b"\n")
            file.truncate(file.tell() - len(rest))
            yield from map(json.loads, lines)

    @property
    def failed(self) -> int:
        return sum(one.failed for one in self.written.values())

    def begin(self, documents: int) -> None:
        """Write down what is to be done, before anything is."""
        self.documents = documents
        self._write({})

    def add(self, one: Written) -> None:
        """Note a shard that is there."""
        self.written[one.number] = one
        self.finished = False
        with (self.path / JOURNAL).open("ab") as file:
            file.write(to_json(one.to_dict()))
            file.flush()
            os.fsync(file.fileno())

    def finish(self) -> None:
        """All is done: the list of shards goes into the manifest."""
        shards = [self.written[number].to_dict() for number in sorted(self.written)]
        self._write({"failed": self.failed, "shards": shards})
        (self.path / JOURNAL).unlink(missing_ok=True)
        self.finished = True

    def _write(self, rest: Mapping[str, Any]) -> None:
        manifest = {"format": FORMAT} | dict(self.plan) | {"documents": self.documents} | dict(rest)
        write_whole(self.path / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
