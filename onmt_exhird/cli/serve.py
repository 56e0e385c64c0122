"""``exhird serve``: a page and a service with keyphrases, on one's own machine."""

from __future__ import annotations

import argparse
import logging
import os
import re
import signal
import sys
from collections.abc import Callable
from types import FrameType

from onmt_exhird.errors import ExhirdError

_DESCRIPTION = """\
Serve a page to paste a text into, and a service for programs, on this machine only unless told otherwise.

  /                    the page
  POST /v1/keyphrases  {"documents": ["A text.", {"id": "b", "title": "...", "text": "..."}], "window": 1}
  /v1/model  /healthz  /readyz  /metrics  /openapi.json

Ctrl-C and SIGTERM end it: what is under way is answered first. docs/server.md says more.
"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "serve",
        help="a page and a service with keyphrases",
        description=_DESCRIPTION,
        epilog="example: exhird serve --port 8000",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--model", metavar="M", help="a folder, a .pt file or a name; default: the model of the package"
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="address to listen on; default: %(default)s")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="0: any free one; default: %(default)s")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="answer to this name too, as when a proxy passes requests on; may be repeated",
    )
    parser.add_argument(
        "--max-megabytes", type=float, default=1.0, metavar="MB", help="of one request; default: %(default)s"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if not 0.001 <= args.max_megabytes <= 1000:
        raise ExhirdError(f"--max-megabytes {args.max_megabytes:g} is not between 0.001 and 1000")
    for name in args.allow_host:
        if not re.fullmatch(r"[\w.-]+", name):  # it would never be the name of a request
            raise ExhirdError(f"--allow-host {name}: give the name alone, without https:// and without a port")
    from onmt_exhird.serve.limits import MEGABYTE, Limits
    from onmt_exhird.serve.server import Server, quieten_waitress
    from onmt_exhird.serve.worker import Generator

    def load() -> Generator:
        from onmt_exhird import KeyphraseGenerator

        generator = KeyphraseGenerator.from_pretrained(args.model)
        generator("What is only made once, when it is needed first, is made now, not for the first request.")
        return generator

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    quieten_waitress()
    limits = Limits(bytes=round(args.max_megabytes * MEGABYTE))
    server = Server(load, args.host, args.port, limits, args.allow_host)
    _stop_on_signals(server.stop)
    shown = f"[{args.host}]" if ":" in args.host else args.host
    print("exhird serve: loading the model ...", flush=True)
    server.run(lambda: print(f"exhird serve: open http://{shown}:{server.port}/  (Ctrl-C ends it)", flush=True))
    print("exhird serve: stopped", flush=True)
    if server.worker.alive:  # a batch that outlasted the wait; tearing its libraries down under it may crash
        os._exit(0)
    return 0


def _stop_on_signals(stop: Callable[[], None]) -> None:
    """The first Ctrl-C or SIGTERM stops the server in good order, a second one at once."""

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
