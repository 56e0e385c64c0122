"""What is known of languages: which have a stemmer, and which are written without blanks between words."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from threading import Lock

from onmt_exhird.errors import ExhirdError, library

ENGLISH = "en"
# The stemmers of `snowballstemmer`, by the code of the language. English has Porter's, as the field's scores have.
SNOWBALL = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "eo": "esperanto",
    "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish",
    "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian",
    "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "sr": "serbian", "st": "sesotho", "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
UNSPACED = {"zh": "Chinese", "ja": "Japanese", "th": "Thai", "lo": "Lao", "km": "Khmer", "my": "Burmese"}
# Their letters: Thai and Lao, Burmese, Khmer, kana and bopomofo, Chinese characters.
_RANGES = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007), (0x3021, 0x312F), (0x31A0, 0x31BF),
    (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F), (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)  # fmt: skip


def _as_class(ranges: list[tuple[int, int]]) -> str:
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


def _between() -> list[tuple[int, int]]:
    """What is neither ASCII nor a letter of these languages."""
    ends = [0x7F, *(last for _, last in _RANGES)]
    beginnings = [*(first for first, _ in _RANGES), 0x110000]
    return [(end + 1, first - 1) for end, first in zip(ends, beginnings, strict=True) if end + 1 < first]


# For regular expressions, between brackets.
UNSPACED_LETTERS = _as_class(list(_RANGES))
OTHER_LETTERS = _as_class(_between())
_UNITS = re.compile(f"[{UNSPACED_LETTERS}]|[^{UNSPACED_LETTERS}]+")


def begins_unspaced(word: str) -> bool:
    """Whether a word begins with a letter of a language without blanks.

    >>> begins_unspaced("图像"), begins_unspaced("graph")
    (True, False)
    """
    return any(first <= ord(word[0]) <= last for first, last in _RANGES) if word else False


def units(word: str) -> list[str]:
    """The characters of a word without blanks, each by itself; what else there is as it is.

    >>> units("bert模型")
    ['bert', '模', '型']
    """
    return _UNITS.findall(word)


def check_language(code: str) -> None:
    """Stop at what is no code of a language."""
    if re.fullmatch("[a-z]{2,3}", code):
        return
    names = {name: key for key, name in SNOWBALL.items()} | {name.lower(): key for key, name in UNSPACED.items()}
    known = names | {"english": ENGLISH}
    hint = known.get(code.lower(), "its two letters of ISO 639-1, such as de")
    raise ExhirdError(f"'{code}' is no code of a language: give {hint}")


def comparison(code: str) -> str:
    """How words of a language are compared: the name of its stemmer, ``characters``, or ``folded``.

    >>> comparison("en"), comparison("de"), comparison("zh"), comparison("sw")
    ('porter', 'snowball-german', 'characters', 'folded')
    """
    if code == ENGLISH:
        return "porter"
    if code in UNSPACED:
        return "characters"
    return f"snowball-{SNOWBALL[code]}" if code in SNOWBALL else "folded"


def note_on(code: str) -> str:
    """The sentence for people about a language without a stemmer; empty if it has one."""
    if comparison(code) != "folded":
        return ""
    return (
        f"there is no stemmer for the language '{code}': words are compared as they are, in lower case and without "
        f"accents (stemmers: {', '.join(sorted([ENGLISH, *SNOWBALL]))}; by characters: {', '.join(UNSPACED)})"
    )


@cache
def stemmer(code: str) -> Callable[[str], str]:
    """The stemmer of a language; one that changes nothing if there is none. Not for English."""
    if code not in SNOWBALL:
        return str
    snowball = library("snowballstemmer", f"text of the language '{code}'")  # at first use, as every stemmer
    lock, own = Lock(), snowball.stemmer(SNOWBALL[code])

    def stem(word: str) -> str:
        with lock:  # it keeps the word in itself while it works
            return str(own.stemWord(word))

    return stem
