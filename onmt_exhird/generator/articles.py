"""Documents longer than those a model was trained on: read in parts, whose phrases are brought together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onmt_exhird.generator.documents import Document
from onmt_exhird.generator.phrases import Raw, Reader
from onmt_exhird.generator.results import Keyphrases, PhraseAttention, Token
from onmt_exhird.text import stem_words


class Stream(NamedTuple):
    """What the search wrote for a part: its phrases, and where it looked for each, if that was asked for."""

    phrases: list[Raw]
    attentions: Sequence[PhraseAttention | None]


def parts(document: Document, size: int) -> list[Document]:
    """The parts of a document that are read, of at most so many tokens each."""
    return [document._replace(tokens=document.tokens[:size], spans=document.spans[:size])]


def merge(document: Document, read: Sequence[Document], streams: Sequence[Stream], attention: bool) -> Keyphrases:
    """The keyphrases of a document, given what was written for its parts; none twice, compared by stems."""
    reader = Reader(document)
    found = {}
    for stream in streams:
        for raw, looked in zip(stream.phrases, stream.attentions, strict=True):
            key = stem_words(raw.words)
            if key not in found and (phrase := reader.keyphrase(raw, looked)) is not None:
                found[key] = phrase
    tokens = None
    if attention:
        tokens = tuple(map(Token, read[0].tokens, read[0].spans))
    truncated = sum(len(part.tokens) for part in read) < len(document.tokens)
    return Keyphrases(tuple(found.values()), document.text, truncated, tokens)
