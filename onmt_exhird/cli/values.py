"""The values that options take. A wrong one is told by argparse, with the name of its option."""

from __future__ import annotations

from argparse import ArgumentTypeError

from onmt_exhird.errors import ExhirdError


def count(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"'{text}' is not a whole number from 0 on")
    return int(text)


def positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"'{text}' is not a whole number from 1 on")
    return int(text)


def share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"'{text}' is not a number from 0 to 1")
    return value


def window(text: str) -> int | str:
    """A window as `KeyphraseGenerator` takes it: None would be the model's own."""
    from onmt_exhird.search import parse_window

    try:
        found = parse_window(text)
    except ExhirdError as error:
        raise ArgumentTypeError(str(error)) from None
    return "all" if found is None else found
