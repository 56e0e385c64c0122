"""What ``exhird generate`` reads: files and pipes, their documents in batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from onmt_exhird.errors import ExhirdError

if TYPE_CHECKING:
    from onmt_exhird.documents import FileLines, Item, Names, PipeLines

AHEAD = 16  # batches that are read ahead from a file; of a pipe, only what has arrived
LETTERS = 1 << 23  # of documents in memory, whatever their number


class Input(NamedTuple):
    """A file or a pipe, and what it holds."""

    lines: FileLines | PipeLines
    kind: str

    @property
    def again(self) -> bool:
        """Whether it can be read twice."""
        from onmt_exhird.documents import FileLines

        return isinstance(self.lines, FileLines)


@contextmanager
def find_inputs(files: Iterable[str], input_format: str | None, per_file: bool) -> Iterator[list[Input]]:
    """What is to be read; that it exists is certain then, and nothing more."""
    from onmt_exhird.documents import FileLines, PipeLines, kind_of
    from onmt_exhird.documents.folders import list_files

    if per_file and input_format:
        raise ExhirdError("--per-file takes files as they are; leave out --input-format")
    inputs = []
    opened = []
    for name in files:
        path = Path(name)
        if name == "-":
            if per_file:
                raise ExhirdError("--per-file reads files and folders; name them")
            inputs.append(Input(PipeLines(_standard_input(), "standard input"), input_format or "text"))
        elif not os.path.exists(path):
            raise ExhirdError(f"{path}: no such file")
        elif per_file:
            inputs += [Input(FileLines(one), "file") for one in list_files(path)]
        elif path.is_dir():
            raise ExhirdError(f"{path}: a folder; --per-file makes a document of each .txt in it")
        elif path.is_file():
            inputs.append(Input(FileLines(path), input_format or kind_of(path)))
        else:  # a named pipe or a device
            opened.append(_open_pipe(path))
            inputs.append(Input(PipeLines(opened[-1], name), input_format or kind_of(path)))
    try:
        yield inputs
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _standard_input() -> int:
    if sys.stdin is None:
        raise ExhirdError("the standard input is closed; name a FILE")
    if sys.stdin.isatty():
        print(
            "exhird generate: type a document a line, Enter answers it; Ctrl-D on an empty line ends", file=sys.stderr
        )
    return sys.stdin.fileno()


def _open_pipe(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        raise ExhirdError(f"{path}: cannot be read: {error.strerror or error}") from error


def in_batches(inputs: Iterable[Input], names: Names, size: int) -> Iterator[list[Item]]:
    """The items in lists: of a file, long ones; of a pipe, what has arrived, so that nobody waits for a neighbour."""
    from onmt_exhird.documents import read

    for one in inputs:
        batch: list[Item] = []
        letters = 0
        limit = size * AHEAD if one.again else size
        for item in read(*one, names):
            batch.append(item)
            letters += sum(map(len, item.document or ""))
            if len(batch) >= limit or letters >= LETTERS or not one.lines.ready:
                yield batch
                batch, letters = [], 0
        if batch:
            yield batch


def refuse(item: Item) -> None:
    if item.fault:
        raise ExhirdError(f"{item.place}: {item.fault}; mend it, or pass over what is bad with --keep-going")
