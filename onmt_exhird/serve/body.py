"""The body of a request: read, checked, and put as KeyphraseGenerator takes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn

from onmt_exhird.serve.limits import Limits
from onmt_exhird.serve.problems import Problem

Document = str | dict[str, str]
KEYS = ("documents", "window", "max_phrases", "beam_size", "attention")
DOCUMENT_KEYS = ("id", "title", "text")


@dataclass(frozen=True)
class Order:
    """What a request asks for: documents, their ids (None where none was given), options of ``generate``."""

    documents: list[Document]
    ids: list[str | int | None]
    options: dict[str, Any]


def read_order(data: bytes, limits: Limits) -> Order:
    """The order in a body.

    >>> read_order(b'{"documents": ["On graphs"], "window": 2}', Limits())
    Order(documents=['On graphs'], ids=[None], options={'window': 2})
    """
    body = _parse(data)
    if not isinstance(body, dict):
        _refuse('The body must be a JSON object such as {"documents": ["A text."]}.')
    _check_keys(body, KEYS, "The body")
    given = body.get("documents")
    documents = given if isinstance(given, list) else [given]
    if given is None or not 1 <= len(documents) <= limits.documents:
        _refuse(f"'documents' must hold 1 to {limits.documents} documents.")
    read = [_document(document, number) for number, document in enumerate(documents)]
    order = Order([document for _, document in read], [identity for identity, _ in read], _options(body, limits))
    _check_effort(order, limits)
    return order


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_not_json)
    except UnicodeDecodeError:
        raise Problem(400, "The body is not UTF-8.") from None
    except json.JSONDecodeError as error:
        raise Problem(400, f"The body is not JSON: {error.msg} at character {error.pos}.") from None
    except (ValueError, RecursionError):  # NaN, a number of 5,000 digits, 100,000 brackets
        raise Problem(400, "The body is not JSON that can be read: a number or the nesting is out of range.") from None


def _not_json(constant: str) -> NoReturn:
    raise ValueError(constant)


def _refuse(detail: str) -> NoReturn:
    raise Problem(422, detail)


def _check_keys(mapping: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    names = list(known)
    for key in mapping:
        if key not in names:
            near = get_close_matches(key[:40], names, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(names)}."
            _refuse(f"{what} has an unknown key {key[:40]!r}; {hint}")


def _document(document: Any, number: int) -> tuple[str | int | None, Document]:
    what = f"Document {number}"
    if isinstance(document, str):
        return None, document
    if not isinstance(document, dict):
        _refuse(f"{what} must be a string, or an object with 'text', 'title' or both.")
    _check_keys(document, DOCUMENT_KEYS, what)
    identity = document.get("id")
    if isinstance(identity, bool) or not isinstance(identity, str | int | None):
        _refuse(f"The 'id' of document {number} must be a string or a whole number.")
    fields = {key: document[key] for key in ("title", "text") if key in document}
    if not fields:
        _refuse(f"{what} has neither 'text' nor 'title'.")
    for key, value in fields.items():
        if not isinstance(value, str):
            _refuse(f"The '{key}' of document {number} must be a string.")
    return identity, fields


def _options(body: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if "window" in body:
        window = _whole(body["window"], 0, limits.window)
        if window is None and body["window"] != "all":
            _refuse(f"'window' must be 'all' or a whole number from 0 (off) to {limits.window}.")
        options["window"] = "all" if window is None else window
    for key, most in (("max_phrases", limits.max_phrases), ("beam_size", limits.beam_size)):
        if key in body:
            options[key] = _whole(body[key], 1, most)
            if options[key] is None:
                _refuse(f"'{key}' must be a whole number from 1 to {most}.")
    if "attention" in body:
        if not isinstance(body["attention"], bool):
            _refuse("'attention' must be true or false.")
        options["attention"] = body["attention"]
    return options


def _check_effort(order: Order, limits: Limits) -> None:
    """A beam and attention take so much longer that as long texts as without them would stop all others."""
    most = limits.characters(order.options.get("beam_size", 1), order.options.get("attention", False))
    texts = (document.values() if isinstance(document, dict) else [document] for document in order.documents)
    if sum(len(text) for parts in texts for text in parts) > most:
        _refuse(f"With this 'beam_size' and 'attention' the documents may have {most:,} characters altogether.")


def _whole(value: Any, least: int, most: int) -> int | None:
    """The number, also of 3.0, which is an integer to JSON; None if it is none or out of range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        return None
    return int(value) if value == int(value) else None
