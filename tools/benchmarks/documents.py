"""Documents for measuring: no sense, but KP20k's shape, the same for the same seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from random import Random

from onmt_exhird.stream import ABSENT, BOS, EOS, PAD, PRESENT, STRUCTURE, UNK, Phrase, render

SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnprstvwxyz" for vowel in "aeiou"]
SPECIALS = (UNK, PAD, BOS, EOS)
RARE = 0.02  # of the tokens are outside the vocabulary
PRESENT_SHARE = 0.6
WORDS_PER_PHRASE = ((1, 2, 3, 4), (0.25, 0.45, 0.25, 0.05))  # 2.1 on average
TOKENS_PER_PHRASE = 4.1  # with tag and `;`


def spell(number: int) -> str:
    """A word for each number.

    >>> spell(0), spell(7), spell(4321)
    ('bababa', 'babaci', 'baloge')
    """
    return "".join(SYLLABLES[number // 100**power % 100] for power in (2, 1, 0))


@dataclass(frozen=True)
class Shape:
    """Of a corpus; lengths are means, in tokens, the target's with tags, ``;`` and ``</s>``."""

    vocab: int = 50_004
    source: int = 190
    target: int = 27

    @property
    def words(self) -> int:
        """How many words the vocabulary has beside the structure and OpenNMT-py's four tokens."""
        return self.vocab - len(SPECIALS) - len(STRUCTURE)


@dataclass(frozen=True)
class Document:
    """A source and its keyphrases.

    >>> document = next(make_documents(Shape(vocab=30, source=6, target=9), seed=8))
    >>> document.source_line
    'babahe babade bababo babafo babafu'
    >>> document.target_line
    '<p_start> babade bababo babafo ; <a_start> babace bababa ;'
    """

    source: list[str]
    phrases: list[Phrase]

    @property
    def source_line(self) -> str:
        return " ".join(self.source)

    @property
    def target_line(self) -> str:
        return render(self.phrases)

    def record(self) -> str:
        """As ``exhird prepare`` reads it."""
        keywords = [phrase.text for phrase in self.phrases]
        title, abstract = " ".join(self.source[:10]), " ".join(self.source[10:])
        return json.dumps({"title": title, "abstract": abstract, "keywords": keywords})


def _around(random: Random, mean: float, spread: float) -> int:
    """A length: normal, within a third and twice of the mean."""
    return max(1, round(min(max(random.gauss(mean, spread * mean), mean / 3), 2 * mean)))


def make_documents(shape: Shape, seed: int) -> Iterator[Document]:
    """Without end. Words have Zipf's frequencies; some are rare ones that belong to one document."""
    random = Random(f"bench {seed}")
    words = [spell(rank) for rank in range(shape.words)]
    frequencies = list(accumulate(1 / (rank + 2.7) for rank in range(shape.words)))
    rare = shape.words
    while True:
        source = random.choices(words, cum_weights=frequencies, k=_around(random, shape.source, 0.32))
        for position in range(len(source)):
            if random.random() < RARE:
                source[position] = spell(rare + random.randrange(9))
        rare = rare + 9 if rare < 990_000 else shape.words
        count = _around(random, (shape.target - 1) / TOKENS_PER_PHRASE, 0.45)
        present = round(count * PRESENT_SHARE)
        starts = sorted(random.choices(range(len(source)), k=present))
        lengths = random.choices(WORDS_PER_PHRASE[0], WORDS_PER_PHRASE[1], k=count)
        phrases = []
        for index, length in enumerate(lengths):
            if index < present:
                phrases.append(Phrase(tuple(source[starts[index] : starts[index] + length]), PRESENT))
            else:
                phrases.append(Phrase(tuple(random.choices(words, cum_weights=frequencies, k=length)), ABSENT))
        yield Document(source, phrases)


def write_corpus(folder: Path, shape: Shape, seed: int, count: int) -> None:
    """``train.src``, ``train.tgt``, the first of them as ``valid``, and ``vocab.txt``: what a recipe reads."""
    with open(folder / "train.src", "w") as src, open(folder / "train.tgt", "w") as tgt:
        for document in islice(make_documents(shape, seed), count):
            src.write(document.source_line + "\n")
            tgt.write(document.target_line + "\n")
    for side in ("src", "tgt"):
        with open(folder / f"train.{side}") as lines:
            (folder / f"valid.{side}").write_text("".join(islice(lines, 10)))
    entries = [*STRUCTURE, *(spell(rank) for rank in range(shape.words))]
    (folder / "vocab.txt").write_text("".join(f"{word}\t{len(entries) - n}\n" for n, word in enumerate(entries)))
