"""Make a trained model write more phrases, or fewer, or more of those that do not stand in the text.

    python recipes/science/calibrate.py model.pt calibrated.pt --end -0.5 --absent 0.25

Authors give two phrases a document that do not stand in it; a model trained on their keywords writes far fewer, since
none of them is ever likely. So the odds of what may come after a phrase are shifted: a number is added to the bias of a
token in the output layer, and nothing else is changed. Choose the numbers on validation data.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.checkpoint import read_checkpoint
from onmt_exhird.generator.unpickling import load_harmless
from onmt_exhird.stream import ABSENT, EOS, PRESENT

TOKENS = {"present": PRESENT, "absent": ABSENT, "end": EOS}


def calibrate(path: Path, shifts: dict[str, float]) -> dict[str, object]:
    """The content of a checkpoint whose output layer likes some tokens more, by so much of their logits."""
    ids = {token: number for number, token in enumerate(read_checkpoint(path).tokens)}
    saved = load_harmless(path, map_location="cpu")
    if not saved.get("generator"):
        raise ExhirdError(f"{path} has its weights in another file: train without -save_format safetensors")
    for token, shift in shifts.items():
        saved["generator"]["bias"][ids[token]] += shift
    return saved


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("checkpoint", type=Path, help="of onmt_train")
    parser.add_argument("output", type=Path, help="another checkpoint, for onmt_translate and exhird export")
    for name, token in TOKENS.items():
        help = f"what to add to the bias of {token} (default 0)"
        parser.add_argument(f"--{name}", type=float, default=0.0, metavar="X", help=help)
    args = parser.parse_args(argv)
    try:
        torch.save(
            calibrate(args.checkpoint, {token: getattr(args, name) for name, token in TOKENS.items()}), args.output
        )
    except (ExhirdError, OSError) as error:
        sys.exit(f"calibrate.py: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
