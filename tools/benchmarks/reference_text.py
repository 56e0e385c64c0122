"""Preparing and evaluating written down plainly: what `tools/bench.py` compares the plug-in with.

One process, nothing remembered: every word is stemmed where it stands, every phrase is looked for at every position.
The results are those of ``exhird prepare`` and ``exhird evaluate`` for plain text: lower case words between blanks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from onmt_exhird.corpus import Example, join_source, within_limits
from onmt_exhird.stream import ABSENT, PRESENT, Phrase, read_leniently
from onmt_exhird.text import tokenize_phrase


def stems(words: Iterable[str]) -> list[str]:
    from nltk.stem.porter import PorterStemmer

    stemmer = PorterStemmer()
    return [stemmer.stem(word) for word in words]


def find(run: Sequence[str], text: Sequence[str]) -> int:
    """Where a run of words begins in a text, -1 if nowhere.

    >>> find(["b", "c"], ["a", "b", "c"]), find(["c", "b"], ["a", "b", "c"])
    (1, -1)
    """
    for position in range(len(text) - len(run) + 1):
        if text[position : position + len(run)] == run:
            return position
    return -1


def prepare(records: Path, src: Path, tgt: Path) -> None:
    """What ``exhird prepare`` writes for a training split."""
    with open(records) as lines, open(src, "w") as sources, open(tgt, "w") as targets:
        for line in lines:
            record = json.loads(line)
            source = join_source(record["title"], record["abstract"])
            text = stems(source)
            present: list[tuple[int, int, Phrase]] = []
            absent: list[Phrase] = []
            seen: list[list[str]] = []
            for words in map(tokenize_phrase, record["keywords"]):
                stemmed = stems(words)
                if stemmed in seen:
                    continue
                seen.append(stemmed)
                position = find(stemmed, text)
                if position < 0:
                    absent.append(Phrase(tuple(words), ABSENT))
                else:
                    present.append((position, -len(words), Phrase(tuple(words), PRESENT)))
            example = Example(source, [phrase for _, _, phrase in sorted(present)] + absent)
            if within_limits(example):
                sources.write(f"{example.src_line}\n")
                targets.write(f"{example.tgt_line}\n")


def f1_at_m(sources: Iterable[str], gold: Iterable[str], predictions: Iterable[str]) -> dict[str, float]:
    """F1@M of present and absent phrases: from the averages of precision and recall over all documents."""
    sums = {kind: [0.0, 0.0] for kind in ("present", "absent")}
    documents = 0
    for source, wanted, predicted in zip(sources, gold, predictions, strict=True):
        documents += 1
        text = stems(source.split())
        sides: list[dict[str, list[list[str]]]] = []
        for line in (wanted, predicted):
            found: dict[str, list[list[str]]] = {"present": [], "absent": []}
            for phrase in read_leniently(line):
                run = stems(phrase.words)
                kind = "absent" if find(run, text) < 0 else "present"
                if run not in found[kind]:
                    found[kind].append(run)
            sides.append(found)
        for kind, (precision, recall) in sums.items():
            right = sum(run in sides[0][kind] for run in sides[1][kind])
            sums[kind] = [precision + right / max(len(sides[1][kind]), 1), recall + right / max(len(sides[0][kind]), 1)]
    return {
        kind: 2 * precision * recall / (precision + recall) / documents if precision + recall else 0.0
        for kind, (precision, recall) in sums.items()
    }
