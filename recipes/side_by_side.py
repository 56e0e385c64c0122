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
from onmt_exhird.evaluation.inputs import each_gold, each_prediction, each_source
from onmt_exhird.stream import Phrase
from onmt_exhird.text import ENGLISH, TextRules, stem_words
from onmt_exhird.textmodel import beside


def compare(gold: list[Phrase], predicted: list[Phrase], rules: TextRules = ENGLISH) -> list[str]:
    """One line a phrase: those predicted, in order, then those that were missed.

    >>> from onmt_exhird.stream import read_leniently
    >>> compare(read_leniently("graph ; trees"), read_leniently("tree ; code"))
    ['= tree', '+ code', '- graph']
    """
    wanted = {stem_words(phrase.words, rules) for phrase in gold}
    found = {stem_words(phrase.words, rules) for phrase in predicted}
    lines = [f"{'=' if stem_words(phrase.words, rules) in wanted else '+'} {phrase.text}" for phrase in predicted]
    return lines + [f"- {phrase.text}" for phrase in gold if stem_words(phrase.words, rules) not in found]


def read_alike(
    src: str, gold: str, pred: str, count: int, rules: TextRules
) -> tuple[list[str], list[list[Phrase]], list[list[Phrase]]]:
    """The first documents' sources, gold phrases and predictions, as many of one as of another."""
    sources = list(islice(each_source(src, rules), count))
    wanted = list(islice(each_gold(gold, rules), count))
    predicted = list(islice(each_prediction(pred, rules), count))
    for path, lines in ((gold, wanted), (pred, predicted)):
        if len(lines) != len(sources):
            both = f"{src} has {len(sources)} of the first {count} lines, {path} has {len(lines)}"
            raise ExhirdError(f"{both}; give files of the same documents")
    return sources, wanted, predicted


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python recipes/side_by_side.py --src test.src --gold test.tgt --pred test.pred --count 3",
    )
    parser.add_argument("--src", required=True, help="source lines")
    parser.add_argument("--gold", required=True, help="target lines")
    parser.add_argument("--pred", required=True, help="predicted lines")
    parser.add_argument("--count", type=int, default=5, help="how many documents (default: %(default)s)")
    args = parser.parse_args(arguments)
    try:
        rules = beside(Path(args.src)).rules
        files = read_alike(args.src, args.gold, args.pred, args.count, rules)
    except ExhirdError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2
    for source, gold, predicted in zip(*files, strict=True):
        print(textwrap.fill(source, 100))
        for line in compare(gold, predicted, rules):
            print(f"    {line}")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
