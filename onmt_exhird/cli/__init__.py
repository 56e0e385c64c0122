"""``exhird``, one command with verbs. Each verb is a module with ``add_parser``, which names its ``run``.

Exit codes: 0 done, 1 a check failed (``doctor``), 2 a user's mistake, 3 some records failed (``generate``),
130 interrupted. Whoever closes the pipe has seen enough: that is 0.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from onmt_exhird import __version__
from onmt_exhird.cli import output
from onmt_exhird.errors import ExhirdError


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="exhird",
        description="Keyphrase generation by exclusive hierarchical decoding.",
        epilog="example: exhird generate abstracts.txt",
    )
    parser.add_argument("--version", action="version", version=f"exhird {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True)
    from onmt_exhird.cli import doctor, evaluate, export, generate, prepare, report, serve

    for verb in (generate, serve, prepare, export, evaluate, report, doctor):
        verb.add_parser(verbs)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    if sys.stderr is None:  # it was closed; then print would put sentences among the answers
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        try:
            return _run(argv)
        finally:
            output.flush()
    except BrokenPipeError:
        output.forget()
        return 0
    except ExhirdError as error:
        print(f"exhird: error: {error}", file=sys.stderr)
        return 2


def _run(argv: Sequence[str] | None) -> int:
    # Read when torch is loaded: threads that wait for each other soon sleep, where on a busy machine they would spin.
    if not os.environ.get("OMP_WAIT_POLICY"):
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    args = build_parser().parse_args(argv)
    try:
        return args.run(args)
    except ExhirdError as error:
        print(f"exhird {args.verb}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"exhird {args.verb}: interrupted", file=sys.stderr)
        return 130
