"""How early should a model say that a document has no more keyphrases? Tries it on validation data.

    python tools/calibrate.py --model exhird_step_36000.pt --src valid.src --gold valid.tgt --output calibrated.pt

A model learns its authors' number of phrases, but greedy search ends as soon as the end is a little more likely than
anything else, and writes fewer. A number is added to the logit of ``</s>``, which is the same as adding it to its bias:
below zero the model ends later. Every number is tried, and the checkpoint is written with the one that has the highest
sum of present and absent F1@M. Of several checkpoints of one training it is the mean of their weights that is tried.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decoding import Decoder, Setting

from onmt_exhird.cli.values import positive
from onmt_exhird.errors import ExhirdError
from onmt_exhird.stream import EOS

if TYPE_CHECKING:
    from onmt_exhird.evaluation import SystemResult

SHIFTS = (0.0, -0.25, -0.5)
KEYS = ("present/F1@5", "present/F1@M", "absent/F1@M", "dup_ratio", "num_present", "num_absent")
GROUPS = (("", 1), ("present", 2), ("absent", 1), ("", 3))


def mean(checkpoints: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The first of some checkpoints, with the mean of the weights of all; what is counted in them stays as it is."""

    def of(part: str) -> dict[str, Any]:
        return {
            name: sum(one[part][name] for one in checkpoints) / len(checkpoints) if own.is_floating_point() else own
            for name, own in checkpoints[0][part].items()
        }

    return checkpoints[0] | {"model": of("model"), "generator": of("generator")}


def shifted(checkpoint: dict[str, Any], shift: float) -> dict[str, Any]:
    """A checkpoint of onmt_train that adds so much to the logit of ``</s>``."""
    bias = checkpoint["generator"]["bias"].clone()
    bias[checkpoint["vocab"]["tgt"].index(EOS)] += shift
    return checkpoint | {"generator": checkpoint["generator"] | {"bias": bias}}


def worth(result: SystemResult) -> float:
    return result["present/F1@M"] + result["absent/F1@M"]


def calibrate(args: argparse.Namespace) -> None:
    import torch

    from onmt_exhird.evaluation import evaluate
    from onmt_exhird.evaluation.inputs import check_lengths, read_gold, read_sources
    from onmt_exhird.evaluation.layout import score_head, score_number
    from onmt_exhird.evaluation.tables import Table, to_text
    from onmt_exhird.generator.unpickling import load_harmless
    from onmt_exhird.search import parse_window

    checkpoints = [load_harmless(path, map_location="cpu") for path in args.model]
    for path, found in zip(args.model, checkpoints, strict=True):
        if not isinstance(found, dict) or "bias" not in (found.get("generator") or {}):
            raise ExhirdError(f"{path} is no checkpoint of a model that copies, with its weights in the same file")
    checkpoint, name = mean(checkpoints), " and ".join(path.name for path in args.model)
    sources, gold = read_sources(args.src), read_gold(args.gold)
    check_lengths(args.gold, gold, args.src, sources)
    setting = Setting(1, parse_window(args.window))
    shifts = sorted(set(args.shifts), reverse=True)

    predictions = {}
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.pt"
        for number, shift in enumerate(shifts, start=1):
            print(f"[{number}/{len(shifts)}] {shift:+g}: {len(sources):,} documents", file=sys.stderr)
            torch.save(shifted(checkpoint, shift), model)
            predictions[f"{shift:+g}"] = Decoder(model, args.batch_size)(sources, setting)
    evaluation = evaluate(sources, gold, predictions)

    table = Table(f"What is added to {EOS}: {name}, {setting.name}", ("", *map(score_head, KEYS)), GROUPS)
    for name, result in zip(predictions, evaluation.systems, strict=True):
        table.add(name, *(score_number(result, key) for key in KEYS))
    print(to_text(table), evaluation.signature, sep="\n")
    best = max(zip(shifts, evaluation.systems, strict=True), key=lambda pair: worth(pair[1]))[0]
    torch.save(shifted(checkpoint, best), args.output)
    print(f"written      {args.output}, with {best:+g}")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="calibrate.py",
        description="Try on validation data how early a model should end, and write it with the best.",
        epilog="example: python tools/calibrate.py --model exhird_step_36000.pt --src valid.src --gold valid.tgt "
        "--output calibrated.pt",
    )
    parser.add_argument(
        "--model", type=Path, nargs="+", required=True, metavar="FILE", help="checkpoints of onmt_train"
    )
    parser.add_argument("--src", required=True, metavar="FILE", help="validation documents, one a line")
    parser.add_argument("--gold", required=True, metavar="FILE", help="their gold phrases")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="the checkpoint to write")
    parser.add_argument("--window", default="1", metavar="K", help="of exclusive search; default: %(default)s")
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--shifts", type=float, nargs="+", default=SHIFTS, metavar="N", help="to be tried; default: 0 -0.25 -0.5"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    try:
        calibrate(args)
    except (ExhirdError, OSError) as error:
        print(f"calibrate.py: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
