"""Reading sources, gold and predictions: lines or JSONL, each also compressed with gzip.

A plain line is taken as it is, tokens between blanks. JSONL holds raw text, so it goes through the project's tokeniser
(which leaves tokenised text unchanged).
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Sequence
from glob import glob
from pathlib import Path
from typing import Any, TypeVar

from onmt_exhird.corpus import join_source
from onmt_exhird.errors import ExhirdError
from onmt_exhird.records import BROKEN_GZIP, Keys, is_gzip
from onmt_exhird.stream import Phrase, read_leniently
from onmt_exhird.text import ENGLISH, TextRules, tokenize_phrase

# The keys of raw records, and those by which other programs name the same.
TITLE_KEYS = Keys().title
BODY_KEYS = (*Keys().text, "body", "src")
GOLD_KEYS = ("gold", *Keys().keywords)
PREDICTION_KEYS = ("predictions", "pred", "phrases", "keyphrases")

Parsed = TypeVar("Parsed")


def is_jsonl(path: str) -> bool:
    return path.lower().removesuffix(".gz").endswith(".jsonl")


def _lines(path: str) -> Iterator[str]:
    """The lines of a file; a byte order mark at its beginning and the line ends are not part of them."""
    try:
        with gzip.open(path) if is_gzip(path) else open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise ExhirdError(
                        f"{path}, line {number} is not UTF-8 (byte {error.start + 1}); convert the file to UTF-8"
                    ) from None
                yield text.rstrip("\r\n")
    except (OSError, *BROKEN_GZIP) as error:
        reason = getattr(error, "strerror", None) or error
        raise ExhirdError(f"{path} cannot be read ({reason}); give an existing, readable file") from None


def _read(
    path: str, from_line: Callable[[str], Parsed], from_record: Callable[[dict[str, Any]], Parsed]
) -> Iterator[Parsed]:
    if not is_jsonl(path):
        for number, line in enumerate(_lines(path)):
            if not number and _is_record(line):  # as streams its scores would be zeros
                raise ExhirdError(f"{path} has JSON objects, a line each; give it a name that ends in .jsonl")
            yield from_line(line)
        return
    for number, line in enumerate(_lines(path), start=1):
        try:
            document = from_record(_parse(line))
        except ExhirdError as error:
            raise ExhirdError(f"{path}, line {number} {error}") from None
        yield document


def _parse(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):  # the latter of brackets in brackets in brackets
        raise ExhirdError("is not JSON; JSONL has one object a line") from None
    if not isinstance(record, dict):
        raise ExhirdError("is no JSON object; JSONL has one object a line")
    return record


def _is_record(line: str) -> bool:
    try:
        return line.startswith("{") and bool(_parse(line))
    except ExhirdError:
        return False


def each_source(path: str, text: TextRules = ENGLISH) -> Iterator[str]:
    """Each document's tokens between blanks; of a record, title and body with the separator between them."""
    return _read(path, str, lambda record: _source_of(record, text))


def each_gold(path: str, text: TextRules = ENGLISH) -> Iterator[list[Phrase]]:
    """Each document's gold phrases."""
    return _read(path, read_leniently, lambda record: _phrases_of(record, GOLD_KEYS, text))


def each_prediction(path: str, text: TextRules = ENGLISH) -> Iterator[list[Phrase]]:
    """Each document's predictions, in order."""
    return _read(path, read_leniently, lambda record: _phrases_of(record, PREDICTION_KEYS, text))


def read_sources(path: str) -> list[str]:
    return list(each_source(path))


def read_gold(path: str) -> list[list[Phrase]]:
    return list(each_gold(path))


def read_predictions(path: str) -> list[list[Phrase]]:
    return list(each_prediction(path))


def _pick(record: dict[str, Any], keys: Sequence[str]) -> Any:
    """The first value that is not null; an empty one is taken too: a system may have predicted nothing."""
    return next((record[key] for key in keys if record.get(key) is not None), None)


def _source_of(record: dict[str, Any], text: TextRules) -> str:
    title, body = (_pick(record, keys) for keys in (TITLE_KEYS, BODY_KEYS))
    if not isinstance(title, str) and not isinstance(body, str):
        raise ExhirdError(f"has no text under {', '.join(TITLE_KEYS + BODY_KEYS)}; put it under one of these keys")
    title, body = (part if isinstance(part, str) else "" for part in (title, body))
    return " ".join(join_source(title, body, text))


def _phrases_of(record: dict[str, Any], keys: Sequence[str], text: TextRules) -> list[Phrase]:
    value = _pick(record, keys)
    if isinstance(value, str):
        return [_tokenized(phrase, text) for phrase in read_leniently(value)]
    if not isinstance(value, list):
        raise ExhirdError(
            f"has no phrases (a list, or one string with ';') under {', '.join(keys)}; put them under one of these keys"
        )
    given: list[Any] = [item.get("text") if isinstance(item, dict) else item for item in value]
    if not all(isinstance(one, str) for one in given):
        raise ExhirdError("has a phrase that is neither a string nor an object with 'text'; write it as one of these")
    return [_tokenized(Phrase(tuple(one.split()), ""), text) for one in given if one.strip()]


def _tokenized(phrase: Phrase, text: TextRules) -> Phrase:
    """The phrase's tokens; ``/``, which the tokeniser would lose, stays, since conventions differ on it."""
    pieces = [" ".join(tokenize_phrase(piece, text)) for piece in phrase.text.split("/")]
    return Phrase(tuple(" / ".join(pieces).split()), phrase.tag)


def check_lengths(path: str, documents: Sequence[object], against: str, expected: Sequence[object]) -> None:
    """Raise if two files do not have the same number of lines."""
    have, want = len(documents), len(expected)
    if have != want:
        fault = "is missing" if have < want else "belongs to no document"
        raise ExhirdError(
            f"{path}, line {min(have, want) + 1} {fault}: {path} has {have} lines, {against} has {want}; "
            "give one line per document"
        )


def looks_raw(sources: Sequence[str]) -> bool:
    """Whether commas cling to words in most of the documents: no tokeniser leaves that, raw text has it.

    >>> looks_raw(["graphs, trees"]), looks_raw(["graphs , trees"])
    (True, False)
    """
    return sum(bool(re.search(r"\S,(\s|$)", source)) for source in sources) > len(sources) / 2


def expand(patterns: Sequence[str]) -> list[str]:
    """The files that names and glob patterns stand for; a pattern that fits nothing is an error."""
    paths: list[str] = []
    for pattern in patterns:
        found = [pattern] if Path(pattern).exists() else sorted(glob(pattern))
        if not found:
            raise ExhirdError(f"{pattern} fits no file; give existing files or a pattern such as 'seed*.pred'")
        paths += found
    return paths
