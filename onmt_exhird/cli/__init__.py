"""``exhird``, one command with verbs. Each verb is a module with ``add_parser``, which names its ``run``.

Exit codes: 0 done, 1 a check failed (``doctor``), 2 a user's mistake, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from onmt_exhird import __version__
from onmt_exhird.errors import ExhirdError


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="exhird",
        description="Keyphrase generation by exclusive hierarchical decoding.",
        epilog="example: exhird prepare --input papers.jsonl --output data --split train",
    )
    parser.add_argument("--version", action="version", version=f"exhird {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    from onmt_exhird.cli import doctor, evaluate, prepare, report

    for verb in (prepare, evaluate, report, doctor):
        verb.add_parser(verbs)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    # Read when torch is loaded: threads that wait for each other sleep, where on a busy machine they would spin.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    args = build_parser().parse_args(argv)
    try:
        return args.run(args)
    except ExhirdError as error:
        print(f"exhird {args.verb}: error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print(f"exhird {args.verb}: interrupted", file=sys.stderr)
        return 130
