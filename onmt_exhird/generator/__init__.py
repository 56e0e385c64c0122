"""A trained model that stands on its own: text in, keyphrases out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onmt_exhird.generator.results import Keyphrase, Keyphrases

if TYPE_CHECKING:
    from onmt_exhird.generator.api import KeyphraseGenerator

__all__ = ["Keyphrase", "KeyphraseGenerator", "Keyphrases"]


def __getattr__(name: str) -> Any:
    """The generator imports torch; what only reads its results need not wait for that."""
    if name == "KeyphraseGenerator":
        from onmt_exhird.generator.api import KeyphraseGenerator

        return KeyphraseGenerator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
