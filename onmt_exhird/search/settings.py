"""The options of a search."""

from __future__ import annotations

from dataclasses import dataclass

from onmt_exhird.errors import ExhirdError

UNFILLABLE = 10**6  # a window that no stream fills is the same as all


def parse_window(text: str) -> int | None:
    """Read a window as people write it: a number, or ``all`` for no limit, which is None.

    >>> parse_window("4"), parse_window("all")
    (4, None)
    """
    if text.strip().lower() == "all":
        return None
    try:
        window = int(text)
    except ValueError:
        window = -1
    if window < 0:
        raise ExhirdError(f"'{text}' is no window; give a number of phrases, 0 for off, or 'all'")
    return window if window < UNFILLABLE else None


@dataclass(frozen=True)
class SearchSettings:
    """What a search may produce. The defaults are the paper's limits without exclusion.

    What is wrong is told with the bare name, as configurations and Python have it; of onmt_translate it is the option.

    exclusive_window: K_ES, how many earlier phrases exclude their first word; 0 is off, None is all of them.
    min_phrases, max_phrases: ``</s>`` is forbidden before, and the only choice at.
    max_phrase_words: the phrase is closed here.
    max_length: tokens of the whole output, if limited; goes before ``min_phrases``, and what it cuts stays well-formed.
    exclude_stems: first words are compared by stem. Beyond the paper.
    exclude_phrases: no phrase equals an earlier one after stemming, so DupRatio is 0. Beyond the paper.
    """

    exclusive_window: int | None = 0
    min_phrases: int = 1
    max_phrases: int = 20
    max_phrase_words: int = 5
    max_length: int | None = None
    exclude_stems: bool = False
    exclude_phrases: bool = False

    def __post_init__(self) -> None:
        if self.exclusive_window is not None and self.exclusive_window < 0:
            raise ExhirdError(f"exclusive_window is {self.exclusive_window}; give 0 for off, or None for all phrases")
        for name, least in (("min_phrases", 0), ("max_phrases", 1), ("max_phrase_words", 1), ("max_length", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ExhirdError(f"{name} is {value}; give at least {least}")
        if self.max_phrases < self.min_phrases:
            raise ExhirdError(
                f"max_phrases is {self.max_phrases}, but min_phrases is {self.min_phrases}; raise the one, or lower "
                "the other"
            )
        if self.exclude_stems and self.exclusive_window == 0:
            raise ExhirdError("exclude_stems widens exclusive search, which is off; add exclusive_search")
