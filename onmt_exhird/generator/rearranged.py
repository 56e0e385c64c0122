"""Phrases that a text says without having them in one piece: "design of systems" is systems design.

Who indexes a document writes down what it says, not how: of the absent phrases of Inspec's indexers one in seven can be
had by putting words of the text together in one of three ways. Few of those that can be had are right, so a candidate
counts only as far as the decoder has written its parts, and the document looks like one whose indexers do such things.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from onmt_exhird.generator.chances import RearrangedChance, log_odds
from onmt_exhird.generator.documents import Document
from onmt_exhird.generator.phrases import BREAK, ByStems, Reader
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

    def places(self, shape: str) -> Iterator[int]:
        """Where it begins in the shape of a text."""
        return (match.start() for match in re.finditer(f"(?={self.shape})", shape))


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


@dataclass
class Candidate:
    """A phrase that a text may say: how often it does, and by which pattern and of which parts at first."""

    kind: int
    parts: tuple[tuple[str, ...], tuple[str, ...]]
    times: int = 0


def shape_of(tokens: Sequence[str]) -> str:
    """A sign for each token, as in `Pattern`.

    >>> shape_of("analysis and design of the systems .".split())
    'w&wotw.'
    """
    signs = {"and": "&", "or": "&", "of": "o"} | dict.fromkeys(NO_PARTS, ".") | dict.fromkeys(ARTICLES, "t")
    return "".join(signs.get(token, "w" if len(token) > 1 and token.isalpha() else ".") for token in tokens)


def candidates(tokens: Sequence[str]) -> dict[tuple[str, ...], Candidate]:
    """What a text may say by each pattern, a word not twice.

    >>> list(candidates("design and analysis of systems".split()))
    [('systems', 'analysis')]
    """
    shape, found = shape_of(tokens), dict[tuple[str, ...], Candidate]()
    for pattern in PATTERNS:
        for place in pattern.places(shape):
            words = tuple(tokens[place + offset] for offset in pattern.phrase)
            if len(set(words)) == len(words):
                there = tokens[place : place + len(pattern.shape)]
                first, second = (tuple(there[part]) for part in pattern.parts)
                found.setdefault(words, Candidate(pattern.kind, (first, second))).times += 1
    return found


class Case(NamedTuple):
    """A phrase that does not stand in a document, which may say it.

    facts   what is known of it, in the order of `RearrangedChance`'s weights
    """

    words: tuple[str, ...]
    stems: tuple[str, ...]
    facts: tuple[float, ...]


def unbroken(document: Document) -> Iterator[str]:
    """The tokens of a document, with a full stop wherever a reader stops at what is no token.

    >>> list(unbroken(Document("Theory: graphs", ["theory", "graphs"], [(0, 6), (8, 14)])))
    ['theory', '.', 'graphs']
    """
    before = 0
    for token, (start, end) in zip(document.tokens, document.spans, strict=True):
        if BREAK.search(document.text, before, start):
            yield "."
        yield token
        before = end


def cases(reader: Reader, written: ByStems) -> Iterator[Case]:
    """Of a document, given what the decoder has written for it: none of what is written, none twice."""
    document, seen = reader.document, set(written)
    present = {stems for stems, phrase in written.items() if phrase.present}
    words_each = sum(map(len, present)) / max(1, len(present))
    of_document = (math.log(max(1, len(document.tokens))), float(len(present)), words_each)
    for words, found in candidates(list(unbroken(document))).items():
        stems = stem_words(words, reader.rules)
        if stems in seen or len(set(stems)) < len(stems) or reader.occurrences(stems):
            continue
        seen.add(stems)
        parts = sum(stem_words(part, reader.rules) in present for part in found.parts)
        kind = (float(found.kind == 1), float(found.kind == 2))
        yield Case(words, stems, (*kind, float(parts), float(min(found.times, TIMES)), *of_document))


def likely_cases(
    chance: RearrangedChance, least: float, reader: Reader, written: ByStems
) -> Iterator[tuple[Case, float]]:
    """Those of a document that are at least so likely, and how likely."""
    threshold = log_odds(least)
    for case in cases(reader, written):
        odds = chance.odds(case.facts)
        if odds >= threshold:
            yield case, 1 / (1 + math.exp(-odds))
