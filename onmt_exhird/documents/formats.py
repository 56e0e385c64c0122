"""Which format a file has, and its reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from onmt_exhird.documents import bibtex, ris
from onmt_exhird.documents.folders import read_file
from onmt_exhird.documents.items import Entry, Item, Names
from onmt_exhird.documents.json_records import read_json, read_json_lines
from onmt_exhird.documents.lines import FileLines, Lines, guarded, read_lines
from onmt_exhird.documents.parquet import read_parquet
from onmt_exhird.documents.tables import read_table

TEXT, JSONL, JSON, CSV, TSV, BIB, RIS, PARQUET = KINDS = (
    "text",
    "jsonl",
    "json",
    "csv",
    "tsv",
    "bib",
    "ris",
    "parquet",
)
FILE = "file"  # a document is a whole file
REFERENCES = (BIB, RIS)


def kind_of(path: Path) -> str:
    """The format that the ending of a file's name says; lines of text if it says none.

    >>> kind_of(Path("refs.bib.gz")), kind_of(Path("abstracts.txt")), kind_of(Path("abstracts"))
    ('bib', 'text', 'text')
    """
    ending = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    return ending if ending in KINDS else TEXT


def read(lines: Lines, kind: str, names: Names) -> Iterator[Item]:
    """What stands in a file or pipe, one by one, in order."""
    return guarded(lines, _read(lines, kind, names))


def _read(lines: Lines, kind: str, names: Names) -> Iterator[Item]:
    if isinstance(lines, FileLines) and kind == JSON:
        return read_json(lines.path, names)
    if isinstance(lines, FileLines) and kind == FILE:
        return read_file(lines)
    if kind == PARQUET:
        return read_parquet(lines, names)
    if kind in (JSON, JSONL):
        return read_json_lines(lines, names)
    if kind in (CSV, TSV):
        return read_table(lines, names, "," if kind == CSV else "\t")
    if kind in REFERENCES:
        return _read_references(lines, kind)
    return read_lines(lines)


def _read_references(lines: Lines, kind: str) -> Iterator[Item]:
    """The pieces of a file of references; those that are entries have a document."""
    number = 1
    pieces: Iterable[Entry] = bibtex.cut(lines.read()) if kind == BIB else ris.cut(lines)
    for piece in pieces:
        place = f"{lines.name}, line {number + piece.fault_line}"
        sound = piece.is_entry and not piece.fault
        document = (piece.title, piece.abstract) if piece.title and piece.abstract else piece.title or piece.abstract
        yield Item(place, document if sound else None, piece.id, piece.fault, entry=piece)
        number += piece.raw.count(b"\n")
