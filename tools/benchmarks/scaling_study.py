"""How time and memory grow with the lengths and the number of documents: tables in Markdown.

    python tools/benchmarks/scaling_study.py > scaling.md

Every cell is measured in a process of its own, with one thread. Lengths: the paper's model, milliseconds of CPU per
document. Numbers of documents: a model of 32 units and 1,000 words, since here not the model but what is kept for each
document matters.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import chdir
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.clock import Span, clock, peak_rss_mb, say

from onmt_exhird.errors import ExhirdError

TOOLS = Path(__file__).resolve().parents[1]
SOURCES = (100, 200, 400, 800, 1600)
TARGETS = (14, 27, 54, 108)
PHRASES = (3, 6, 12, 24)
COUNTS = (1_000, 10_000, 100_000)
SMALL = {"vocab": 1000, "source": 30, "target": 10}  # of documents, where their number is studied
SHORT = ("-min_phrases", "2", "-max_phrases", "2", "-max_phrase_words", "2")
BUCKET = 20_000  # the recipe's


def run(script: str, *arguments: object) -> dict[str, Any]:
    """What a tool prints as JSON, run in a process of its own."""
    command = [sys.executable, str(TOOLS / script), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ExhirdError(f"{script} {' '.join(map(str, arguments))} failed: its complaint is above")
    return json.loads(done.stdout)


def off_the_line(points: Sequence[tuple[float, float]]) -> float:
    """How far the farthest point is from the line through first and last, as a share of the line there.

    >>> off_the_line([(0, 1.0), (1, 2.0), (2, 3.0)]), off_the_line([(0, 0.0), (1, 1.0), (2, 4.0)])
    (0.0, 0.5)
    """
    (x_0, y_0), (x_1, y_1) = points[0], points[-1]
    expected = [y_0 + (x - x_0) * (y_1 - y_0) / (x_1 - x_0) for x, _ in points]
    return max(abs(y / e - 1) for (_, y), e in zip(points, expected, strict=True) if e)


def markdown(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---:"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


def study_lengths(args: Namespace) -> None:
    """Print CPU time per document over source and target lengths."""
    common = ["--json", "--no-reference", "--repeat", args.repeat]
    train = ["train", "--documents", 200, "--steps", args.steps, *common]
    decode = ["decode", "--documents", 32, *common]
    targets = [["--target", target] for target in TARGETS]
    phrases = [["-min_phrases", count, "-max_phrases", count] for count in PHRASES]
    sources = [["--source", source] for source in SOURCES]
    studies: list[tuple[str, list[Any], list[list[Any]], str]] = [
        ("Training, source length", train, sources, "source_tokens"),
        ("Decoding, source length", decode, sources, "source_tokens"),
        ("Training, target length", train, targets, "target_tokens"),
        ("Decoding, target length", decode, phrases, "target_tokens"),
    ]
    for title, command, variations, key in studies:
        rows, points = [], []
        for variation in variations:
            say(f"{title}: {' '.join(map(str, variation))}")
            found = run("bench.py", *command, *variation)
            milliseconds = 1000 / found["docs_per_cpu_second"]
            points.append((found[key], milliseconds))
            rows.append((found["source_tokens"], found["target_tokens"], f"{milliseconds:.1f}", found["rss_mb"]))
        print(f"{title}: at most {off_the_line(points):.0%} off a straight line\n")
        print(markdown(["source tokens", "target tokens", "CPU ms per document", "MB"], rows), flush=True)


def small_corpus(count: int) -> None:
    from benchmarks.documents import Shape, write_corpus

    write_corpus(Path(), Shape(**SMALL), 1, count)


def small_options(count: int) -> list[str]:
    """Of ``onmt_train``."""
    sizes = ["-src_vocab_size", SMALL["vocab"], "-tgt_vocab_size", SMALL["vocab"], "-hidden_size", 32]
    return [*map(str, sizes), "-bucket_size", str(min(count, BUCKET))]


def measure_decode(count: int) -> tuple[Span, float]:
    """``onmt_translate``, with loading the model."""
    import torch
    from bench import RECIPE
    from benchmarks.models import prepare_search
    from onmt.bin.translate import translate

    torch.set_num_threads(1)
    small_corpus(count)
    opt = prepare_search(RECIPE, small_options(count), ["-beam_size", "1", "-batch_size", "32", *SHORT])
    span = clock(lambda: translate(opt))
    return span, peak_rss_mb()


def measure_batches(count: int) -> tuple[Span, float]:
    """An epoch of training batches."""
    from bench import RECIPE
    from benchmarks.models import Training

    small_corpus(count)
    training = Training(RECIPE, small_options(count))

    def read() -> None:
        seen = 0
        while seen < count:
            seen += len(next(training.batches)[0]["src"])

    span = clock(read)
    return span, peak_rss_mb()


def measure_text(what: str, count: int) -> tuple[Span, float]:
    """``exhird prepare`` or ``exhird evaluate``."""
    shape = [part for name, value in SMALL.items() for part in (f"--{name}", value)]
    found = run("bench.py", what, "--json", "--no-reference", "--repeat", 1, "--documents", count, *shape)
    return Span(found["seconds"], found["cpu_seconds"]), found["rss_mb"]


MEASURES: dict[str, Callable[[int], tuple[Span, float]]] = {
    "decode": measure_decode,
    "batches": measure_batches,
    "prepare": lambda count: measure_text("prepare", count),
    "evaluate": lambda count: measure_text("evaluate", count),
}


def measure_cell(what: str, count: int) -> None:
    """Measure one thing in this process."""
    import logging
    import warnings

    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        span, rss = MEASURES[what](count)
    print(json.dumps({"seconds": span.wall, "cpu_seconds": span.cpu, "rss_mb": round(rss)}))


def study_counts(args: Namespace) -> None:
    """Print CPU time and memory over the number of documents."""
    rows = []
    for what in MEASURES:
        cells = []
        for count in args.counts:
            say(f"{what}: {count:,} documents")
            cells.append(run("scaling_study.py", "--cell", what, count))
        times = [f"{1000 * cell['cpu_seconds'] / count:.2f}" for cell, count in zip(cells, args.counts, strict=True)]
        memory = [cell["rss_mb"] for cell in cells]
        bytes_each = [
            f"{1e6 * (more - less) / (many - few):,.0f}"
            for (less, more), (few, many) in zip(pairwise(memory), pairwise(args.counts), strict=True)
        ]
        rows.append((what, *times, *memory, *bytes_each))
    numbers = [f"{count:,}" for count in args.counts]
    growth = [f"bytes per document, {few} to {many}" for few, many in pairwise(numbers)]
    head = ["", *(f"CPU ms per document, {n}" for n in numbers), *(f"MB, {n}" for n in numbers), *growth]
    print("Number of documents\n")
    print(markdown(head, rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("lengths", "counts"), help="one of the two studies")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="repetitions of a cell (default 3)")
    parser.add_argument("--steps", type=int, default=10, metavar="N", help="training steps in one (default 10)")
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, metavar="N", help="numbers of documents")
    parser.add_argument("--cell", nargs=2, metavar=("WHAT", "N"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    try:
        if args.cell:
            measure_cell(args.cell[0], int(args.cell[1]))
            return 0
        if args.only != "counts":
            study_lengths(args)
        if args.only != "lengths":
            study_counts(args)
    except ExhirdError as error:
        print(f"scaling_study.py: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
