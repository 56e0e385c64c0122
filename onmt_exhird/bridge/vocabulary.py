"""Whether a vocabulary is one of keyphrases."""

from __future__ import annotations

from typing import Any

from onmt_exhird.errors import ExhirdError
from onmt_exhird.stream import STRUCTURE


def writes_streams(vocab: Any) -> bool:
    return all(token in vocab for token in STRUCTURE)


def require_structure(vocab: Any, wanted_by: str) -> None:
    """Stop if a token of the stream's structure is missing."""
    missing = [token for token in STRUCTURE if token not in vocab]
    if missing:
        raise ExhirdError(
            f"{wanted_by} needs a model that writes keyphrases, but the target vocabulary lacks {' '.join(missing)}: "
            "build it from targets written by 'exhird prepare', with room for them (-src_vocab_size, -tgt_vocab_size)"
        )
