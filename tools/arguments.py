"""What the command lines of the tools have in common."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """A whole number from 1 on, as the type of an option."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


positive.__name__ = "number"  # argparse names the type where the text is none
