"""Lines of bytes from a file, plain or gzip, or from a pipe; and documents that are a line each."""

from __future__ import annotations

import codecs
import gzip
import os
from collections import deque
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from onmt_exhird.documents.items import Item
from onmt_exhird.errors import ExhirdError
from onmt_exhird.records import BROKEN_GZIP, MAX_RECORD, is_gzip

NEW_LINE = b"\n"
_CHUNK = 1 << 16


class Unreadable(Exception):
    """Why no more can be read from a file."""


class FileLines:
    """The lines of a file, with their ends; a long file is never in memory as a whole."""

    ready = True  # the next line need not be waited for

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)

    def open(self) -> gzip.GzipFile | BufferedReader:
        return gzip.GzipFile(self.path) if is_gzip(self.path) else self.path.open("rb")

    def read(self) -> bytes:
        """All of it."""
        with self.open() as file:
            _check_encoding(file.peek(2))
            return file.read()

    def __iter__(self) -> Iterator[bytes]:
        with self.open() as file:
            _check_encoding(file.peek(2))
            while line := file.readline(MAX_RECORD):
                _check_length(len(line))
                yield line


class PipeLines:
    """The lines of a pipe, a terminal or whatever else comes bit by bit.

    ``ready`` says whether the next line has already arrived, so that a reader can work on what is there instead of
    waiting for more.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self.descriptor = descriptor
        self.name = name
        self._arrived: deque[bytes] = deque()
        self._ended = False

    @property
    def ready(self) -> bool:
        return self._ended or bool(self._arrived)

    def read(self) -> bytes:
        """All of it."""
        return b"".join(self)

    def __iter__(self) -> Iterator[bytes]:
        begun: list[bytes] = []  # the pieces of a line whose end has not arrived
        size = 0
        is_first = True
        while chunk := os.read(self.descriptor, _CHUNK):
            if is_first:
                _check_encoding(chunk)
                is_first = False
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                self._arrived.append(b"".join([*begun, line, b"\n"]))
                begun, size = [], 0
            begun.append(rest)
            size += len(rest)
            while self._arrived:
                yield self._arrived.popleft()
            _check_length(size)
        self._ended = True
        if last := b"".join(begun):
            yield last


Lines = FileLines | PipeLines


def _check_length(length: int) -> None:
    if length >= MAX_RECORD:
        raise Unreadable(f"a line has more than {MAX_RECORD} bytes; put a line break behind each document")


def _check_encoding(beginning: bytes) -> None:
    """Stop at UTF-16: with zeros between its letters it would pass for lines of strange words, or for no entries."""
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise Unreadable("the text is UTF-16; save it as UTF-8")


def not_utf8(data: bytes, error: UnicodeDecodeError) -> str:
    """What is wrong, and at which byte of its line."""
    return f"not UTF-8: byte 0x{data[error.start]:02x} at {error.start - data.rfind(NEW_LINE, 0, error.start)}"


def without_mark(line: bytes, number: int) -> bytes:
    """The line; if it is the first one, without a byte order mark."""
    return line.removeprefix(codecs.BOM_UTF8) if number == 1 else line


def read_lines(lines: Lines) -> Iterator[Item]:
    """A document for each line, blank ones too."""
    for number, line in enumerate(lines, start=1):
        place = f"{lines.name}, line {number}"
        try:
            text = without_mark(line, number).decode("utf-8")
            yield Item(place, text.removesuffix("\n").removesuffix("\r"))
        except UnicodeDecodeError as error:
            yield Item(place, fault=not_utf8(error.object, error))


def guarded(lines: Lines, items: Iterator[Item]) -> Iterator[Item]:
    """The items, and if the file breaks off, one that says so."""
    try:
        yield from items
    except BROKEN_GZIP as error:
        yield Item(lines.name, fault=f"the gzip data is broken: {error}; no more is read from this file")
    except Unreadable as reason:
        yield Item(lines.name, fault=f"{reason}; no more is read from this file")
    except OSError as error:
        raise ExhirdError(f"{lines.name}: cannot be read: {error.strerror or error}") from error
