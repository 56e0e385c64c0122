"""Measure how fast training, decoding, generating, preparing and evaluating are, and how near the machine's peak.

    python tools/bench.py generate --texts abstracts.jsonl --model folder --against yake
    python tools/bench.py train --batch 10 --json
    python tools/bench.py decode --threads 2 --beam 4
    python tools/bench.py train -exclusive_loss_window 4

The documents are invented and have KP20k's shape. Options that are not listed go to onmt_train or onmt_translate.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

from benchmarks.clock import Stopwatch, capability, machine_load, processor, say

from onmt_exhird.cli.values import positive
from onmt_exhird.errors import ExhirdError

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "kp20k" / "exhird.yaml"
SMALLEST_VOCABULARY = 30

KEYS = """\
keys of the JSON:
  docs_per_second, docs_per_cpu_second   the median of the repetitions; CPU seconds of all threads and child processes
  gflops            reached, by the clock on the wall; matrix products of real tokens only, padding does not count
  peak_gflops       the best square matrix product with these threads, tried before and after every repetition
  fraction_of_peak  gflops / peak_gflops
  rss_mb            the most memory of the process before the reference runs (prepare, evaluate: of the largest one)
  ratio_to_reference   CPU seconds of the plain implementation on the same documents, divided by ours
  same_as_reference    share of documents with the same output, or whether the output is the same
  yake_docs_per_cpu_second, ratio_to_yake   YAKE, three words at most, ten phrases, and our speed divided by it
  cold_to_import_torch   CPU seconds of exhird generate for one text, divided by those of importing torch
  processor, capability   its name, and the instructions torch computes with: figures of others are not comparable

the plain implementation (tools/benchmarks/reference_model.py, tools/benchmarks/reference_text.py):
  train     a padded grid of phrases and words, the whole distribution at every position, autograd, Adam
  decode    greedy, a document at a time, the whole distribution at every step
  prepare, evaluate   one process that stems every word where it stands and looks for phrases at every position
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=KEYS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,  # -h would take onmt_train's -hidden_size for itself
    )
    parser.add_argument("--help", action="help", help="show this and exit")
    parser.add_argument("what", choices=("train", "decode", "generate", "prepare", "evaluate"))
    parser.add_argument(
        "--batch", type=positive, metavar="N", help="documents in a batch (train: 10, decode: 512, generate: 64)"
    )
    parser.add_argument("--threads", type=positive, default=1, metavar="N", help="threads, or jobs (default 1)")
    parser.add_argument("--json", action="store_true", help="print a JSON object and nothing else")
    parser.add_argument("--config", type=Path, default=RECIPE, metavar="YAML", help="recipe (default: kp20k/exhird)")
    parser.add_argument("--beam", type=positive, default=1, metavar="N", help="decode, generate: beam size (default 1)")
    parser.add_argument("--repeat", type=positive, default=5, metavar="N", help="repetitions (default 5)")
    parser.add_argument("--steps", type=positive, default=20, metavar="N", help="train: in a repetition (default 20)")
    parser.add_argument(
        "--documents",
        type=positive,
        metavar="N",
        help="train: to draw batches from (20,000, the recipe's bucket); decode: 512; generate: 500; others: 3,000",
    )
    parser.add_argument("--source", type=positive, default=190, metavar="N", help="mean source tokens (default 190)")
    parser.add_argument("--target", type=positive, default=27, metavar="N", help="mean target tokens (default 27)")
    parser.add_argument("--vocab", type=positive, default=50_004, metavar="N", help="vocabulary (default 50,004)")
    parser.add_argument("--model", type=Path, metavar="M", help="generate: a model folder (default: an untrained one)")
    parser.add_argument(
        "--texts", type=Path, metavar="FILE", help="generate: lines or records (default: invented ones)"
    )
    parser.add_argument("--against", choices=["yake"], help="generate: measure this on the same texts, too")
    parser.add_argument("--no-reference", action="store_true", help="leave the plain implementation out")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of documents and weights (default 1)")
    return parser


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Run one benchmark in a temporary folder."""
    if args.vocab < SMALLEST_VOCABULARY:
        raise ExhirdError(f"--vocab is {args.vocab}: give at least {SMALLEST_VOCABULARY}")
    if not args.config.is_file():
        raise ExhirdError(f"{args.config} is no file: give a recipe with --config")
    args.config = args.config.resolve()
    args.clock = Stopwatch(args.repeat)
    for name in ("model", "texts"):
        if (path := getattr(args, name)) is not None:
            setattr(args, name, path.resolve())
    if args.what in ("prepare", "evaluate", "generate"):
        if args.options:
            raise ExhirdError(f"unknown option {args.options[0]} for {args.what}")
        from benchmarks import generate, text

        works = {"prepare": text.bench_prepare, "evaluate": text.bench_evaluate}
        work = (works | {"generate": generate.bench_generate})[args.what]
    else:
        import torch
        from benchmarks import models

        torch.set_num_threads(args.threads)
        work = {"train": models.bench_train, "decode": models.bench_decode}[args.what]
    load = machine_load()
    say(f"the machine's load: {' '.join(map(str, load))}")
    with tempfile.TemporaryDirectory() as folder, chdir(folder):  # a recipe names files of the current folder
        found = work(args)
    machine = {"processor": processor(), "capability": capability()}  # now: no earlier may torch be imported
    return found | machine | {"threads": args.threads, "repeat": args.repeat, "seed": args.seed, "load": load}


def main(argv: Sequence[str] | None = None) -> int:
    args, options = build_parser().parse_known_args(argv)
    args.options = options
    logging.disable(logging.INFO)  # OpenNMT-py's
    warnings.simplefilter("ignore", FutureWarning)
    try:
        found = measure(args)
    except ExhirdError as error:
        print(f"bench.py: error: {error}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(found))
    else:
        width = max(map(len, found))
        for key, value in found.items():
            print(f"{key:{width}}  {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
