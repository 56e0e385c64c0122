"""Shows predictions beside the gold keyphrases, for a few documents.

A phrase that both have is marked with ``=``, one that only the prediction has with ``+``, one that it
lacks with ``-``; phrases are compared by their stems, in the language of text.json beside the source.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from onmt_exhird.errors import ExhirdError
from onmt_exhird.stream import Phrase, read_leniently
from onmt_exhird.text import ENGLISH, TextRules, stem_words
from onmt_exhird.textmodel import beside


def compare(gold: list[Phrase], predicted: list[Phrase], rules: TextRules = ENGLISH) -> list[str]:
    """One line a phrase: those predicted, in order, then those that were missed.

    >>> compare(read_leniently("graph ; trees"), read_leniently("tree ; code"))
    ['= tree', '+ code', '- graph']
    """
    wanted = {stem_words(phrase.words, rules) for phrase in gold}
    found = {stem_words(phrase.words, rules) for phrase in predicted}
    lines = [f"{'=' if stem_words(phrase.words, rules) in wanted else '+'} {phrase.text}" for phrase in predicted]
    return lines + [f"- {phrase.text}" for phrase in gold if stem_words(phrase.words, rules) not in found]


def read_lines(path: Path, count: int) -> list[str]:
    try:
        with path.open(encoding="utf-8") as file:
            return [line.strip() for line in islice(file, count)]
    except OSError as error:
        raise ExhirdError(f"cannot read {path}: {error.strerror}") from None


def read_alike(paths: Sequence[Path], count: int) -> list[list[str]]:
    """The first lines of each file, as many of one as of another."""
    files = [read_lines(path, count) for path in paths]
    for path, lines in zip(paths, files, strict=True):
        if len(lines) != len(files[0]):
            both = f"{paths[0]} has {len(files[0])} of the first {count} lines, {path} has {len(lines)}"
            raise ExhirdError(f"{both}; give files of the same documents")
    return files


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python recipes/side_by_side.py --src test.src --gold test.tgt --pred test.pred --count 3",
    )
    parser.add_argument("--src", type=Path, required=True, help="source lines")
    parser.add_argument("--gold", type=Path, required=True, help="target lines")
    parser.add_argument("--pred", type=Path, required=True, help="predicted lines")
    parser.add_argument("--count", type=int, default=5, help="how many documents (default: %(default)s)")
    args = parser.parse_args(arguments)
    try:
        files = read_alike([args.src, args.gold, args.pred], args.count)
        rules = beside(args.src).rules
    except ExhirdError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2
    for source, gold, predicted in zip(*files, strict=True):
        print(textwrap.fill(source, 100))
        for line in compare(read_leniently(gold), read_leniently(predicted), rules):
            print(f"    {line}")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
