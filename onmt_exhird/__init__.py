"""Keyphrases for texts by exclusive hierarchical decoding: for everyone, and as a plug-in of OpenNMT-py.

>>> from onmt_exhird import KeyphraseGenerator

Importing the package takes no time; torch is imported when the first of its names is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onmt_exhird.generator import Keyphrase, KeyphraseGenerator, Keyphrases

__version__ = "0.2.0"
__all__ = ["Keyphrase", "KeyphraseGenerator", "Keyphrases"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from onmt_exhird import generator

        return getattr(generator, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
