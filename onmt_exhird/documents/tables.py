"""Documents from tables: ``.csv`` and ``.tsv`` with a header."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain

from onmt_exhird.documents.items import Item, Names
from onmt_exhird.documents.lines import Lines, not_utf8, without_mark
from onmt_exhird.errors import ExhirdError
from onmt_exhird.records import MAX_RECORD, Keys


class _Text:
    """The lines as text; where one is no UTF-8, it is remembered until its row has been read."""

    def __init__(self, lines: Lines) -> None:
        self.lines = iter(lines)
        self.number = 0
        self.fault = ""

    def __iter__(self) -> Iterator[str]:
        for line in self.lines:
            self.number += 1
            try:
                yield without_mark(line, self.number).decode("utf-8")
            except UnicodeDecodeError as error:
                self.fault = self.fault or f"{not_utf8(error.object, error)} of line {self.number}"
                yield line.decode("utf-8", "replace")

    def take_fault(self) -> str:
        fault, self.fault = self.fault, ""
        return fault


def read_table(lines: Lines, names: Names, delimiter: str) -> Iterator[Item]:
    """A document for each row; the columns are found by their names, whether these are capitals or not."""
    csv.field_size_limit(MAX_RECORD)
    text = _Text(lines)
    source = iter(text)
    first = next(source, "")
    if delimiter == "," and "," not in first and ";" in first:
        delimiter = ";"
    rows = csv.reader(chain([first], source), delimiter=delimiter, strict=True)
    columns = _read_header(lines.name, text, rows)
    chosen = _choose(lines.name, columns, names)
    while True:
        place = f"{lines.name}, line {text.number + 1}"
        try:
            row = next(rows, None)
            fault = ""
        except csv.Error as error:
            row, fault = [], f"no row of a table: {error}"
        if row is None:
            return
        fault = text.take_fault() or fault
        if row or fault:
            yield _item_of(place, row, columns, chosen, fault)


def _read_header(name: str, text: _Text, rows: Iterator[list[str]]) -> list[str]:
    try:
        header = next(rows, [])
        fault = text.take_fault()
    except csv.Error as error:
        fault = f"no row of a table: {error}"
    if fault:
        raise ExhirdError(f"{name}, line 1: the header is {fault}; mend it")
    if not header:
        raise ExhirdError(f"{name}, line 1: the header is missing; the first line must name the columns")
    return [column.strip() for column in header]


def _choose(name: str, columns: list[str], names: Names) -> dict[str, int]:
    """Which column is which."""
    usual = Keys()
    wanted = {
        "text": (names.text,) if names.text else usual.text,
        "title": (names.title,) if names.title else usual.title,
        "id": (names.id or "id",),
    }
    asked = {"text": True, "title": names.title is not None, "id": names.id is not None}
    lower = [column.lower() for column in columns]
    chosen = {}
    for what, candidates in wanted.items():
        found = [columns.index(one) for one in candidates if one in columns]
        found += [lower.index(one.lower()) for one in candidates if one.lower() in lower]
        if found:
            chosen[what] = found[0]
        elif asked[what]:
            there = ", ".join(map(repr, columns))
            raise ExhirdError(
                f"{name}: there is no column {' or '.join(map(repr, candidates))}; the columns are {there}; "
                f"name one of them with --{what}-key"
            )
    return chosen


def _item_of(place: str, row: list[str], columns: list[str], chosen: dict[str, int], fault: str) -> Item:
    record = dict(zip(columns, row, strict=False))
    own = (row[chosen["id"]] if chosen.get("id", len(row)) < len(row) else None) or None
    if not fault and (len(row) > len(columns) or len(row) <= chosen["text"]):
        fault = f"the row and the header differ in length: {len(row)} and {len(columns)} cells"
    if fault:
        return Item(place, None, own, fault, record)
    body = row[chosen["text"]]
    title = row[chosen["title"]] if chosen.get("title", len(row)) < len(row) else ""
    return Item(place, (title, body) if title else body, own, record=record)
