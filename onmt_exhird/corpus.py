"""From a raw document and its keyphrases to a source line and a target line: every rule of the data in one function.

`make_example` applies them all; each can be used alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from onmt_exhird import languages, stream
from onmt_exhird.errors import ExhirdError
from onmt_exhird.stream import ABSENT, PRESENT, SEPARATOR, UNK, Phrase
from onmt_exhird.text import ENGLISH, TextRules, find_run, stem_words, tokenize, tokenize_phrase

MAX_SOURCE = 400
MAX_TARGET = 80
MAX_PHRASE_WORDS = 6
MAX_PHRASE_CHARACTERS = 24  # where there are no blanks between words, which have two characters or three, mostly


class Unusable(ExhirdError):
    """A document that gives no example; ``kind`` is one of a few words to count it by."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


class Filtered(Unusable):
    """A sound document that a rule leaves out."""


class Example(NamedTuple):
    """A source and its keyphrases, in the order in which a model shall produce them."""

    src: list[str]
    phrases: list[Phrase]

    @property
    def src_line(self) -> str:
        return " ".join(self.src)

    @property
    def tgt_line(self) -> str:
        return stream.render(self.phrases)


@dataclass(frozen=True)
class Rules:
    """Which examples to keep: limits in tokens (0: none), the vocabulary of the all-unknown rule (None: no rule).

    And the titles, as `title_key` makes them, of documents that must not be among them. ``text`` are the rules of
    normalising and comparing.
    """

    max_source: int = MAX_SOURCE
    max_target: int = MAX_TARGET
    vocabulary: frozenset[str] | None = None
    excluded_titles: frozenset[str] = frozenset()
    text: TextRules = ENGLISH


def join_source(title: str, body: str, text: TextRules = ENGLISH) -> list[str]:
    """The tokens of a document: title, separator, body. Without a title or a body there is nothing to separate.

    >>> join_source("Graph Theory", "We colour 3 graphs.")
    ['graph', 'theory', '<sep>', 'we', 'colour', '<digit>', 'graphs', '.']
    >>> join_source("", "We colour graphs")
    ['we', 'colour', 'graphs']
    """
    title_tokens, body_tokens = tokenize(title, text), tokenize(body, text)
    if title_tokens and body_tokens:
        return [*title_tokens, SEPARATOR, *body_tokens]
    return title_tokens or body_tokens


def title_key(title: str) -> str:
    """What two copies of a title have in common, raw or prepared by whatever tokeniser: its letters.

    Blanks and punctuation depend on who cut the words, and so does what became ``<digit>``.

    >>> title_key("On-line Sorting in IEEE 802.6") == title_key("online sorting in ieee <digit> . <digit> .")
    True
    """
    return "".join(filter(str.isalpha, "".join(token for token in tokenize(title) if token != stream.DIGIT)))


def split_keywords(keywords: str) -> list[str]:
    """The keyphrases of a string, as KP20k has them.

    >>> split_keywords("graph colouring; trees")
    ['graph colouring', 'trees']
    """
    return [keyword for part in keywords.split(stream.END) if (keyword := part.strip())]


def usable_phrase(words: Sequence[str], text: TextRules = ENGLISH) -> bool:
    """Whether this is a keyphrase: one to six tokens, one of them a word or number, none of them a marker.

    >>> usable_phrase(["graph"]), usable_phrase([","]), usable_phrase(["graph", "<sep>"])
    (True, False, False)
    """
    if not 1 <= len(words) <= MAX_PHRASE_WORDS or SEPARATOR in words or UNK in words:
        return False
    if text.unspaced and sum(len(languages.units(word)) for word in words) > MAX_PHRASE_CHARACTERS:
        return False
    return any(word[0].isalnum() or word[0] == "_" or word == stream.DIGIT for word in words)


def order_phrases(source: Sequence[str], phrases: Iterable[Sequence[str]], rules: TextRules = ENGLISH) -> list[Phrase]:
    """Tag keyphrases as present or absent, order them and remove duplicates; all by their stems.

    Present ones come first, by their first occurrence in the source, the longer first where two begin at the same
    word; then absent ones as given. So the order of present phrases does not depend on the order given.

    >>> [phrase.text for phrase in order_phrases("a deep network for graphs".split(), [["tree"], ["graph"], ["deep"]])]
    ['deep', 'graph', 'tree']
    """
    text = " ".join(stem_words(source, rules))
    present: list[tuple[int, int, Phrase]] = []
    absent: list[Phrase] = []
    seen = set()
    for words in phrases:
        run = stem_words(words, rules)
        stems = " ".join(run)
        if stems in seen:
            continue
        seen.add(stems)
        position = find_run(text, stems)
        if position < 0:
            absent.append(Phrase(tuple(words), ABSENT))
        else:
            present.append((position, -len(run), Phrase(tuple(words), PRESENT)))
    return [phrase for _, _, phrase in sorted(present)] + absent


def _mask(source: list[str], run: Sequence[str], rules: TextRules) -> list[str]:
    """The source with a mask for each occurrence of a run of stems."""
    if rules.unspaced:
        return _mask_characters(source, run, rules)
    masked: list[str] = []
    stems, position = stem_words(source, rules), 0
    while position < len(source):
        found = stems[position : position + len(run)] == tuple(run)
        masked.append(stream.MASK if found else source[position])
        position += len(run) if found else 1
    return masked


def _mask_characters(source: list[str], run: Sequence[str], rules: TextRules) -> list[str]:
    """The same where a phrase is a part of what stands between two blanks: what is left of that stays together."""
    units = [(unit, number) for word in source for number, unit in enumerate(languages.units(word))]
    stems = stem_words([unit for unit, _ in units], rules)
    masked: list[str] = []
    position, after_mask = 0, False
    while position < len(units):
        if stems[position : position + len(run)] == tuple(run):
            masked.append(stream.MASK)
            position, after_mask = position + len(run), True
            continue
        unit, number = units[position]
        if number and not after_mask:
            masked[-1] += unit
        else:
            masked.append(unit)
        position, after_mask = position + 1, False
    return masked


def hide_phrases(example: Example, hidden: Iterable[Phrase], rules: TextRules = ENGLISH) -> Example:
    """The example with some of its phrases gone from the source: they become absent, as do those found in them only.

    A mask takes the place of each occurrence, by stems, those of the longest phrases first.

    >>> example = Example("deep networks for graphs , a deep network".split(), stream.parse("<p_start> deep network ;"))
    >>> hide_phrases(example, example.phrases)
    Example(src=['<mask>', 'for', 'graphs', ',', 'a', '<mask>'], phrases=[Phrase(words=('deep', 'network'), \
tag='<a_start>')])
    """
    source = example.src
    for phrase in sorted(hidden, key=lambda phrase: -len(phrase.words)):
        source = _mask(source, stem_words(phrase.words, rules), rules)
    return Example(source, order_phrases(source, (phrase.words for phrase in example.phrases), rules))


def drop_unknown(source: Collection[str], phrases: Iterable[Phrase], vocabulary: Collection[str]) -> list[Phrase]:
    """Remove the absent phrases all of whose words are outside both vocabulary and source: no model can produce them.

    >>> drop_unknown(["graph"], [Phrase(("zorn",), ABSENT), Phrase(("zorn", "graph"), ABSENT)], {"tree"})
    [Phrase(words=('zorn', 'graph'), tag='<a_start>')]
    """
    known_here = set(source)
    return [
        phrase
        for phrase in phrases
        if phrase.tag == PRESENT or any(word in known_here or word in vocabulary for word in phrase.words)
    ]


def target_length(phrases: Iterable[Phrase]) -> int:
    """The number of tokens of a target line, tags and ``;`` counted.

    >>> target_length(stream.parse("<p_start> graph ; <a_start> spanning tree ;"))
    7
    """
    return sum(len(phrase.words) + 2 for phrase in phrases)


def within_limits(example: Example, max_source: int = MAX_SOURCE, max_target: int = MAX_TARGET) -> bool:
    """Whether neither side has more tokens than allowed; a limit of 0 is none.

    >>> within_limits(Example(["graph"] * 401, []))
    False
    """
    return not (
        (max_source and len(example.src) > max_source) or (max_target and target_length(example.phrases) > max_target)
    )


def make_example(title: str, body: str, keywords: Iterable[str], rules: Rules, removed: Counter[str]) -> Example:
    """The example of a document, or `Unusable`. ``removed`` counts single keyphrases left out, by reason."""
    source = join_source(title, body, rules.text)
    if not source:
        raise Unusable("empty document", "it has no words")
    if rules.excluded_titles and title_key(title) in rules.excluded_titles:
        raise Filtered("title excluded", "its title is one of those that must not occur")
    given = [tokenize_phrase(keyword, rules.text) for keyword in keywords]
    usable = [words for words in given if usable_phrase(words, rules.text)]
    phrases = order_phrases(source, usable, rules.text)
    removed[f"empty or over {MAX_PHRASE_WORDS} words"] += len(given) - len(usable)
    removed["duplicate after stemming"] += len(usable) - len(phrases)
    if not phrases:
        detail = f"none of its keyphrases has 1 to {MAX_PHRASE_WORDS} words" if given else "it has no keyphrases"
        raise Unusable("no keyphrases", detail)
    if rules.vocabulary is not None:
        known = drop_unknown(source, phrases, rules.vocabulary)
        removed["absent and unknown"] += len(phrases) - len(known)
        phrases = known
    if not phrases:
        raise Filtered("only unknown keyphrases", "every keyphrase is absent and outside the vocabulary")
    example = Example(source, phrases)
    if not within_limits(example, rules.max_source, rules.max_target):
        raise Filtered("too long", f"{len(source)} source and {target_length(phrases)} target tokens")
    return example


def read_vocabulary(path: Path) -> frozenset[str]:
    """The tokens of an OpenNMT-py vocabulary file: one a line, with or without a tab and its count."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ExhirdError(f"{path}: the vocabulary cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ExhirdError(f"{path}: the vocabulary is not UTF-8; is it made by onmt_build_vocab?") from error
    tokens = frozenset(token for line in lines if (token := line.partition("\t")[0].strip()))
    if not tokens:
        raise ExhirdError(f"{path}: the vocabulary has no tokens; make it with onmt_build_vocab")
    return tokens
