"""What a generator gives back: keyphrases, one by one or as the set of a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, overload

Span = tuple[int, int]  # characters text[start:end] of the document


@dataclass(frozen=True)
class Token:
    """A token of the document as the model read it, and where it stands; the separator stands nowhere (empty span)."""

    text: str
    span: Span


@dataclass(frozen=True)
class WordAttention:
    """Where the word level looked when it wrote a word.

    weights   one for each token of the document, together 1
    copied    0 to 1: how much of the word's probability came from copying it off the document
    """

    word: str
    weights: tuple[float, ...]
    copied: float

    def to_dict(self) -> dict[str, Any]:
        return {"word": self.word, "weights": list(self.weights), "copied": self.copied}


@dataclass(frozen=True)
class PhraseAttention:
    """Where the decoder looked for a phrase: the phrase level (none in a model without one), and each of its words.

    forbidden   first words that exclusion kept from beginning this phrase
    """

    weights: tuple[float, ...] | None
    words: tuple[WordAttention, ...]
    forbidden: tuple[str, ...]

    def within(self, start: int, length: int) -> PhraseAttention:
        """The same, of a document of so many tokens, of which these are a part that begins there."""

        def widened(weights: tuple[float, ...]) -> tuple[float, ...]:
            return (0.0,) * start + weights + (0.0,) * (length - start - len(weights))

        if not start and all(len(word.weights) == length for word in self.words):
            return self
        words = tuple(replace(word, weights=widened(word.weights)) for word in self.words)
        return replace(self, weights=None if self.weights is None else widened(self.weights), words=words)

    def to_dict(self) -> dict[str, Any]:
        return {
            "weights": None if self.weights is None else list(self.weights),
            "words": [word.to_dict() for word in self.words],
            "forbidden": list(self.forbidden),
        }


@dataclass(frozen=True)
class Keyphrase:
    """One keyphrase.

    text       readable, in lower case
    surface    as the document writes it where it stands first; None if it does not stand there
    present    whether it stands in the document, compared by stems
    score      0 to 1, higher is better: the geometric mean of the probabilities of its words and of its end; of a
               phrase of the thesaurus, the probability that the authors chose it
    spans      every place where it stands: text[start:end] of the document
    attention  if it was asked for, and the decoder wrote it
    """

    text: str
    surface: str | None
    present: bool
    score: float
    spans: tuple[Span, ...]
    attention: PhraseAttention | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as it goes into JSON."""
        plain = {
            "text": self.text,
            "surface": self.surface,
            "present": self.present,
            "score": self.score,
            "spans": [list(span) for span in self.spans],
        }
        return plain if self.attention is None else plain | {"attention": self.attention.to_dict()}


@dataclass(frozen=True)
class Keyphrases(Sequence[Keyphrase]):
    """The keyphrases of a document, in the order in which the model wrote them; last those of its thesaurus.

    document    the text that spans speak of; of a title and a body these, with a line break between them
    truncated   whether less than the whole document was read
    tokens      the document as the model read it, if attention was asked for

    >>> phrases = Keyphrases((Keyphrase("graph", "Graphs", True, 0.5, ((3, 9),)),), "On Graphs")
    >>> phrases.texts, len(phrases), phrases[0].surface
    (['graph'], 1, 'Graphs')
    """

    phrases: tuple[Keyphrase, ...]
    document: str
    truncated: bool = False
    tokens: tuple[Token, ...] | None = None

    @overload
    def __getitem__(self, index: int) -> Keyphrase: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Keyphrase, ...]: ...

    def __getitem__(self, index: int | slice) -> Keyphrase | tuple[Keyphrase, ...]:
        return self.phrases[index]

    def __len__(self) -> int:
        return len(self.phrases)

    def __iter__(self) -> Iterator[Keyphrase]:
        return iter(self.phrases)

    @property
    def texts(self) -> list[str]:
        """Their texts."""
        return [phrase.text for phrase in self.phrases]

    @property
    def present(self) -> tuple[Keyphrase, ...]:
        """Those that stand in the document."""
        return tuple(phrase for phrase in self.phrases if phrase.present)

    @property
    def absent(self) -> tuple[Keyphrase, ...]:
        """Those that do not."""
        return tuple(phrase for phrase in self.phrases if not phrase.present)

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """The document in pieces, each with whether it is in a phrase.

        >>> phrases = [Keyphrase(text, text, True, 0.5, (span,)) for text, span in (("a b", (0, 3)), ("b c", (2, 5)))]
        >>> list(Keyphrases(tuple(phrases), "a b c d").pieces())
        [('a b c', True), (' d', False)]
        """
        marks: list[Span] = []
        for start, end in sorted(span for phrase in self.phrases for span in phrase.spans):
            if marks and start <= marks[-1][1]:
                marks[-1] = (marks[-1][0], max(end, marks[-1][1]))
            else:
                marks.append((start, end))
        done = 0
        for start, end in [*marks, (len(self.document), len(self.document))]:
            if done < start:
                yield self.document[done:start], False
            if start < end:
                yield self.document[start:end], True
            done = end

    def _repr_html_(self) -> str:
        """How a notebook shows it: the document with its present phrases marked, and the absent ones."""
        text = "".join(f"<mark>{escape(piece)}</mark>" if marked else escape(piece) for piece, marked in self.pieces())
        inferred = ", ".join(f"<em>{escape(phrase.text)}</em>" for phrase in self.absent)
        return f"<p>{text}</p>" + (f"<p>{inferred}</p>" if inferred else "")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as it goes into JSON."""
        plain: dict[str, Any] = {
            "keyphrases": [phrase.to_dict() for phrase in self.phrases],
            "truncated": self.truncated,
        }
        if self.tokens is not None:
            plain["tokens"] = [{"text": token.text, "span": list(token.span)} for token in self.tokens]
        return plain
