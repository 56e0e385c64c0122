"""From what a search has written to keyphrases that people can read."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from onmt_exhird.generator.documents import Document
from onmt_exhird.generator.results import Keyphrase, PhraseAttention, Span
from onmt_exhird.stream import DIGIT, END, SEPARATOR, TAGS, UNK
from onmt_exhird.text import fold, stem, stem_words

DIGITS = 4  # of a score: more say nothing
NEVER = {UNK, SEPARATOR}


class Raw(NamedTuple):
    """A phrase as the search wrote it: its words, the place of its tag in the stream, and its score."""

    words: tuple[str, ...]
    place: int
    score: float


def read_stream(tokens: Sequence[str], log_probs: Sequence[float], max_words: int) -> Iterator[Raw]:
    """The phrases of a stream, given each token's log P.

    The end of a phrase of ``max_words`` was not predicted, so it does not count.

    >>> [raw] = read_stream(["<p_start>", "graph", ";", "</s>"], [-9.0, -1.0, -2.0, -9.0], 5)
    >>> raw.words, round(math.log(raw.score), 3)
    (('graph',), -1.5)
    """
    place = 0
    words: list[str] = []
    values: list[float] = []
    for position, (token, value) in enumerate(zip(tokens, log_probs, strict=True)):
        if token in TAGS:
            place, words, values = position, [], []
        elif token == END:
            if len(words) < max_words:
                values.append(value)
            yield Raw(tuple(words), place, math.exp(sum(values) / len(values)))
        else:
            words.append(token)
            values.append(value)


class Reader:
    """Finds phrases in a document, by stems."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.stems = [stem(token) for token in document.tokens]
        self.places: dict[str, list[int]] = defaultdict(list)
        for place, root in enumerate(self.stems):
            self.places[root].append(place)

    def occurrences(self, stems: Sequence[str]) -> list[int]:
        """The places of the tokens where a run of stems begins."""
        count = len(stems)
        return [place for place in self.places.get(stems[0], ()) if self.stems[place : place + count] == list(stems)]

    def span(self, place: int, count: int) -> Span:
        """The characters of so many tokens."""
        return self.document.spans[place][0], self.document.spans[place + count - 1][1]

    def keyphrase(self, raw: Raw, attention: PhraseAttention | None = None) -> Keyphrase | None:
        """A phrase for people; None if it cannot be read: an unknown word, a number that stands nowhere.

        Nor can one that says one word twice, as "tree tree", and stands nowhere: 80 of 1.8 million of authors do.
        """
        if not NEVER.isdisjoint(raw.words) or not any(word == DIGIT or word[0].isalnum() for word in raw.words):
            return None
        count, places = len(raw.words), self.occurrences(stem_words(raw.words))
        words = list(raw.words)
        if not places and (DIGIT in words or len(words) > len(set(words)) == 1):
            return None
        for number, word in enumerate(words):
            if word == DIGIT:
                start, end = self.document.spans[places[0] + number]
                words[number] = " ".join(fold(self.document.text[start:end]).split())
        spans = tuple(self.span(place, count) for place in places)
        surface = self.document.text[slice(*spans[0])] if spans else None
        text = " ".join(words).replace(" 's", "'s")
        return Keyphrase(text, surface, bool(spans), round(raw.score, DIGITS), spans, attention)
