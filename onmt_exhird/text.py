"""Normalising, tokenising and stemming: the one tokeniser and the one stemmer of the project."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, lru_cache

from onmt_exhird.stream import DIGIT, SEPARATOR, UNK

_BRACKETS = re.compile(r"\[[^\[\]]*\]|\{[^{}]*\}")
_PARENTHESES = re.compile(r"\([^()]*\)")
_MAX_ROUNDS = 20  # a pass for each depth of nesting; without an end, a text of nothing but brackets would take forever
_KEPT = (UNK, DIGIT, SEPARATOR)
# Of what is not ASCII, folding leaves nothing but the letters and marks of other scripts.
_LETTER = r"a-z_\u0080-\U0010ffff"
_TOKEN = re.compile(
    "|".join(
        [
            *map(re.escape, _KEPT),
            rf"\.?[0-9][{_LETTER}0-9]*(?:[.,][0-9][{_LETTER}0-9]*)*",
            rf"[{_LETTER}][{_LETTER}0-9]*",
            rf"'s(?![{_LETTER}0-9])",
            r"[<>,().']",
        ]
    )
)


class _Plain(dict[int, str]):
    """For `str.translate`: what takes the place of a character that is not ASCII, found out when it is first met.

    Letters and marks of other scripts stay, their digits become ours, every other sign separates words.
    """

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        digit = unicodedata.decimal(sign, None)
        if digit is not None:
            plain = str(digit)
        else:
            plain = sign if sign.isascii() or unicodedata.category(sign)[0] in "LM" else " "
        self[code] = plain
        return plain


# What Unicode does not decompose: the curly apostrophe, signs inside a word, letters with a stroke, joined letters.
_UNDECOMPOSED = {"\u2019": "'", **dict.fromkeys("\u00ad\u200c\u200d", "")} | {
    "ø": "o", "ł": "l", "đ": "d", "\u0131": "i", "ß": "ss", "æ": "ae", "œ": "oe"
}  # fmt: skip
_PLAIN = _Plain(str.maketrans(_UNDECOMPOSED))
_ACCENTS = re.compile("(?<![^\x00-\x7f])[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+")


def fold(text: str) -> str:
    """Lower case, with ligatures and accented Latin letters as plain ones, so that no word is cut at an accent.

    Words of other scripts keep their letters; signs that are not ASCII become blanks.

    >>> fold("Café ﬁlter"), fold("Русский «язык»")
    ('cafe filter', 'русский  язык ')
    """
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text).lower().translate(_PLAIN)
    return unicodedata.normalize("NFC", _ACCENTS.sub("", plain))


def _delete(pattern: re.Pattern[str], signs: str, text: str) -> str:
    """Delete every match, innermost brackets first; those that are nested too deeply only separate words."""
    for _ in range(_MAX_ROUNDS):
        text, count = pattern.subn(" ", text)
        if not count:
            return text
    return text.translate(dict.fromkeys(map(ord, signs), " "))


def _without_brackets(text: str) -> str:
    return _delete(_BRACKETS, "[]{}", text)


def _tokens(text: str) -> list[str]:
    """Cut folded text into words, numbers and the punctuation ``, ( ) . ' < >``.

    A number becomes ``<digit>``, and so does what begins with a digit; runs of it collapse into one.
    """
    tokens: list[str] = []
    for token in _TOKEN.findall(text):
        if token[0] in ".0123456789" and token != ".":
            token = DIGIT
        if token != DIGIT or not tokens or tokens[-1] != DIGIT:
            tokens.append(token)
    return tokens


def tokenize(text: str) -> list[str]:
    """The tokens of a document. Tokenising what is tokenised changes nothing.

    >>> tokenize("State-of-the-art (SOTA) results [12] on 3 data sets.")
    ['state', 'of', 'the', 'art', '(', 'sota', ')', 'results', 'on', '<digit>', 'data', 'sets', '.']
    """
    return _tokens(_without_brackets(fold(text)))


def tokenize_phrase(text: str) -> list[str]:
    """The tokens of a keyphrase: as for a document, and what stands in parentheses is deleted.

    >>> tokenize_phrase("Support Vector Machines (SVM)?")
    ['support', 'vector', 'machines']
    """
    return _tokens(_delete(_PARENTHESES, "()", _without_brackets(fold(text))))


@cache
def _porter() -> Callable[[str], str]:
    # Imported at first use: nltk takes longer to import than everything else here together.
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer().stem


@lru_cache(maxsize=1 << 20)
def stem(word: str) -> str:
    """The Porter stem of a word, nltk's default mode, in lower case.

    >>> stem("networks")
    'network'
    """
    return _porter()(word)


def stem_words(words: Sequence[str]) -> tuple[str, ...]:
    """The stems of several words.

    >>> stem_words(["neural", "networks"])
    ('neural', 'network')
    """
    return tuple(map(stem, words))


def find_run(text: str, run: str) -> int:
    """Where ``run`` first occurs in ``text`` as whole words one after another, or -1; of both, words between blanks.

    The position is that of a character, which orders as those of the words do.

    >>> find_run("a deep graph", "deep graph"), find_run("a deep graph", "graph")
    (2, 7)
    >>> find_run("a subgraph", "graph")
    -1
    """
    return f" {text} ".find(f" {run} ") if run else -1
