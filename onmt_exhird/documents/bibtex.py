"""``.bib`` files: entries found and keywords filled in, with every other byte as it was.

The syntax is that of BibTeX: braces count whatever stands before them; what is between entries is a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from onmt_exhird.documents.items import Entry
from onmt_exhird.documents.latex import plain_text, spell
from onmt_exhird.documents.lines import not_utf8

_HEAD = re.compile(rb"@[ \t]*([A-Za-z]+)\s*[{(]")
_MARKS = re.compile(rb'[{})"]|^[ \t]*@[A-Za-z]+[ \t]*[{(]', re.MULTILINE)
_GAP = rb"(?:[\s,]|%[^\n]*\n)*"  # between fields; comments there are Biber's
_KEY = re.compile(rb"\s*([^\s,{}=\"#]*)\s*(?:,|(?=[)}]$))")
_NAME = re.compile(_GAP + rb"([^\s\"#%'(),={}]+)(\s*=\s*)")
_BARE = re.compile(rb"[^\s\"#%'(),={}]+")
_JOIN = re.compile(rb"\s*#\s*")
_END = re.compile(rb"(?:\s|%[^\n]*\n)*(?:,|[)}]$)")
_REST = re.compile(_GAP + rb"[)}]$")
_COMMA = re.compile(rb"\s*,")
_SIGNS = re.compile(rb'[{}"]')
_LEAD = re.compile(rb"(?:\r?\n)?[ \t]*$")
_NO_ENTRIES = (b"comment", b"string", b"preamble")
_KEYWORDS = ("keywords", "keyword")


class Field(NamedTuple):
    """A field of an entry: where its name begins, what is between name and value, where the value is, its text."""

    name: str
    start: int
    equals: bytes
    value_start: int
    value_end: int
    text: str
    macro: bool  # whether a name that stands for another text is part of the value


class _Malformed(Exception):
    """What is wrong, and where."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.position = position


def cut(data: bytes) -> Iterator[Entry]:
    """The pieces of a file, in order; together they are the file."""
    done = position = 0
    while head := _HEAD.search(data, position):
        line_start = data.rfind(b"\n", done, head.start()) + 1 or done
        if b"%" in data[line_start : head.start()]:  # put out of use by whoever wrote it
            position = head.end()
            continue
        end, whole = _find_end(data, head.end() - 1)
        if head[1].lower() in _NO_ENTRIES:
            position = end if whole else head.end()
            continue
        if done < head.start():
            yield Entry(data[done : head.start()])
        yield _read_entry(data[head.start() : end], head.end() - head.start(), whole)
        done = position = end
    if done < len(data):
        yield Entry(data[done:])


def _find_end(data: bytes, opening: int) -> tuple[int, bool]:
    """Where an entry ends, and whether its own closing sign is there; if not, it ends before the next entry."""
    round_ = data[opening : opening + 1] == b"("
    depth = 0
    quoted = False
    for mark in _MARKS.finditer(data, opening + 1):
        sign = mark[0]
        if len(sign) > 1:
            return mark.start(), False
        if sign == b"{":
            depth += 1
        elif sign == b"}" and depth:
            depth -= 1
        elif sign == b"}":
            return mark.end(), not round_
        elif round_ and not depth and sign == b'"':
            quoted = not quoted
        elif round_ and not depth and not quoted:
            return mark.end(), True
    return len(data), False


def _read_entry(raw: bytes, inside: int, whole: bool) -> Entry:
    try:
        raw.decode("utf-8")
        if not whole:
            raise _Malformed("the entry has no end; a brace is missing", 0)
        key, fields = read_fields(raw, inside)
    except UnicodeDecodeError as error:
        return _faulty(raw, not_utf8(raw, error), error.start)
    except _Malformed as reason:
        return _faulty(raw, f"{reason}", reason.position)
    by_name = {field.name: field for field in reversed(fields)}  # of two with one name BibTeX takes the first
    title, abstract = (plain_text(by_name[name].text) if name in by_name else "" for name in ("title", "abstract"))
    entry = Entry(raw, True, key or None, title, abstract, between=b", ", spell=spell)
    for name in _KEYWORDS:
        if name in by_name:
            return _with_slot(entry, by_name[name])
    return _with_place(entry, by_name["abstract"]) if "abstract" in by_name else entry


def _faulty(raw: bytes, fault: str, position: int) -> Entry:
    return Entry(raw, True, fault=fault, fault_line=raw.count(b"\n", 0, position))


def _with_slot(entry: Entry, keywords: Field) -> Entry:
    """The entry whose keywords stand where its old ones do."""
    slot = (keywords.value_start, keywords.value_end)
    filled = keywords.macro or bool(keywords.text.strip())
    return replace(entry, keywords=filled, slots=(slot,), before=b"{", after=b"}")


def _with_place(entry: Entry, abstract: Field) -> Entry:
    """The entry whose keywords are a field of their own behind the abstract, written as that one is."""
    name = entry.raw[abstract.start : abstract.start + len("abstract")].decode()
    style = str.upper if name.isupper() else str.capitalize if name[0].isupper() else str.lower
    lead = _LEAD.search(entry.raw, 0, abstract.start)
    assert lead is not None  # it fits the empty string
    field = (lead[0] or b" ") + style("keywords").encode() + abstract.equals + b"{"
    if comma := _COMMA.match(entry.raw, abstract.value_end):
        return replace(entry, slots=((comma.end(), comma.end()),), before=field, after=b"},")
    return replace(entry, slots=((abstract.value_end, abstract.value_end),), before=b"," + field, after=b"}")


def read_fields(raw: bytes, inside: int) -> tuple[str, list[Field]]:
    """The key and the fields of a whole entry; ``inside`` is where its inside begins."""
    key = _KEY.match(raw, inside)
    if not key:
        raise _Malformed("the entry has no key, or no comma behind it", inside)
    fields = []
    position = key.end()
    while name := _NAME.match(raw, position):
        position, text, macro = _read_value(raw, name.end())
        fields.append(Field(name[1].decode().lower(), name.start(1), name[2], name.end(), position, text, macro))
        if not _END.match(raw, position):
            raise _Malformed(f"a comma is missing behind the field '{fields[-1].name}'", position)
    if not _REST.match(raw, position):
        raise _Malformed("here stands no field with '='", len(raw) - len(raw[position:].lstrip(b", \t\r\n")))
    return key[1].decode(), fields


def _read_value(raw: bytes, position: int) -> tuple[int, str, bool]:
    """Where a value ends, the text of its parts, and whether one of them is a macro, whose text is not known here."""
    parts = []
    macro = False
    while True:
        if raw[position : position + 1] in (b"{", b'"'):
            end = _find_value_end(raw, position)
            parts.append(raw[position + 1 : end - 1])
        elif word := _BARE.match(raw, position):
            end = word.end()
            if word[0].isdigit():
                parts.append(word[0])
            else:
                macro = True
        else:
            raise _Malformed("a value is missing behind '='", position)
        more = _JOIN.match(raw, end)
        if not more:
            return end, b"".join(parts).decode("utf-8"), macro
        position = more.end()


def _find_value_end(raw: bytes, opening: int) -> int:
    quoted = raw[opening : opening + 1] == b'"'
    depth = 0
    for mark in _SIGNS.finditer(raw, opening + 1):
        if mark[0] == b"{":
            depth += 1
        elif mark[0] == b"}":
            if not depth and not quoted:
                return mark.end()
            depth -= 1
        elif quoted and not depth:
            return mark.end()
    raise _Malformed("the value that begins here has no end", opening)
