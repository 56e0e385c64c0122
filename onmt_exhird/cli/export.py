"""``exhird export``: a checkpoint of onmt_train as a model folder that stands on its own."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from onmt_exhird.cli.values import positive, window
from onmt_exhird.errors import ExhirdError

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
    parser.add_argument(
        "--shortlist",
        type=Path,
        metavar="FILE",
        help="words that can be generated, one a line, such as the most frequent of the training targets; the others "
        "of the vocabulary can only be copied from a document, and search is quicker",
    )
    parser.add_argument("--name", help="the model's name; default: that of the checkpoint")
    add = parser.add_argument_group("of another folder, these are kept unless given").add_argument
    add("--window", type=window, metavar="N|all", help="search: the model's own exclusive window; of a .pt 1")
    add("--max-phrases", type=positive, metavar="N", help="search: most phrases it writes unless told; of a .pt 20")
    add("--beam-size", type=positive, metavar="N", help="search: the model's own beam; of a .pt 1")
    add("--max-source", type=positive, metavar="N", help="tokens it was trained with; of a .pt 400")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from onmt_exhird.generator.folder import CARD, CONFIG, read_config, write_folder
    from onmt_exhird.generator.loading import load

    card = None if args.card is None else _read(args.card, "--card")
    trained = load(args.checkpoint)
    search = {"window": args.window, "max_phrases": args.max_phrases, "beam_size": args.beam_size}
    trained = replace(
        trained,
        name=args.name or trained.name,
        options=trained.options.but(search),
        max_source=args.max_source or trained.max_source,
    )
    if args.shortlist is not None:
        from onmt_exhird.generator.shortlist import shorten

        trained = shorten(trained, {line.split("\t")[0] for line in _read(args.shortlist, "--shortlist").split("\n")})
    trained.build()  # a model that cannot be built is not written
    write_folder(trained, args.folder, args.precision, card)
    for name in sorted([CARD, CONFIG, *read_config(args.folder)["files"]]):
        path = args.folder / name
        print(f"written      {path}, {path.stat().st_size:,} bytes")
    return 0


def _read(path: Path, option: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ExhirdError(f"{path} cannot be read: {error.strerror}; name another file with {option}") from None
    except UnicodeDecodeError as error:
        raise ExhirdError(f"{path} is not UTF-8 ({error.reason}); write the file of {option} as UTF-8") from None
