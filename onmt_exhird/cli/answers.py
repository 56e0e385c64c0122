"""How ``exhird generate`` writes what it found: text, JSON lines, a table, references, highlighted documents."""

from __future__ import annotations

import argparse
import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from onmt_exhird.documents.formats import CSV, FILE, JSON, JSONL, PARQUET, REFERENCES, TEXT, TSV
from onmt_exhird.documents.items import Item
from onmt_exhird.documents.json_records import to_json
from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.results import Keyphrases

SEPARATOR = " ; "
_COLOUR, _PLAIN = "\x1b[1;33m", "\x1b[0m"
# Control characters of a document would be commands to the terminal; blanks leave the offsets as they are.
_HARMLESS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ") | {0x0A: "\n", 0x09: "\t"}


class Answer(NamedTuple):
    """An item, the id of its answer, and its keyphrases if they were generated."""

    item: Item
    id: Any
    result: Keyphrases | None


@dataclass(frozen=True)
class Selection:
    """Which phrases are shown."""

    top: int | None = None
    min_score: float = 0.0
    present: bool = True
    absent: bool = True

    def __call__(self, result: Keyphrases) -> Keyphrases:
        kept = [
            phrase
            for phrase in result
            if phrase.score >= self.min_score and (self.present if phrase.present else self.absent)
        ]
        best = sorted(range(len(kept)), key=lambda place: -kept[place].score)[: self.top]
        return replace(result, phrases=tuple(kept[place] for place in sorted(best)))


@dataclass
class Form(ABC):
    """A form of output: which phrases are shown, and whether the other keys of a record are carried over."""

    select: Selection
    keep: bool = False
    OWN: ClassVar[tuple[str, ...]] = ()  # the names of what is written

    def wants(self, item: Item) -> bool:
        """Whether keyphrases are to be generated for this one."""
        return item.document is not None and item.is_record

    def kept(self, item: Item) -> dict[str, Any]:
        """What is carried over; what has one of our names is not: an error of its own would be taken for ours."""
        return {name: value for name, value in item.record.items() if self.keep and name not in self.OWN}

    def render(self, answer: Answer) -> bytes:
        """The bytes of an answer; nothing for what is not a record."""
        if not answer.item.is_record:
            return b""
        return self.write(answer, None if answer.result is None else self.select(answer.result))

    @abstractmethod
    def write(self, answer: Answer, result: Keyphrases | None) -> bytes:
        """The bytes of a record's answer, with the phrases that are shown; None: it has failed."""


class TextForm(Form):
    """A line for each document."""

    def write(self, answer: Answer, result: Keyphrases | None) -> bytes:
        return encode(f"{SEPARATOR.join(result.texts) if result else ''}\n")


class HighlightForm(Form):
    """Each document with its phrases coloured, the absent ones below, and an empty line."""

    def write(self, answer: Answer, result: Keyphrases | None) -> bytes:
        if result is None:
            return encode(f"{describe(answer.item)}\n\n")
        return encode(f"{highlight(result)}\n\n")


class JsonlForm(Form):
    """An object for each record."""

    OWN = ("id", "keyphrases", "truncated", "tokens", "error")

    def write(self, answer: Answer, result: Keyphrases | None) -> bytes:
        return to_json(self.to_dict(answer, result))

    def to_dict(self, answer: Answer, result: Keyphrases | None) -> dict[str, Any]:
        """The object as plain data."""
        found = {"error": describe(answer.item)} if result is None else result.to_dict()
        return {"id": answer.id} | self.kept(answer.item) | found


class CsvForm(Form):
    """A row for each record, with a header."""

    OWN = ("id", "keyphrases", "scores", "present", "truncated", "error")
    columns: list[str] | None = None  # carried over; known when the first record is

    def write(self, answer: Answer, result: Keyphrases | None) -> bytes:
        kept = self.kept(answer.item)
        header = b""
        if self.columns is None:
            self.columns = list(kept)
            header = to_row([self.OWN[0], *self.columns, *self.OWN[1:]])
        if not kept.keys() <= set(self.columns):
            other = ", ".join(map(repr, kept.keys() - set(self.columns)))
            raise ExhirdError(f"{answer.item.place}: the first record has no {other}; use --format jsonl with --keep")
        own = ["", "", "", "", describe(answer.item)] if result is None else _cells(result)
        return header + to_row([answer.id, *(_cell(kept.get(name, "")) for name in self.columns), *own])


@dataclass
class ReferencesForm(Form):
    """The file of references itself, with keywords filled in."""

    replace: bool = False

    def wants(self, item: Item) -> bool:
        entry = item.entry
        return (
            item.document is not None
            and entry is not None
            and bool(entry.abstract)
            and (self.replace or not entry.keywords)
        )

    def render(self, answer: Answer) -> bytes:
        """The pieces between entries are a part of the file, too."""
        return self.write(answer, None if answer.result is None else self.select(answer.result))

    def write(self, answer: Answer, result: Keyphrases | None) -> bytes:
        assert answer.item.entry is not None
        return answer.item.entry.raw if result is None else answer.item.entry.filled(result.texts)


def choose_form(args: argparse.Namespace, kinds: Collection[str]) -> Form:
    """The form of output that the options and the kinds of input ask for."""
    usual = {TEXT: TEXT, JSONL: JSONL, JSON: JSONL, FILE: JSONL, PARQUET: JSONL, CSV: CSV, TSV: CSV}
    names = {usual.get(kind, kind) for kind in kinds}
    name = "highlight" if args.highlight else args.format or (names.pop() if len(names) == 1 else "")
    if not name:
        raise ExhirdError("these inputs are of several kinds; say what is to be written with --format")
    if args.highlight and args.format not in (None, "text"):
        raise ExhirdError(f"--highlight is for people, --format {args.format} for programs; leave one of them out")
    if args.replace and name not in REFERENCES:
        raise ExhirdError("--replace is about the keywords of .bib and .ris files that are written again")
    if args.keep and name not in (JSONL, CSV):
        raise ExhirdError("--keep is about records; use --format jsonl or csv with it")
    select = Selection(args.top, args.min_score, not args.absent_only, not args.present_only)
    if name in REFERENCES:
        return ReferencesForm(select, replace=args.replace)
    forms: dict[str, Callable[..., Form]] = {TEXT: TextForm, JSONL: JsonlForm, CSV: CsvForm, "highlight": HighlightForm}
    if name not in forms:
        raise ExhirdError(f"--format {name} is written into a folder; name one with --output-dir")
    return forms[name](select, args.keep)


def describe(item: Item) -> str:
    """Where and what is wrong."""
    return f"{item.place}: {item.fault}"


def encode(text: str) -> bytes:
    """UTF-8; half of a pair of surrogates, which has no place in it, is shown by its number."""
    return text.encode("utf-8", "backslashreplace")


def to_row(cells: list[Any]) -> bytes:
    """A line of a table."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return encode(text.getvalue())


def _cell(value: Any) -> Any:
    """A value of a record in a table; lists and objects as JSON, which programs can read again."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _cells(result: Keyphrases) -> list[str]:
    columns = (
        result.texts,
        [f"{phrase.score:.4f}" for phrase in result],
        ["yes" if phrase.present else "no" for phrase in result],
    )
    return [*map(SEPARATOR.join, columns), "yes" if result.truncated else "no", ""]


def highlight(result: Keyphrases) -> str:
    """The document with its present phrases coloured; below, the absent ones."""
    pieces = ((piece.translate(_HARMLESS), marked) for piece, marked in result.pieces())
    text = "".join(f"{_COLOUR}{piece}{_PLAIN}" if marked else piece for piece, marked in pieces)
    absent = SEPARATOR.join(phrase.text for phrase in result.absent)
    return text + (f"\nabsent: {absent}" if absent else "")
