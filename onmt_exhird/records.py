"""Reading raw records: JSON lines and JSON lists, plain or gzip, one record at a time whatever the size of the file.

Reading and parsing are apart, so that parsing can be done by other processes: `read_records` cuts a file into the
bytes of its records and knows where each one stands, `parse_record` makes a title, a body and keyphrases of them.
"""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from onmt_exhird.corpus import Unusable, split_keywords, title_key
from onmt_exhird.errors import ExhirdError

ENDINGS = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
BROKEN_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)
MAX_RECORD = 1 << 24  # bytes; what is longer is no record, but a file without line ends or a closing bracket
_CHUNK = 1 << 16
_BLANKS = " \t\r\n"
_NUMBER_GOES_ON = ("", *"+-.eE0123456789")


class RawRecord(NamedTuple):
    """The JSON of one record and where it stands; or, with a ``fault``, where and why a file was not read on."""

    place: str
    json: bytes
    fault: str = ""


class Record(NamedTuple):
    """What is taken from a record."""

    title: str
    body: str
    keywords: list[str]


class Keys(NamedTuple):
    """The names of a record's keys; where there are several, the first one that holds something is taken."""

    title: tuple[str, ...] = ("title",)
    text: tuple[str, ...] = ("abstract", "text")
    keywords: tuple[str, ...] = ("keywords", "keyword", "keyphrases")


def is_gzip(path: Path | str) -> bool:
    """Whether a file's name says that it is compressed.

    >>> is_gzip("papers.jsonl.gz"), is_gzip("PAPERS.JSONL.GZ"), is_gzip("papers.jsonl")
    (True, True, False)
    """
    return str(path).lower().endswith(".gz")


def check_input(path: Path) -> None:
    """Raise an `ExhirdError` unless this is a file with a known ending."""
    if not path.name.lower().endswith(ENDINGS):
        raise ExhirdError(f"{path}: unknown file ending; records are read from {', '.join(ENDINGS)}")
    if not path.exists():
        raise ExhirdError(f"{path}: no such file")
    if not path.is_file():
        raise ExhirdError(f"{path}: not a file")


def read_records(path: Path, advance: Callable[[int], object] = lambda size: None) -> Iterator[RawRecord]:
    """The records of a file in order. ``advance`` is told how many bytes of the file were consumed since the last call.

    A file that breaks off, or whose list is no JSON, ends with a `RawRecord` that has a ``fault``. What is wrong
    inside one record is for `parse_record` to find.
    """
    try:
        with path.open("rb") as file:
            data: Any = gzip.GzipFile(fileobj=file) if is_gzip(path) else file
            told = 0
            for record in _cut(data, path):
                yield record
                position = file.tell()
                advance(position - told)
                told = position
            advance(file.tell() - told)
    except OSError as error:
        raise ExhirdError(f"{path}: cannot be read: {error.strerror or error}") from error


def _cut(data: IO[bytes], path: Path) -> Iterator[RawRecord]:
    """Cut into lines; a ``.json`` file only if it has one record a line, as KP20k's do, else into JSON values."""
    unit, number, found = "line", 0, False
    try:
        _rewind(data)
        in_lines = path.name.lower().removesuffix(".gz").endswith(".jsonl") or _has_lines(data)
        _rewind(data)
        unit = "line" if in_lines else "record"
        pieces = _cut_lines(data) if in_lines else _cut_values(_Window(data))
        for number, piece in enumerate(pieces, start=1):
            if piece:
                yield RawRecord(f"{path}, {unit} {number}", piece)
                found = True
        if not found:
            yield RawRecord(f"{path}", b"", "the file has no records")
    except BROKEN_GZIP as error:
        yield RawRecord(f"{path}, {unit} {number + 1}", b"", f"the gzip data is broken: {error}")
    except ValueError as error:
        yield RawRecord(f"{path}, {unit} {number + 1}", b"", str(error))


def _rewind(data: IO[bytes]) -> None:
    """Go to the first byte of the text, behind a byte order mark."""
    data.seek(0)
    if data.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
        data.seek(0)


def _has_lines(data: IO[bytes]) -> bool:
    """Whether a ``.json`` file has one record a line: it is no list, and begins with no object of several lines.

    So it is also where the first lines are blank or broken: these are then reported, and the others read.
    """
    line = b" "
    while line.isspace():
        line = data.readline(_CHUNK)
    sign = line.strip()[:1]
    if sign != b"{":
        return sign != b"["
    _rewind(data)
    window = _Window(data)
    try:
        window.next_sign()
        return b"\n" not in window.take_value()
    except (ValueError, *BROKEN_GZIP):
        return True  # no object begins here; data that breaks off does so again when it is read, line by line


def _cut_lines(data: IO[bytes]) -> Iterator[bytes]:
    """The lines, blank ones as nothing."""
    for line in iter(lambda: data.readline(MAX_RECORD), b""):
        if len(line) == MAX_RECORD:
            raise ValueError(f"the line has more than {MAX_RECORD} bytes; a list of records belongs into a .json file")
        yield line.strip()


class _Window:
    """The part of a JSON text that is in memory; it slides on with what is asked for."""

    def __init__(self, data: IO[bytes]) -> None:
        # What is not UTF-8 passes through unharmed: it is to be reported for its own record.
        self.decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.scan = json.JSONDecoder().raw_decode
        self.data = data
        self.text = ""
        self.position = 0

    def read_on(self) -> bool:
        """Forget what is behind, read as much again as is ahead; whether there was anything."""
        chunk = self.data.read(max(_CHUNK, len(self.text) - self.position))
        self.text = self.text[self.position :] + self.decoder.decode(chunk, final=not chunk)
        self.position = 0
        return bool(chunk)

    def next_sign(self) -> str:
        """The next character that is not blank, or nothing at the end."""
        while True:
            for position in range(self.position, len(self.text)):
                if self.text[position] not in _BLANKS:
                    self.position = position
                    return self.text[position]
            self.position = len(self.text)
            if not self.read_on():
                return ""

    def take_value(self) -> bytes:
        """Step over the value that begins here."""
        while True:
            ahead = len(self.text) - self.position
            try:
                _, end = self.scan(self.text, self.position)
                reason = ""
            except (ValueError, RecursionError) as error:
                reason = getattr(error, "msg", str(error))
            # At the edge of the window a value may be a part only, even a number that looks whole.
            if not reason and self.text[end : end + 1] not in _NUMBER_GOES_ON:
                break
            if ahead > MAX_RECORD or not self.read_on():
                if reason:
                    raise ValueError(f"not valid JSON: {reason}")
                break
        value = self.text[self.position : end]
        self.position = end
        return value.encode("utf-8", "surrogateescape")


def _cut_values(window: _Window) -> Iterator[bytes]:
    """The values of a list, or values that just follow one another."""
    if window.next_sign() != "[":
        while window.next_sign():
            yield window.take_value()
        return
    window.position += 1
    if window.next_sign() == "]":
        return
    while True:
        yield window.take_value()
        sign = window.next_sign()
        if sign not in (",", "]"):
            raise ValueError(f"a ',' or ']' must follow in the list, not '{sign}'" if sign else "the list has no end")
        window.position += 1
        follows = window.next_sign()
        if sign == "]":
            if follows:
                raise ValueError(f"'{follows}' follows the end of the list")
            return


def parse_record(data: bytes, keys: Keys) -> Record:
    """Title, body and keyphrases of a record, or `Unusable`. What is null is empty.

    >>> parse_record(b'{"title": "Graphs", "text": "We colour.", "keyword": "graph;tree"}', Keys())
    Record(title='Graphs', body='We colour.', keywords=['graph', 'tree'])
    """
    record = parse_object(data)
    title, body = (take_text(record, names) for names in (keys.title, keys.text))
    return Record(title, body, _take_keywords(record, keys.keywords))


def parse_object(data: bytes) -> dict[str, Any]:
    try:
        record = json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Unusable("not UTF-8", f"not UTF-8: byte 0x{data[error.start]:02x} at {error.start + 1}") from error
    except json.JSONDecodeError as error:
        raise Unusable("not JSON", f"not valid JSON: {error.msg} at column {error.pos + 1}") from error
    except (ValueError, RecursionError) as error:
        raise Unusable("not JSON", f"not valid JSON: {error}") from error
    if not isinstance(record, dict):
        hint = "; a list of records belongs into a .json file" if isinstance(record, list) else ""
        raise Unusable("not a record", f"not an object with keys but {_name_type(record)}{hint}")
    return record


def _take(record: dict[str, Any], names: tuple[str, ...]) -> tuple[str, Any]:
    """The first of the keys that holds something, neither null nor an empty string, and its value.

    Where all that are there are empty, the first of them.
    """
    there = [name for name in names if name in record]
    if not there:
        have = ", ".join(map(repr, record)) or "none"
        raise Unusable("missing key", f"no key {' or '.join(map(repr, names))}; there is {have}")
    name = next((name for name in there if record[name] not in (None, "")), there[0])
    return name, record[name]


def take_text(record: dict[str, Any], names: tuple[str, ...]) -> str:
    name, value = _take(record, names)
    if value is not None and not isinstance(value, str):
        raise Unusable("not a record", f"{name!r} is not a string but {_name_type(value)}")
    return value or ""


def _take_keywords(record: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    name, value = _take(record, names)
    if value is None:
        return []
    if isinstance(value, str):
        return split_keywords(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        # What holds no keyphrase stays, so that it is counted among those left out.
        return [keyword for item in value for keyword in split_keywords(item) or [item]]
    raise Unusable("not a record", f"{name!r} is neither a list of strings nor a string with ';'")


def _name_type(value: object) -> str:
    names = {type(None): "null", list: "a list", dict: "an object", str: "a string", bool: "true or false"}
    return names.get(type(value), "a number")


def read_titles(path: Path, keys: Keys) -> Iterator[str]:
    """What `title_key` makes of every title in a file. A bad record is an error: it may hide a title."""
    for raw in read_records(path):
        if raw.fault:
            raise ExhirdError(f"{raw.place}: {raw.fault}; mend the file, or its titles are not all known")
        try:
            title = take_text(parse_object(raw.json), keys.title)
        except Unusable as reason:
            raise ExhirdError(f"{raw.place}: {reason}; mend the record, or its title is not known") from None
        if key := title_key(title):
            yield key
