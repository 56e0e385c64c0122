"""Which phrases that it does not contain would suit a document? Those of the documents nearest to it, for reinforce.py.

    python tools/neighbours.py --data sample --among computing other

Authors choose two of many fitting phrases, so that what a model draws is hardly ever right, and it learns little from
it. What many authors of similar documents have chosen is a better guess. For each document of --data PREFIX, that is of
PREFIX.src and PREFIX.tgt of exhird prepare, the nearest hundred among all documents of --among are looked up, itself
left out, and PREFIX.near has a line with their phrases that do not stand in it, as stems, and how likely each is: as
often as such phrases were the document's own. A thousand documents among 360,000 take a minute, and 3 GB of memory.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from reinforcement.files import read_all, write_near
from reinforcement.index import Index
from tqdm import tqdm

from onmt_exhird.errors import ExhirdError
from onmt_exhird.stream import read_leniently
from onmt_exhird.text import find_run, stem_words

NEAREST = 100
KEPT = 12  # phrases of a document
BINS = np.linspace(0, 2, 11)  # of strength, in which it is counted how often a phrase was the document's own


class Corpus(NamedTuple):
    """Documents, each as its words' stems with blanks between them, and the stems of its phrases."""

    sources: list[str]
    phrases: list[list[str]]

    @classmethod
    def read(cls, prefixes: Sequence[str]) -> Corpus:
        pairs = read_all(prefixes)
        return cls(
            [_stems(source.split()) for source, _ in pairs],
            [[_stems(phrase.words) for phrase in read_leniently(stream)] for _, stream in pairs],
        )


def _stems(words: Sequence[str]) -> str:
    return " ".join(stem_words(words))


class Neighbourhood:
    """Says which phrases the neighbours of a document have."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._index = Index(source.split() for source in corpus.sources)
        having = Counter(phrase for phrases in corpus.phrases for phrase in set(phrases))
        self._rarity = {phrase: math.log(len(corpus.phrases) / count) for phrase, count in having.items()}

    def phrases(self, source: str) -> list[tuple[str, float]]:
        """Phrases that do not stand in a source, the strongest first.

        A phrase is as strong as those who have it are near, a part of all, times the log of its rarity: else those
        that everybody has would always win.
        """
        near = self._index.nearest(source.split(), NEAREST + 1)
        near = [(number, how) for number, how in near if self._corpus.sources[number] != source][:NEAREST]
        whole = sum(how for _, how in near)
        strength: Counter[str] = Counter()
        for number, how in near:
            for phrase in set(self._corpus.phrases[number]):
                strength[phrase] += how * self._rarity[phrase] / whole  # type: ignore[assignment]
        absent = (pair for pair in strength.most_common() if find_run(source, pair[0]) < 0)
        return [pair for pair, _ in zip(absent, range(KEPT), strict=False)]


def calibrate(found: Sequence[Sequence[tuple[str, float]]], own: Sequence[Sequence[str]]) -> list[dict[str, float]]:
    """How likely the phrases found for some documents are, given their own: as often as those of like strength were.

    A stronger one is never less likely.
    """
    strengths = np.array([strength for phrases in found for _, strength in phrases])
    right = np.array([phrase in mine for phrases, mine in zip(found, own, strict=True) for phrase, _ in phrases])
    places = np.clip(np.digitize(strengths, BINS) - 1, 0, len(BINS) - 2)
    counts = np.bincount(places, minlength=len(BINS) - 1)
    shares = np.bincount(places, right, minlength=len(BINS) - 1) / np.maximum(counts, 1)
    middles = (BINS[1:] + BINS[:-1]) / 2
    xs, ys = np.concatenate([[0], middles]), np.concatenate([[0], np.maximum.accumulate(shares)])
    return [{phrase: round(float(np.interp(strength, xs, ys)), 4) for phrase, strength in one} for one in found]


def look_up(args: argparse.Namespace) -> None:
    among = Corpus.read(args.among)
    print(f"documents    {len(among.sources)} to look in", file=sys.stderr)
    neighbourhood = Neighbourhood(among)
    for prefix in args.data:
        corpus = Corpus.read([prefix])
        shown = tqdm(corpus.sources, unit=" documents", disable=None)
        found = [neighbourhood.phrases(source) for source in shown]
        path = write_near(prefix, calibrate(found, corpus.phrases))
        first = sum(bool(one) and one[0][0] in own for one, own in zip(found, corpus.phrases, strict=True))
        print(f"written      {path}; the strongest phrase is an author's in {first / len(found):.1%} of the documents")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="neighbours.py",
        description="Find phrases that would suit documents among those of similar ones.",
        epilog="example: python tools/neighbours.py --data sample --among computing other",
    )
    add = parser.add_argument
    add("--data", nargs="+", required=True, metavar="PREFIX", help="of files of exhird prepare: PREFIX.src, PREFIX.tgt")
    add("--among", nargs="+", required=True, metavar="PREFIX", help="of those to look in")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    try:
        look_up(args)
    except (ExhirdError, OSError) as error:
        print(f"neighbours.py: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
