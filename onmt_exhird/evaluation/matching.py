"""From phrases to hits: stemming, filtering, present or absent, and which predictions are right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from onmt_exhird.evaluation.conventions import Convention
from onmt_exhird.stream import ABSENT, PRESENT, SEPARATOR, UNK, Phrase
from onmt_exhird.text import find_run, stem_words

KINDS = ("present", "absent", "total")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Reference:
    """What is the same for every system: a document's stemmed source and its gold phrases of each kind.

    Stemmed sources and phrases are strings, with a blank between words.
    """

    source: str
    gold: dict[str, list[str]]
    gold_text: dict[str, list[str]]

    def kind_of(self, stemmed: str) -> str:
        return "absent" if find_run(self.source, stemmed) < 0 else "present"


@dataclass(frozen=True, slots=True)
class Match:
    """One document's predictions of one kind: in order and without duplicates, and which of them are right."""

    gold: int
    texts: tuple[str, ...]
    right: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class DocumentMatch:
    """One document and one system."""

    kinds: dict[str, Match]
    valid: int
    """Predictions that are left after filtering, duplicates included."""
    tagged: dict[str, tuple[int, int]]
    """Predictions by their own tag, as they stand in the line: all of them, and different ones."""
    missed: dict[str, list[str]]
    duplicates: list[str]
    dropped: list[str]


def _words(words: Iterable[str], tokens: str) -> list[str]:
    """The words as given, or those between the characters that are in no word; the separator remains one."""
    if tokens == "blanks":
        return list(words)
    return [part for word in words for part in ([word] if word == SEPARATOR else _WORD.findall(word))]


def _pieces(phrase: Phrase, convention: Convention) -> Iterator[list[str]]:
    """The phrases that a written phrase stands for; no empty ones."""
    texts = phrase.text.split("/") if convention.slash_splits else [phrase.text]
    for text in texts:
        if words := _words(text.split(), convention.tokens):
            yield words


def _is_valid(words: Sequence[str], convention: Convention) -> bool:
    if UNK in words or (convention.tokens == "words" and UNK.strip("<>") in words):
        return False
    return not (convention.drops_punctuation and ("," in words or "." in words))


def prepare_reference(
    source: Sequence[str], gold: Sequence[Phrase], convention: Convention, gold_stemmed: bool = False
) -> Reference:
    """Stem a document's source and gold phrases and decide which of these are present.

    >>> from onmt_exhird.evaluation.conventions import CONVENTIONS
    >>> from onmt_exhird.stream import read_leniently
    >>> source = "fast spanning trees".split()
    >>> prepare_reference(source, read_leniently("spanning tree ; graph"), CONVENTIONS["exhird"]).gold["present"]
    ['span tree']
    """
    reference = Reference(
        source=" ".join(stem_words(_words(source, convention.tokens), convention.text)),
        gold={kind: [] for kind in KINDS},
        gold_text={kind: [] for kind in KINDS},
    )
    as_given = gold_stemmed and not convention.restems_gold
    seen: set[str] = set()
    for phrase in gold:
        for words in _pieces(phrase, convention):
            stemmed = " ".join(words if as_given else stem_words(words, convention.text))
            if convention.gold_unique and stemmed in seen:
                continue
            seen.add(stemmed)
            for kind in (reference.kind_of(stemmed), "total"):
                reference.gold[kind].append(stemmed)
                reference.gold_text[kind].append(" ".join(words))
    return reference


def match_document(reference: Reference, predictions: Sequence[Phrase], convention: Convention) -> DocumentMatch:
    """Filter and stem one system's predictions for one document and mark those that are right."""
    texts: dict[str, list[str]] = {kind: [] for kind in KINDS}
    right: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    gold = set(reference.gold["total"])
    seen: set[str] = set()
    duplicates: list[str] = []
    dropped: list[str] = []
    valid = 0
    for phrase in predictions:
        for words in _pieces(phrase, convention):
            if not _is_valid(words, convention):
                dropped.append(" ".join(words))
                continue
            valid += 1
            stemmed = " ".join(stem_words(words, convention.text))
            if stemmed in seen:
                duplicates.append(" ".join(words))
                continue
            seen.add(stemmed)
            for kind in (reference.kind_of(stemmed), "total"):
                texts[kind].append(" ".join(words))
                right[kind].append(stemmed in gold)
    if convention.empty_line_counts and not predictions:
        valid = 1
        for kind in ("absent", "total"):
            texts[kind].append("")
            right[kind].append(False)
    return DocumentMatch(
        kinds={kind: Match(len(reference.gold[kind]), tuple(texts[kind]), tuple(right[kind])) for kind in KINDS},
        valid=valid,
        tagged={kind: _count_tagged(predictions, tag) for kind, tag in (("present", PRESENT), ("absent", ABSENT))},
        missed={
            kind: [
                text
                for text, stemmed in zip(reference.gold_text[kind], reference.gold[kind], strict=True)
                if stemmed not in seen
            ]
            for kind in ("present", "absent")
        },
        duplicates=duplicates,
        dropped=dropped,
    )


def _count_tagged(predictions: Sequence[Phrase], tag: str) -> tuple[int, int]:
    words = [phrase.words for phrase in predictions if phrase.tag == tag]
    return len(words), len(set(words))
