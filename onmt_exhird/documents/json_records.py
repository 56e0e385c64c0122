"""Documents from JSON: an object a line, or a ``.json`` file with a list; and such a line written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onmt_exhird.corpus import Unusable
from onmt_exhird.documents.items import Item, Names
from onmt_exhird.documents.lines import Lines, without_mark
from onmt_exhird.records import Keys, RawRecord, parse_object, read_records, take_text


def read_json_lines(lines: Lines, names: Names) -> Iterator[Item]:
    """A document for each line that is not blank."""
    for number, line in enumerate(lines, start=1):
        if data := without_mark(line, number).strip():
            yield item_of(RawRecord(f"{lines.name}, line {number}", data), names)


def read_json(path: Path, names: Names) -> Iterator[Item]:
    """A document for each record of a ``.json`` file, whatever its form."""
    for raw in read_records(path):
        yield item_of(raw, names)


def item_of(raw: RawRecord, names: Names) -> Item:
    """The document of a record in JSON.

    >>> item_of(RawRecord("a.jsonl, line 1", b'{"id": 7, "title": "Graphs", "text": "We colour."}'), Names()).document
    ('Graphs', 'We colour.')
    """
    if raw.fault:
        return Item(raw.place, fault=f"{raw.fault}; no more is read from this file")
    try:
        return item_of_record(raw.place, parse_object(raw.json), names)
    except Unusable as reason:
        return Item(raw.place, fault=str(reason))


def item_of_record(place: str, record: dict[str, Any], names: Names) -> Item:
    """The document of a record: its text must be there, a title need not be."""
    usual = Keys()
    own = names.id or "id"
    try:
        body = take_text(record, (names.text,) if names.text else usual.text)
        titled = names.title or any(name in record for name in usual.title)
        title = take_text(record, (names.title,) if names.title else usual.title) if titled else ""
        if names.id and names.id not in record:
            raise Unusable("missing key", f"no key {names.id!r}; there is {', '.join(map(repr, record))}")
    except Unusable as reason:
        remedy = "; name the keys with --text-key, --title-key, --id-key" if reason.kind == "missing key" else ""
        return Item(place, None, record.get(own), f"{reason}{remedy}", record)
    return Item(place, (title, body) if title else body, record.get(own), record=record)


def to_json(value: dict[str, Any]) -> bytes:
    """A line of JSON; what UTF-8 cannot write is escaped."""
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        return json.dumps(value).encode("ascii") + b"\n"
