"""When a phrase that the decoder has not written is added: how likely it must be that authors chose it.

The weights are learned from documents that the decoder has answered and their authors, too (`tools/thesaurus.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from onmt_exhird.errors import ExhirdError


def log_odds(chance: float) -> float:
    """Of a chance; refused if it is none."""
    if not 0 < chance < 1:
        raise ExhirdError(f"phrases that are as likely as {chance} cannot be added: give 0.1, say")
    return math.log(chance / (1 - chance))


@dataclass(frozen=True)
class Chance:
    """How likely it is that authors chose a phrase of a thesaurus: log odds, linear in what is known of it.

    by_words     times log P of the phrase, given the document's words
    by_keyness   times the phrase's keyness
    least        how likely it must be to be added
    """

    by_words: float
    by_keyness: float
    offset: float
    least: float

    def __post_init__(self) -> None:
        log_odds(self.least)

    def of_keyness(self, keyness: Tensor) -> Tensor:
        """The part of the log odds that no document changes."""
        return self.by_keyness * keyness + self.offset


@dataclass(frozen=True)
class RearrangedChance:
    """How likely it is that authors chose a phrase of which a document has the words, put together another way.

    by_shared_beginning   it is A C of "A B and C", not of "A and B C"
    by_of                 it is X Y of "Y of X"
    by_parts              times how many of its two parts the decoder has written
    by_times              times how often the document says it
    by_length             times log of the number of the document's tokens
    by_phrases            times the number of present phrases that the decoder has written
    by_their_words        times the number of words that these have in the mean
    """

    by_shared_beginning: float
    by_of: float
    by_parts: float
    by_times: float
    by_length: float
    by_phrases: float
    by_their_words: float
    offset: float

    @property
    def weights(self) -> tuple[float, ...]:
        """All but the offset."""
        return tuple(vars(self).values())[:-1]


@dataclass(frozen=True)
class Manner:
    """When a phrase is added.

    present       of phrases of the thesaurus that stand in a document
    absent        of those that do not
    most_absent   absent phrases, with the decoder's own
    rearranged    of absent ones of the document's own words, which must be as likely; None: none of these
    """

    present: Chance
    absent: Chance
    most_absent: int
    rearranged: RearrangedChance | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Manner:
        """The inverse of `dataclasses.asdict`."""
        chances = {name: Chance(**config[name]) for name in ("present", "absent")}
        rearranged = config.get("rearranged")
        return cls(
            **chances,
            most_absent=int(config["most_absent"]),
            rearranged=None if rearranged is None else RearrangedChance(**rearranged),
        )
