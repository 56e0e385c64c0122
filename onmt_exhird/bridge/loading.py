"""The checkpoint that a training goes on from: the one it is told, or the newest before it that is whole."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onmt_exhird.bridge.saving import weights_of
from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.unpickling import load_harmless


def fault_of(checkpoint: str) -> str:
    """What is wrong with a checkpoint, if anything is."""
    from safetensors import SafetensorError, safe_open

    weights = weights_of(Path(checkpoint))
    try:
        if "model" not in load_harmless(checkpoint, map_location="cpu"):
            with safe_open(weights, framework="pt"):
                pass
    except (ExhirdError, SafetensorError, OSError) as error:
        return str(error)
    return ""


def _earlier(checkpoint: Path) -> list[str]:
    """The checkpoints of the same name and fewer steps, the newest first."""
    name = re.fullmatch(r"(.*_step_)(\d+)\.pt", checkpoint.name)
    if name is None:
        return []
    found = [re.fullmatch(re.escape(name[1]) + r"(\d+)\.pt", path.name) for path in checkpoint.parent.glob("*.pt")]
    steps = [int(other[1]) for other in found if other and int(other[1]) < int(name[2])]
    return [str(checkpoint.with_name(f"{name[1]}{step}.pt")) for step in sorted(steps, reverse=True)]


def newest_whole(checkpoint: str, warn: Callable[[str], None]) -> str:
    """A checkpoint, or the newest before it that is whole if it was cut short."""
    if not os.path.isfile(checkpoint) or not (fault := fault_of(checkpoint)):
        return checkpoint
    for before in _earlier(Path(checkpoint)):
        if not fault_of(before):
            warn(f"{checkpoint} is broken ({fault}): going on from {before}, the newest before it that is whole")
            return before
    raise ExhirdError(f"{checkpoint} is broken ({fault}), and no whole checkpoint lies before it: train anew")


def go_on_from_a_whole_checkpoint(train_single: Upstream) -> None:
    """Upstream fails on a checkpoint that was cut short, though the one before it may lie beside it."""
    init_train = train_single._init_train

    def init_from_whole(opt: Any) -> Any:
        if opt.train_from:
            opt.train_from = newest_whole(opt.train_from, train_single.logger.warning)
        return init_train(opt)

    train_single._init_train = init_from_whole
