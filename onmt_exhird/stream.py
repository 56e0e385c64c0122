"""The grammar of the stream: a keyphrase set written as one line.

    stream := ( tag word+ ";" )*
    tag    := "<p_start>" | "<a_start>"

``</s>`` comes from the vocabulary, not from the line. This module is the one place that knows
the structure tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from onmt_exhird.errors import ExhirdError

PRESENT = "<p_start>"
ABSENT = "<a_start>"
END = ";"
TAGS = (PRESENT, ABSENT)
STRUCTURE = (PRESENT, ABSENT, END)

UNK = "<unk>"
PAD = "<blank>"
BOS = "<s>"
EOS = "</s>"

DIGIT = "<digit>"
SEPARATOR = "<sep>"  # between title and body; in no phrase, so nothing matches across it
MASK = "<mask>"  # where a phrase was hidden; in no vocabulary, so a model takes it for an unknown word


class StreamError(ExhirdError):
    """A line that is not a stream."""


class Phrase(NamedTuple):
    """One keyphrase of a stream.

    >>> Phrase(("neural", "network"), PRESENT).text
    'neural network'
    """

    words: tuple[str, ...]
    tag: str

    @property
    def text(self) -> str:
        return " ".join(self.words)


def parse(line: str) -> list[Phrase]:
    """Read a stream; a line that is not one raises `StreamError` with the position and reason.

    >>> parse("<p_start> graph ; <a_start> spanning tree ;")
    [Phrase(words=('graph',), tag='<p_start>'), Phrase(words=('spanning', 'tree'), tag='<a_start>')]
    """
    phrases: list[Phrase] = []
    tag: str | None = None
    words: list[str] = []
    for position, token in enumerate(line.split(), start=1):
        if tag is None:
            if token not in TAGS:
                raise StreamError(f"token {position} is '{token}', but a phrase must begin with {' or '.join(TAGS)}")
            tag = token
        elif token in TAGS:
            raise StreamError(f"token {position} is the tag {token} inside a phrase; '{END}' is missing")
        elif token == END:
            if not words:
                raise StreamError(f"token {position} closes a phrase that has no words")
            phrases.append(Phrase(tuple(words), tag))
            tag, words = None, []
        else:
            words.append(token)
    if tag is not None:
        raise StreamError(f"the last phrase '{' '.join([tag, *words])}' is not closed by '{END}'")
    return phrases


def render(phrases: Iterable[Phrase]) -> str:
    """Write phrases as a stream; the inverse of `parse`.

    >>> render([Phrase(("graph",), PRESENT)])
    '<p_start> graph ;'
    """
    return " ".join(" ".join((phrase.tag, *phrase.words, END)) for phrase in phrases)


def read_leniently(line: str) -> list[Phrase]:
    """The phrases of any system's output line, a stream or plain ``a ; b ; c``; without a tag, the tag is empty.

    Never fails: what is between two ``;`` is a phrase, whatever stands there.

    >>> read_leniently("<p_start> graph ; spanning tree")
    [Phrase(words=('graph',), tag='<p_start>'), Phrase(words=('spanning', 'tree'), tag='')]
    """
    phrases: list[Phrase] = []
    for part in line.split(END):
        tokens = part.split()
        if words := tuple(token for token in tokens if token not in TAGS):
            phrases.append(Phrase(words, tokens[0] if tokens[0] in TAGS else ""))
    return phrases
