"""Documents longer than those a model was trained on: read in parts, whose phrases vote.

Chosen on 70 whole articles of SemEval's training part (7,000 words; `tools/studies/article_study.py`): present F1@5 and
F1@M 0.139 and 0.160 if the beginning is read, 0.112 and 0.128 if all is read at once, 0.213 and 0.229 if in parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from onmt_exhird.generator.documents import Document
from onmt_exhird.generator.phrases import ByStems, Raw, Reader
from onmt_exhird.generator.results import Keyphrase, Keyphrases, PhraseAttention, Token
from onmt_exhird.text import stem_words

OVERLAP = 50  # tokens of a part that are those of the next, too: a phrase at the edge is whole in one of them
MOST = 300  # parts of a document that are read: 105,000 tokens
FIRST = 4  # what the first part, title and abstract, counts for beside any other
ENOUGH = 2  # votes
PHRASES = 10  # of a document that is read in several parts, unless its first part has more


class Stream(NamedTuple):
    """What the search wrote for a part: its phrases, and where it looked for each, if that was asked for."""

    phrases: list[Raw]
    attentions: Sequence[PhraseAttention | None]


class Part(NamedTuple):
    """A part of a document, and the place of its first token there."""

    start: int
    tokens: list[str]


def parts(document: Document, size: int) -> list[Part]:
    """The parts of a document that are read, of at most so many tokens each; none if it has no tokens.

    >>> [(part.start, len(part.tokens)) for part in parts(Document("", ["a"] * 120, []), 100)]
    [(0, 100), (50, 70)]
    """
    step = max(size - OVERLAP, 1)
    starts = range(0, max(len(document.tokens) - OVERLAP, 1), step) if len(document.tokens) > size else range(1)
    return [Part(start, document.tokens[start : start + size]) for start in starts[:MOST] if document.tokens]


@dataclass
class Votes:
    """What the parts of a document say of a phrase: how many have it, and with which scores altogether."""

    phrase: Keyphrase
    count: int = 0
    total: float = 0.0

    def add(self, weight: int, score: float) -> None:
        self.count += weight
        self.total += weight * score
        self.phrase = replace(self.phrase, score=max(self.phrase.score, score))


def phrases_of(reader: Reader, streams: Iterable[Stream]) -> list[ByStems]:
    """The phrases of each part, by their stems: none twice, none that cannot be read."""
    found = []
    for stream in streams:
        of_part: ByStems = {}
        for raw, looked in zip(stream.phrases, stream.attentions, strict=True):
            key = stem_words(raw.words, reader.rules)
            if key not in of_part and (phrase := reader.keyphrase(raw, looked)) is not None:
                of_part[key] = phrase
        found.append(of_part)
    return found


def vote(of_parts: Sequence[ByStems]) -> ByStems:
    """The phrases of a document that was read in several parts, the best first.

    Kept are those of the first part, and others that several parts have.
    """
    votes: dict[tuple[str, ...], Votes] = {}
    for number, of_part in enumerate(of_parts):
        for key, phrase in of_part.items():
            votes.setdefault(key, Votes(phrase)).add(1 if number else FIRST, phrase.score)
    kept = [(key, one) for key, one in votes.items() if one.count >= ENOUGH]
    kept.sort(key=lambda pair: -pair[1].total)
    return {key: one.phrase for key, one in kept[: max(PHRASES, len(of_parts[0]))]}


def merge(reader: Reader, streams: Sequence[Stream]) -> ByStems:
    """The phrases of a document, given what was written for its parts."""
    of_parts = phrases_of(reader, streams)
    return of_parts[0] if len(of_parts) == 1 else vote(of_parts) if of_parts else {}


def answer(document: Document, read: Sequence[Part], phrases: Sequence[Keyphrase], attention: bool) -> Keyphrases:
    """The keyphrases of a document, of which these parts were read."""
    end = read[-1].start + len(read[-1].tokens) if read else 0
    tokens = tuple(map(Token, document.tokens[:end], document.spans[:end])) if attention else None
    return Keyphrases(tuple(phrases), document.text, end < len(document.tokens), tokens)
