"""The one exception for mistakes a user can mend, and libraries that a user may lack."""

from importlib import import_module
from typing import Any


class ExhirdError(Exception):
    """A user's mistake: shown as one sentence that names the remedy, never as a stack trace."""


def library(name: str, use: str) -> Any:
    """A library that only some models need, imported; ``use`` says what for."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ExhirdError(f"{use} needs {name}, which is not installed: pip install {name}") from None
