"""From what a search has written to keyphrases that people can read."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from onmt_exhird.generator.documents import Document
from onmt_exhird.generator.results import Keyphrase, PhraseAttention, Span
from onmt_exhird.languages import begins_unspaced, units
from onmt_exhird.stream import DIGIT, END, SEPARATOR, TAGS, UNK
from onmt_exhird.subwords import MARKERS, bare, goes_on, join
from onmt_exhird.text import ENGLISH, TextRules, fold, stem_words
from onmt_exhird.textmodel import TextModel

DIGITS = 4  # of a score: more say nothing
NEVER = {UNK, SEPARATOR}
CODE = re.compile(r"[a-z]\d{1,3}", re.I)
BREAK = re.compile(r"[:;!?]\s|\s[-–—]\s")  # noqa: RUF001  what a reader stops at, though tokens do not show it


Stems = tuple[str, ...]
ByStems = dict[Stems, Keyphrase]  # the phrases of a document, none twice


class Raw(NamedTuple):
    """A phrase as the search wrote it.

    words    of the text, put together of their pieces
    place    of its tag in the stream
    score    of the phrase
    places   of each word in the stream: from, up to
    first    what exclusion takes for its first word
    """

    words: tuple[str, ...]
    place: int
    score: float
    places: tuple[Span, ...] = ()
    first: str = ""


def read_stream(
    tokens: Sequence[str], log_probs: Sequence[float], max_words: int, text: TextModel | None = None
) -> Iterator[Raw]:
    """The phrases of a stream, given each token's log P, and how words become tokens.

    The end of a phrase of ``max_words`` was not predicted, so it does not count; where words have pieces it was.

    >>> [raw] = read_stream(["<p_start>", "graph", ";", "</s>"], [-9.0, -1.0, -2.0, -9.0], 5)
    >>> raw.words, round(math.log(raw.score), 3)
    (('graph',), -1.5)
    """
    has_pieces = text is not None and text.subwords is not None
    unspaced = text is not None and text.rules.unspaced
    place = 0
    for position, token in enumerate(tokens):
        if token in TAGS:
            place = position
        elif token == END:
            pieces, values = tokens[place + 1 : position], list(log_probs[place + 1 : position])
            starts = [n for n, piece in enumerate(pieces) if not (has_pieces and n and _goes_on(pieces, n, False))]
            if has_pieces or len(pieces) < max_words:
                values.append(log_probs[position])
            words = join(pieces) if has_pieces else pieces
            spans = zip(starts, [*starts[1:], len(pieces)], strict=True)
            count = 1
            while has_pieces and count < len(pieces) and _goes_on(pieces, count, unspaced):
                count += 1
            first = "".join(bare(piece) for piece in pieces[:count]) if has_pieces else pieces[0]
            places = tuple((place + 1 + start, place + 1 + end) for start, end in spans)
            yield Raw(tuple(words), place, math.exp(sum(values) / len(values)), places, first)


def _goes_on(pieces: Sequence[str], number: int, unspaced: bool) -> bool:
    """Whether a piece goes on with the word before it, as `join` has it."""
    return goes_on(pieces[number], unspaced) and pieces[number - 1] not in MARKERS


class Reader:
    """Finds phrases in a document, by stems; in a language without blanks by characters."""

    def __init__(self, document: Document, rules: TextRules = ENGLISH) -> None:
        self.document, self.rules = document, rules
        self.tokens, self.spans = _characters(document) if rules.unspaced else (document.tokens, document.spans)
        # By what the stem must begin with. Stemming all words of an abstract would take as long as all else here: an
        # English stem begins as its word does, so most words need none.
        self.places: dict[str, list[int]] = defaultdict(list)
        for place, token in enumerate(self.tokens):
            self.places[token[0].lower()[0] if rules.language == "en" else self._stem(token)].append(place)

    def _stem(self, token: str) -> str:
        return stem_words((token,), self.rules)[0]

    def occurrences(self, stems: Sequence[str]) -> list[int]:
        """The places of the tokens where a run of stems begins."""
        found = self.places.get(stems[0][0] if self.rules.language == "en" else stems[0], [])
        for offset, root in enumerate(stems):
            places = (place for place in found if place + offset < len(self.tokens))
            found = [place for place in places if self._stem(self.tokens[place + offset]) == root]
        return found

    def has_all(self, stems: Sequence[str]) -> bool:
        """Whether the document has each of some stems, wherever they stand; one twice in succession only where it has
        that.
        """
        return all(self.occurrences(tuple(run)) for _, run in groupby(stems))

    def span(self, place: int, count: int) -> Span:
        """The characters of so many tokens."""
        return self.spans[place][0], self.spans[place + count - 1][1]

    def keyphrase(self, raw: Raw, attention: PhraseAttention | None = None) -> Keyphrase | None:
        """A phrase for people; None if it cannot be read: an unknown word, a number that stands nowhere.

        Nor, if it stands nowhere, one that says one word twice, as "tree tree" (80 of 1.8 million of authors do), nor a
        mere code, as "g34" of a classification that some journals ask for (1,180 of 680,000 of authors' absent ones).
        Nor one that stands only across a break, as in "leaks: locating" (5 of 3,295 present ones, none of them right).
        """
        if not NEVER.isdisjoint(raw.words) or not any(word == DIGIT or word[0].isalnum() for word in raw.words):
            return None
        stems = stem_words(raw.words, self.rules)
        found = self.occurrences(stems)
        places = [place for place in found if not BREAK.search(self.document.text, *self.span(place, len(stems)))]
        if found and not places:
            return None
        words = list(raw.words)
        if not places and (DIGIT in words or _says_one_word(raw, self.rules) or CODE.fullmatch(" ".join(words))):
            return None
        offset = 0
        for number, word in enumerate(words):
            if word == DIGIT:
                start, end = self.spans[places[0] + offset]
                words[number] = " ".join(fold(self.document.text[start:end], self.rules).split())
            offset += len(units(word)) if self.rules.unspaced else 1
        spans = tuple(self.span(place, len(stems)) for place in places)
        surface = self.document.text[slice(*spans[0])] if spans else None
        return Keyphrase(_readable(words, self.rules), surface, bool(spans), round(raw.score, DIGITS), spans, attention)


def _characters(document: Document) -> tuple[list[str], list[Span]]:
    """The characters of a document in a language without blanks, each with its span.

    Where one became several, or several one, each has the span of all that stands between two blanks.
    """
    tokens: list[str] = []
    spans: list[Span] = []
    for token, (start, end) in zip(document.tokens, document.spans, strict=True):
        own = units(token)
        tokens += own
        is_simple = len(own) == end - start and begins_unspaced(token)
        spans += [(start + n, start + n + 1) for n in range(len(own))] if is_simple else [(start, end)] * len(own)
    return tokens, spans


def _says_one_word(raw: Raw, rules: TextRules) -> bool:
    """Whether a phrase says one word twice or more often, and nothing else.

    Without blanks a word is what exclusion takes for one, a piece; but two alike of one character may be a word.
    """
    if len(raw.words) > len(set(raw.words)) == 1:
        return True
    whole, first = "".join(raw.words), raw.first
    return rules.unspaced and len(whole) > len(first) > 1 and whole == first * (len(whole) // len(first))


def _readable(words: Sequence[str], rules: TextRules) -> str:
    """Words as people write them: where the language has no blanks, without them."""
    text = words[0]
    for before, word in pairwise(words):
        without = word == "'s" or (rules.unspaced and begins_unspaced(before[-1]) and begins_unspaced(word))
        text += word if without else f" {word}"
    return text
