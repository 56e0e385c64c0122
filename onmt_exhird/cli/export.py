"""``exhird export``: a checkpoint of onmt_train as a model folder that stands on its own."""

from __future__ import annotations

import argparse
from pathlib import Path

_DESCRIPTION = """\
Make a model folder of a checkpoint: config.json (sizes, version of the text rules, how to search), model.safetensors,
vocab.txt, subwords.model if words are cut into pieces, and README.md, the card. exhird generate, exhird serve and
KeyphraseGenerator take it; OpenNMT-py is no longer needed. The same checkpoint gives the same bytes.

Models are ExHiRD, catSeq (OpenNMT-py's rnn), catSeqD and catSeqCorr.
"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "export",
        help="make a model folder of a checkpoint",
        description=_DESCRIPTION,
        epilog="example: exhird export exhird_step_150000.pt my-model --precision float16 --name my-model",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=".pt file of onmt_train, or another model folder")
    parser.add_argument("folder", type=Path, metavar="DIR", help="made if it does not exist")
    parser.add_argument(
        "--precision",
        choices=("float32", "float16", "int8"),
        default="float32",
        help="of the file: float16 halves it; int8 has the tables of words in eight bits; default: float32",
    )
    parser.add_argument("--card", type=Path, metavar="FILE", help="a README of your own instead of the one made here")
    parser.add_argument("--name", help="the model's name; default: that of the checkpoint")
    parser.add_argument("--window", metavar="N|all", help="search: the model's own exclusive window; default: 1")
    parser.add_argument("--beam-size", type=int, metavar="N", help="search: the model's own beam; default: 1")
    parser.add_argument("--max-source", type=int, metavar="N", help="tokens it was trained with; default: 400")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from onmt_exhird.errors import ExhirdError
    from onmt_exhird.generator.folder import write_folder
    from onmt_exhird.generator.loading import load
    from onmt_exhird.search import parse_window

    try:
        card = args.card.read_text(encoding="utf-8") if args.card else None
    except (OSError, UnicodeDecodeError) as error:
        raise ExhirdError(f"cannot read the card {args.card}: {error}") from None
    trained = load(args.checkpoint)
    window = "all" if args.window is not None and parse_window(args.window) is None else args.window
    options = trained.options.but(
        {"window": int(window) if window not in (None, "all") else window, "beam_size": args.beam_size}
    )
    trained = replace(trained, name=args.name or trained.name, options=options)
    if args.max_source is not None:
        if args.max_source < 1:
            raise ExhirdError(f"--max-source is {args.max_source}; give at least 1")
        trained = replace(trained, max_source=args.max_source)
    trained.build()  # a model that cannot be built is not written
    write_folder(trained, args.folder, args.precision, card)
    for path in sorted(args.folder.iterdir()):
        print(f"written      {path}, {path.stat().st_size:,} bytes")
    return 0
