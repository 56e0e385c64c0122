"""The options of a search: what they are unless told otherwise, and what may be told."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from onmt_exhird.errors import ExhirdError
from onmt_exhird.search import SearchSettings, parse_window


def test_the_defaults_are_the_papers_limits_without_exclusion() -> None:
    limits = {"min_phrases": 1, "max_phrases": 20, "max_phrase_words": 5, "max_length": None}
    assert asdict(SearchSettings()) == limits | {
        "exclusive_window": 0,
        "exclude_stems": False,
        "exclude_phrases": False,
    }


@pytest.mark.parametrize(
    "options",
    [
        {"min_phrases": 0, "max_phrases": 1},
        {"min_phrases": 4, "max_phrases": 4},
        {"max_phrase_words": 1},
        {"max_length": 1},
        {"exclusive_window": 1, "exclude_stems": True},
        {"exclusive_window": None, "exclude_stems": True},
    ],
)
def test_the_least_that_makes_sense_is_taken(options: dict[str, Any]) -> None:
    assert asdict(SearchSettings(**options)).items() >= options.items()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exclusive_window": -1}, "exclusive_window is -1; give 0 for off, or None for all phrases"),
        ({"min_phrases": -1}, "min_phrases is -1; give at least 0"),
        ({"min_phrases": 0, "max_phrases": 0}, "max_phrases is 0; give at least 1"),
        (
            {"min_phrases": 3, "max_phrases": 2},
            "max_phrases is 2, but min_phrases is 3; raise the one, or lower the other",
        ),
        ({"max_phrase_words": 0}, "max_phrase_words is 0; give at least 1"),
        ({"max_length": 0}, "max_length is 0; give at least 1"),
        ({"exclude_stems": True}, "exclude_stems widens exclusive search, which is off; add exclusive_search"),
    ],
)
def test_what_makes_no_sense_is_an_error_that_names_it_as_yaml_and_python_do(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ExhirdError, match=f"^{message}$"):
        SearchSettings(**options)


def test_windows_are_read() -> None:
    assert [parse_window(text) for text in ("0", "4", "all", "ALL")] == [0, 4, None, None]


@pytest.mark.parametrize("text", ["-1", "some", "1.5", ""])
def test_a_wrong_window_names_the_valid_ones(text: str) -> None:
    with pytest.raises(ExhirdError, match="'all'"):
        parse_window(text)


@pytest.mark.parametrize(("text", "window"), [("0", 0), ("999999", 999_999), ("1000000", None), (" All ", None)])
def test_a_window_that_no_stream_fills_is_all(text: str, window: int | None) -> None:
    assert parse_window(text) == window
