"""Normalising, tokenising and stemming: the one tokeniser and the one stemmer of the project.

What suits English abstracts is the default; `TextRules` has the choices for other languages.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate
from typing import NamedTuple

from onmt_exhird import languages
from onmt_exhird.errors import ExhirdError
from onmt_exhird.stream import DIGIT, SEPARATOR, UNK

RULES = 1  # the version of these rules; a model folder says which it was trained with
_BRACKETS = re.compile(r"\[[^\[\]]*\]|\{[^{}]*\}")
_PARENTHESES = re.compile(r"\([^()]*\)")
_MAX_ROUNDS = 20  # a pass for each depth of nesting; without an end, a text of nothing but brackets would take forever
_KEPT = (UNK, DIGIT, SEPARATOR)
CHOICES = {"case": ("fold", "keep"), "accents": ("fold", "keep"), "digits": ("token", "keep")}


@dataclass(frozen=True)
class TextRules:
    """The choices of normalising and comparing text.

    language   by which stemmer words are compared, and whether there are blanks between them
    case       ``fold``: lower case; ``keep``: as it is
    accents    ``fold``: without accents on Latin letters; ``keep``: with them
    digits     ``token``: numbers become ``<digit>``; ``keep``: as they are

    >>> tokenize("Über 3 Häuser", TextRules("de", case="keep", accents="keep", digits="keep"))
    ['Über', '3', 'Häuser']
    """

    language: str = languages.ENGLISH
    case: str = "fold"
    accents: str = "fold"
    digits: str = "token"

    def __post_init__(self) -> None:
        languages.check_language(self.language)
        for name, valid in CHOICES.items():
            if getattr(self, name) not in valid:
                raise ExhirdError(f"{name} is '{getattr(self, name)}'; it is one of {', '.join(valid)}")

    @property
    def unspaced(self) -> bool:
        """Whether the language has no blanks between words."""
        return self.language in languages.UNSPACED


ENGLISH = TextRules()


class _Patterns(NamedTuple):
    word: re.Pattern[str]
    token: re.Pattern[str]
    around: re.Pattern[str]


@cache
def _patterns(rules: TextRules) -> _Patterns:
    """What words and tokens are, once text is folded.

    Of what is not ASCII, folding leaves nothing but the letters and marks of other scripts. Letters of languages
    without blanks are words apart from others.
    """
    ascii_letters = "a-z_" if rules.case == "fold" else "A-Za-z_"
    letter = ascii_letters + (languages.OTHER_LETTERS if rules.unspaced else r"\u0080-\U0010ffff")
    words = [rf"[{letter}][{letter}0-9]*"] + ([f"[{languages.UNSPACED_LETTERS}]+"] if rules.unspaced else [])
    others = [
        *map(re.escape, _KEPT),
        rf"\.?[0-9][{letter}0-9]*(?:[.,][0-9][{letter}0-9]*)*",
        rf"'{'s' if rules.case == 'fold' else '[sS]'}(?![{letter}0-9])",
        r"[<>,().']",
    ]
    token = "|".join([*words, *others])
    return _Patterns(re.compile("|".join(words)), re.compile(token), re.compile(f"({token})"))


Span = tuple[int, int]  # characters text[start:end]


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
_SIGNS = {"\u2019": "'", **dict.fromkeys("\u00ad\u200c\u200d", "")}
_LETTERS = {"ø": "o", "ł": "l", "đ": "d", "\u0131": "i", "ß": "ss", "æ": "ae", "œ": "oe"}
_CAPITALS = {"Ø": "O", "Ł": "L", "Đ": "D", "\u1e9e": "SS", "Æ": "AE", "Œ": "OE"}
_PLAIN = {"fold": _Plain(str.maketrans(_SIGNS | _LETTERS | _CAPITALS)), "keep": _Plain(str.maketrans(_SIGNS))}
_PIECES = re.compile("[\x00-\x7f][^\x00-\x7f]*|[^\x00-\x7f]+")
_ACCENTS = re.compile("(?<![^\x00-\x7f])[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+")


def _lower(text: str, rules: TextRules) -> str:
    return text.lower() if rules.case == "fold" else text


def fold(text: str, rules: TextRules = ENGLISH) -> str:
    """Lower case, with ligatures and accented Latin letters as plain ones, so that no word is cut at an accent.

    Words of other scripts keep their letters; signs that are not ASCII become blanks.
    Rules may keep case and accents.

    >>> fold("Café ﬁlter"), fold("Русский «язык»")
    ('cafe filter', 'русский  язык ')
    """
    if text.isascii():
        return _lower(text, rules)
    plain = _lower(unicodedata.normalize("NFKD", text), rules).translate(_PLAIN[rules.accents])
    return unicodedata.normalize("NFC", _ACCENTS.sub("", plain) if rules.accents == "fold" else plain)


def _delete(pattern: re.Pattern[str], signs: str, text: str, blank: str | Callable[[re.Match[str]], str] = " ") -> str:
    """Delete every match, innermost brackets first; those that are nested too deeply only separate words."""
    for _ in range(_MAX_ROUNDS):
        text, count = pattern.subn(blank, text)
        if not count:
            return text
    return text.translate(dict.fromkeys(map(ord, signs), " "))


def _without_brackets(text: str, blank: str | Callable[[re.Match[str]], str] = " ") -> str:
    return _delete(_BRACKETS, "[]{}", text, blank)


def _one_for_numbers(pieces: list[str]) -> list[str]:
    """A number becomes ``<digit>``, and so does what begins with a digit; runs of it collapse into one."""
    tokens: list[str] = []
    for token in pieces:
        if token < "A":  # a sign or a number; most tokens are words
            if token[0] in ".0123456789" and token != ".":
                token = DIGIT
            if token == DIGIT and tokens and tokens[-1] == DIGIT:
                continue
        tokens.append(token)
    return tokens


def _tokens(text: str, rules: TextRules) -> list[str]:
    """Cut folded text into words, numbers and the punctuation ``, ( ) . ' < >``."""
    found = _patterns(rules).token.findall(text)
    return _one_for_numbers(found) if rules.digits == "token" else found


def tokenize(text: str, rules: TextRules = ENGLISH) -> list[str]:
    """The tokens of a document. Tokenising what is tokenised changes nothing.

    >>> tokenize("State-of-the-art (SOTA) results [12] on 3 data sets.")
    ['state', 'of', 'the', 'art', '(', 'sota', ')', 'results', 'on', '<digit>', 'data', 'sets', '.']
    """
    return _tokens(_without_brackets(fold(text, rules)), rules)


def tokenize_with_spans(text: str, rules: TextRules = ENGLISH) -> list[tuple[str, Span]]:
    """The tokens of a document, each with the characters ``text[start:end]`` that it stands for.

    Spans follow one another and do not overlap, unless one character becomes several tokens, as ``…`` or ``㏂`` does:
    then each of them has it. What folding deletes, an accent or a soft hyphen, belongs to the letter before it; an
    accent with no letter before it to what follows.
    A run of numbers is one token and one span, which ends where a bracket begins: no span holds a deleted bracket.

    >>> tokenize_with_spans("Café [1] in 3D")
    [('cafe', (0, 4)), ('in', (9, 11)), ('<digit>', (12, 14))]
    """
    folded, starts, ends = (_lower(text, rules), None, None) if text.isascii() else _fold_aligned(text, rules)
    kept = _without_brackets(folded, _as_long) if "[" in folded or "{" in folded else folded
    parts = _patterns(rules).around.split(kept)  # what is passed over, a token, what is passed over, a token, ...
    places = list(accumulate(map(len, parts)))
    pieces, spans = parts[1::2], list(zip(places[::2], places[1::2], strict=False))
    tokens = _one_for_numbers(pieces) if rules.digits == "token" else pieces
    if len(tokens) < len(pieces):
        spans = _join_numbers(folded, pieces, tokens, spans)
    if starts is not None and ends is not None:
        spans = [(starts[start], ends[end - 1]) for start, end in spans]
    return list(zip(tokens, spans, strict=True))


def _as_long(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _join_numbers(folded: str, pieces: list[str], tokens: list[str], spans: list[Span]) -> list[Span]:
    """The spans of the tokens: those of several pieces that became one ``<digit>`` are one, up to a bracket."""
    joined: list[Span] = []
    position = last = 0
    for _ in range(tokens.count(DIGIT)):
        position = tokens.index(DIGIT, position) + 1
        first = last + position - 1 - len(joined)
        joined += spans[last:first]
        last = pieces.index(tokens[position], first) if position < len(tokens) else len(pieces)
        begin, end = spans[first]
        for start, stop in spans[first + 1 : last]:
            if "[" in folded[end:start] or "{" in folded[end:start]:
                break
            end = stop
        joined.append((begin, end))
    return joined + spans[last:]


def _fold_aligned(text: str, rules: TextRules) -> tuple[str, list[int], list[int]]:
    """What `fold` makes of a text, and for each of its characters where in the text that begins and ends.

    Word by word, since most are ASCII; what a blank parts does not change each other.
    """
    folded: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    offset = 0
    for word in text.split(" "):
        beyond = offset + len(word) + 1
        if word.isascii():
            folded.append(_lower(word, rules))
            starts.extend(range(offset, beyond))
            ends.extend(range(offset + 1, beyond + 1))
        else:
            plain, begins, finishes = _fold_word(word, rules)
            folded.append(plain)
            starts.extend(offset + place for place in begins)
            ends.extend(offset + place for place in finishes)
            starts.append(beyond - 1)
            ends.append(beyond)
        offset = beyond
    return " ".join(folded), starts, ends


def _fold_word(word: str, rules: TextRules) -> tuple[str, list[int], list[int]]:
    """The steps of `fold`, with the places of the characters carried along.

    Marks that Unicode puts into another order keep the order of their places: they belong to one letter anyway.
    """
    is_word = _patterns(rules).word.fullmatch
    if word.isalpha() and is_word(whole := fold(word, rules)):  # one token, whichever letter comes from which
        return whole, [0] * len(whole), [len(word)] * len(whole)
    origins = [place for place, sign in enumerate(word) for _ in unicodedata.normalize("NFKD", sign)]
    lower = _lower(unicodedata.normalize("NFKD", word), rules)
    plain: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for sign, origin in zip(lower, origins, strict=True):
        here = _PLAIN[rules.accents][ord(sign)]
        plain.append(here)
        starts += [origin] * len(here)
        ends += [origin + 1] * len(here)
        if not here and ends:
            ends[-1] = origin + 1
    return _compose("".join(plain), starts, ends, rules.accents)


def _compose(plain: str, starts: list[int], ends: list[int], accents: str) -> tuple[str, list[int], list[int]]:
    """Delete accents, unless they are kept, and compose what is left.

    In pieces that begin with an ASCII sign: it joins none before it.
    """
    text: list[str] = []
    begins: list[int] = []
    finishes: list[int] = []
    for piece in _PIECES.finditer(plain):
        first, last = piece.span()
        head = first + plain[first].isascii()
        deleted = _ACCENTS.match(plain, head) if accents == "fold" else None
        rest = deleted.end() if deleted else head
        if head > first:
            ends[first] = ends[rest - 1]
        elif rest < last:
            starts[rest] = starts[first]
        kept = plain[first:head] + plain[rest:last]
        composed = unicodedata.normalize("NFC", kept)
        text.append(composed)
        if composed == kept:
            begins += starts[first:head] + starts[rest:last]
            finishes += ends[first:head] + ends[rest:last]
            continue
        # Of letters that are not ASCII no token takes a part only, so each may stand for all of them.
        more = len(composed)
        if plain[first:head] == composed[0]:
            begins.append(starts[first])
            finishes.append(ends[first])
            first = rest
            more -= 1
        begins += [starts[first]] * more
        finishes += [ends[last - 1]] * more
    return "".join(text), begins, finishes


def tokenize_phrase(text: str, rules: TextRules = ENGLISH) -> list[str]:
    """The tokens of a keyphrase: as for a document, and what stands in parentheses is deleted.

    >>> tokenize_phrase("Support Vector Machines (SVM)?")
    ['support', 'vector', 'machines']
    """
    return _tokens(_delete(_PARENTHESES, "()", _without_brackets(fold(text, rules))), rules)


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


def stem_words(words: Sequence[str], rules: TextRules = ENGLISH) -> tuple[str, ...]:
    """What several words are compared by: their stems; characters, in a language without blanks.

    >>> stem_words(["neural", "networks"])
    ('neural', 'network')
    >>> stem_words(["Häuser"], TextRules("de")), stem_words(["图像", "分类"], TextRules("zh"))
    (('haus',), ('图', '像', '分', '类'))
    """
    if rules.language == languages.ENGLISH:
        return tuple(map(stem, words))
    if rules.unspaced:
        words = [unit for word in words for unit in languages.units(word)]
    return tuple(_key(word, rules.language) for word in words)


@lru_cache(maxsize=1 << 20)
def _key(word: str, language: str) -> str:
    """The stem of a word, in lower case and without accents whatever the text has: people write it either way."""
    return "".join(fold(languages.stemmer(language)(word.lower())).split()) or word


def find_run(text: str, run: str) -> int:
    """Where ``run`` first occurs in ``text`` as whole words one after another, or -1; of both, words between blanks.

    The position is that of a character, which orders as those of the words do.

    >>> find_run("a deep graph", "deep graph"), find_run("a deep graph", "graph")
    (2, 7)
    >>> find_run("a subgraph", "graph")
    -1
    """
    return f" {text} ".find(f" {run} ") if run else -1
