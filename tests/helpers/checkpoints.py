"""Two checkpoints, compared."""

from __future__ import annotations

from typing import Any

import torch

TIMES = {"seconds", "settings", "opt", "saved"}


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """The places at which two checkpoints differ."""
    if isinstance(ours, torch.Tensor):
        return [] if torch.equal(ours, theirs) else [path]
    if isinstance(ours, dict):
        if ours.keys() != theirs.keys():
            return [f"{path}: keys"]
        return [
            place for key in ours if key not in TIMES for place in differences(ours[key], theirs[key], f"{path}/{key}")
        ]
    if isinstance(ours, list | tuple):
        pairs = enumerate(zip(ours, theirs, strict=False))
        return [place for number, pair in pairs for place in differences(*pair, f"{path}/{number}")]
    return [] if ours == theirs else [f"{path}: {ours} {theirs}"]
