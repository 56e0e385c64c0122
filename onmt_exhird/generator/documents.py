"""What people give a generator, as a text with its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.results import Span
from onmt_exhird.stream import SEPARATOR
from onmt_exhird.text import ENGLISH, TextRules, tokenize_with_spans

WANTED = "give a text, a pair of title and body, or a record with 'title' and 'abstract' or 'text'"
BODY_KEYS = ("abstract", "text")


class Document(NamedTuple):
    """A text and its tokens, each with the characters text[start:end] that it stands for."""

    text: str
    tokens: list[str]
    spans: list[Span]


def title_and_body(document: Any) -> tuple[str, str]:
    """The two parts of a document, of which either may be empty."""
    if isinstance(document, str):
        return "", document
    if isinstance(document, Mapping):
        found = [document.get(key) for key in ("title", *BODY_KEYS)]
        if all(part is None for part in found):
            raise ExhirdError(f"a record has none of 'title', 'abstract' and 'text': {WANTED}")
        title, *bodies = (part if part is not None else "" for part in found)
        parts: tuple[Any, ...] = title, bodies[0] or bodies[1]
    elif isinstance(document, (tuple, list)) and len(document) == 2:
        parts = tuple(part if part is not None else "" for part in document)
    else:
        raise ExhirdError(f"a document is of the type {type(document).__name__}: {WANTED}")
    for part in parts:
        if not isinstance(part, str):
            raise ExhirdError(f"a part of a document is of the type {type(part).__name__}: {WANTED}")
    return parts[0], parts[1]


def read_document(document: Any, rules: TextRules = ENGLISH) -> Document:
    """A document as words: title, separator, body.

    Its text is that of the title and of the body, with a line break between them.

    >>> read_document(("On Graphs", "We colour."))
    Document(text='On Graphs\\nWe colour.', tokens=['on', 'graphs', '<sep>', 'we', 'colour', '.'], \
spans=[(0, 2), (3, 9), (9, 9), (10, 12), (13, 19), (19, 20)])
    """
    title, body = title_and_body(document)
    in_title, in_body = tokenize_with_spans(title, rules), tokenize_with_spans(body, rules)
    if not (in_title and in_body):
        text, found = (title, in_title) if in_title else (body, in_body)
    else:
        text, shift = f"{title}\n{body}", len(title) + 1
        moved = [(token, (start + shift, end + shift)) for token, (start, end) in in_body]
        found = [*in_title, (SEPARATOR, (len(title), len(title))), *moved]
    return Document(text, [token for token, _ in found], [span for _, span in found])
