"""``exhird report``: finished runs as the paper's tables, ours beside the paper's."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

_DESCRIPTION = """\
Collect finished runs into the paper's tables: present and absent keyphrases, duplicates, numbers, window study,
ablation, baselines with exclusive search. Ours stand beside the paper's with the differences, means with their
standard deviations over seeds. Written are report.md (its plots beside it), report.tex and report.html.

A RUN is a folder with a folder for each model and seed:
  RUN/exhird-h-34/kp20k.K1.json   scores on a data set, searched with a window: K0 is no exclusion; K1, K2, ..., Kall
                                  (exhird evaluate --src F --gold F --pred F --format json)
  RUN/exhird-h-34/train.log       the log of its training, under way or done, of which the curve is drawn
  RUN/exhird-h-34/run.json        model, seed, and as far as known steps, training_documents, minutes, commands
Models of the paper: transformer, catseq, catseqd, catseqcorr, exhird-s, exhird-h; others are shown too. Its data
sets: inspec, krapivin, semeval, kp20k; others likewise. What is missing is listed, and shown as -.
"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "report",
        help="put finished runs into the paper's tables",
        description=_DESCRIPTION,
        epilog="example: exhird report run/kp20k --output report",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders of runs")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="made if it does not exist")
    parser.add_argument("--format", choices=("markdown", "latex", "html"), help="only this one; default: all three")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from onmt_exhird.report.collect import collect
    from onmt_exhird.report.contents import build, cautions, missing, not_shown
    from onmt_exhird.report.pages import write

    collection = collect(args.runs)
    options = ["--format", args.format] if args.format else []
    command = shlex.join(["exhird", "report", *map(str, args.runs), "--output", str(args.output), *options])
    paths = write(build(collection, command), args.output, args.format)
    files = sum(len(one.files) for one in collection.runs)
    print(f"collected    {files} score files of {len(collection.runs)} runs")
    for line in cautions(collection):
        print(f"differs      {line}")
    for line in [*missing(collection), *not_shown(collection)]:
        print(f"missing      {line}")
    print("written      " + ", ".join(map(str, paths)))
    return 0
