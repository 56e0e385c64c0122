"""``.ris`` files: records found and keywords filled in, with every other byte as it was."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from onmt_exhird.documents.items import Entry
from onmt_exhird.documents.lines import not_utf8

_TAG = re.compile(rb"(?:\xef\xbb\xbf)?([A-Z][A-Z0-9])  -(?: (.*))?$", re.DOTALL)
_TITLES = (b"TI", b"T1", b"CT", b"BT")
_ABSTRACTS = (b"AB", b"N2")
_NEW_LINE = re.compile(rb"\r?\n?$")


def spell(phrase: str) -> str:
    """A phrase as the value of a tag: one line.

    >>> spell("deep\\n graph")
    'deep graph'
    """
    return " ".join(phrase.split())


def cut(lines: Iterable[bytes]) -> Iterator[Entry]:
    """The pieces of a file, in order; together they are the file."""
    record: list[bytes] = []
    for line in lines:
        found = _TAG.match(line.rstrip(b"\r\n"))
        tag = found[1] if found else b""
        if tag == b"TY":
            yield from _unfinished(record)
            record = [line]
        elif not record:
            yield Entry(line)
        else:
            record.append(line)
            if tag == b"ER":
                yield _read_record(record)
                record = []
    yield from _unfinished(record)


def _unfinished(record: list[bytes]) -> Iterator[Entry]:
    if record:
        yield Entry(b"".join(record), True, fault="the record has no end; the line 'ER  - ' is missing")


class _Value:
    """A tag and its value, which may go on in lines without a tag; and where it stands in the record."""

    def __init__(self, tag: bytes, text: bytes, start: int, end: int) -> None:
        self.tag = tag
        self.texts = [text]
        self.start = start
        self.end = end

    def text(self) -> str:
        return spell(b" ".join(self.texts).decode("utf-8"))


def _read_record(lines: list[bytes]) -> Entry:
    raw = b"".join(lines)
    for number, line in enumerate(lines):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            return Entry(raw, True, fault=not_utf8(line, error), fault_line=number)
    values = _read_values(lines)

    def first(*tags: bytes) -> _Value | None:
        return next((value for tag in tags for value in values if value.tag == tag and value.text()), None)

    own, title, abstract = first(b"ID"), first(*_TITLES), first(*_ABSTRACTS)
    entry = Entry(raw, True, own.text() if own else None, title.text() if title else "")
    if abstract is None:
        return entry
    ending = _NEW_LINE.search(raw, abstract.start, abstract.end)
    assert ending is not None  # it fits the empty string
    old = [value for value in values if value.tag == b"KW"]
    return replace(
        entry,
        abstract=abstract.text(),
        keywords=any(value.text() for value in old),
        slots=tuple((value.start, value.end) for value in old) or ((abstract.end, abstract.end),),
        before=b"KW  - ",
        between=ending[0] + b"KW  - ",
        after=ending[0],
        spell=spell,
    )


def _read_values(lines: list[bytes]) -> list[_Value]:
    values: list[_Value] = []
    position = 0
    for line in lines:
        found = _TAG.match(line.rstrip(b"\r\n"))
        end = position + len(line)
        if found:
            values.append(_Value(found[1], found[2] or b"", position, end))
        else:
            values[-1].texts.append(line)
            values[-1].end = end if line.strip() else values[-1].end
        position = end
    return values
