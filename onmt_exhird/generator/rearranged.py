"""Phrases that a text says without having them in one piece: "design of systems" is systems design.

Who indexes a document writes down what it says, not how: of the absent phrases of Inspec's indexers one in nine can be
had by putting words of the text together in one of three ways (of those of authors one in eighty). Few of what can be
had are right, so a phrase is likely as far as the decoder has written its parts, the text says it more than once and
looks like those whose indexers do such things.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import mul
from typing import NamedTuple

from onmt_exhird.generator.chances import RearrangedChance, log_odds
from onmt_exhird.generator.documents import Document
from onmt_exhird.generator.phrases import BREAK, ByStems, Raw, Reader, Stems
from onmt_exhird.text import stem_words

TIMES = 3  # more of them say no more
ARTICLES = frozenset("the a an".split())
NO_PARTS = ARTICLES | frozenset(  # what begins or ends no phrase, but may stand beside "and" or "of"
    "all any as at based be been being both by can different each first for from had has have in into is it its many "
    "may more most new not on other our several some such than that their these they this those to two using various "
    "was we were which will with".split()
)


class Pattern(NamedTuple):
    """Words of a text that may say a phrase.

    shape    what stands there: w a word, & "and" or "or", o "of", t an article
    kind     0: "A and B C", A C; 1: "A B and C", A C; 2: "Y of X", X Y
    phrase   the places of the phrase's words
    parts    the runs of words that, if they are phrases of the document, speak for it
    """

    shape: str
    kind: int
    phrase: tuple[int, ...]
    parts: tuple[slice, slice]

    @property
    def sign(self) -> int:
        """The place of the one token that is no word and no article."""
        return next(place for place, sign in enumerate(self.shape) if sign in "&o")


PATTERNS = (
    Pattern("w&ww", 0, (0, 3), (slice(0, 1), slice(2, 4))),
    Pattern("w&www", 0, (0, 3, 4), (slice(0, 1), slice(2, 5))),
    Pattern("ww&w", 1, (0, 3), (slice(0, 2), slice(3, 4))),
    Pattern("www&w", 1, (0, 1, 4), (slice(0, 3), slice(4, 5))),
    Pattern("wow", 2, (2, 0), (slice(0, 1), slice(2, 3))),
    Pattern("woww", 2, (2, 3, 0), (slice(0, 1), slice(2, 4))),
    Pattern("wowww", 2, (2, 3, 4, 0), (slice(0, 1), slice(2, 5))),
    Pattern("wotw", 2, (3, 0), (slice(0, 1), slice(3, 4))),
    Pattern("wotww", 2, (3, 4, 0), (slice(0, 1), slice(3, 5))),
    Pattern("wotwww", 2, (3, 4, 5, 0), (slice(0, 1), slice(3, 6))),
)
BY_SIGN = {sign: [(one.sign, one) for one in PATTERNS if one.shape[one.sign] == sign] for sign in "&o"}
SIGNS = {"and": "&", "or": "&", "of": "o"} | dict.fromkeys(NO_PARTS, ".") | dict.fromkeys(ARTICLES, "t")


def shape_of(tokens: Sequence[str]) -> str:
    """A sign for each token, as in `Pattern`.

    >>> shape_of("analysis and design of the systems .".split())
    'w&wotw.'
    """
    return "".join([SIGNS.get(token) or ("w" if len(token) > 1 and token.isalpha() else ".") for token in tokens])


def matches(document: Document) -> Iterator[tuple[Pattern, int]]:
    """Where a document says something by a pattern, and no reader stops within.

    >>> from onmt_exhird.generator.documents import read_document
    >>> [(pattern.shape, place) for pattern, place in matches(read_document("A theory of: all. Design of systems"))]
    [('wow', 5)]
    """
    text, tokens, spans = document
    shape = shape_of(tokens)
    for sign in re.finditer("[&o]", shape):
        for before, pattern in BY_SIGN[sign[0]]:
            place = sign.start() - before
            if place < 0 or not shape.startswith(pattern.shape, place):
                continue
            if not BREAK.search(text, spans[place][0], spans[place + len(pattern.shape) - 1][1]):
                yield pattern, place


@dataclass(slots=True)
class Case:
    """A phrase that a document may say: its words, the kind of its pattern and how many of its parts are written where
    it does first; how often it does; and whether the decoder has written it in the document's order, "Y of X".
    """

    words: tuple[str, ...]
    kind: int
    parts: int
    times: int = 0
    again: bool = False

    def facts(self, of_document: Sequence[float]) -> tuple[float, ...]:
        """What is known of it, in the order of `RearrangedChance`'s weights."""
        return float(self.kind == 1), float(self.kind == 2), self.parts, min(self.times, TIMES), *of_document


def cases(reader: Reader, written: ByStems) -> dict[Stems, Case]:
    """Of a document, by their stems, given what the decoder has written for it, which is left out."""
    document, found = reader.document, dict[Stems, Case]()
    present = {stems for stems, phrase in written.items() if phrase.present}
    for pattern, place in matches(document):
        there = document.tokens[place : place + len(pattern.shape)]
        words = tuple([there[offset] for offset in pattern.phrase])
        stems = stem_words(words, reader.rules)
        if stems not in found:
            if stems in written or len(set(stems)) < len(stems):
                continue
            parts = sum([stem_words(there[part], reader.rules) in present for part in pattern.parts])
            found[stems] = Case(words, pattern.kind, parts)
        found[stems].times += 1
        found[stems].again |= pattern.kind == 2 and stem_words(there, reader.rules) in present
    return found


def of_document(reader: Reader, written: ByStems) -> tuple[float, ...]:
    """What is known of all cases of a document alike."""
    lengths = [len(stems) for stems, phrase in written.items() if phrase.present]
    return math.log(max(1, len(reader.document.tokens))), len(lengths), sum(lengths) / max(1, len(lengths))


def likely_cases(
    chance: RearrangedChance, least: float, reader: Reader, written: ByStems
) -> Iterator[tuple[Stems, Raw]]:
    """Those of a document that are at least so likely and do not stand there: their stems, and with their chance.

    Not what the decoder has written in the document's order: nobody wants both "theory of graphs" and graphs theory.
    """
    weights, threshold = chance.weights, log_odds(least)
    known = of_document(reader, written)
    for stems, case in cases(reader, written).items():
        odds = sum(map(mul, weights, case.facts(known))) + chance.offset
        if odds >= threshold and not case.again and not reader.occurrences(stems):
            yield stems, Raw(case.words, 0, 1 / (1 + math.exp(-odds)))
