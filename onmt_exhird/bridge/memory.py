"""Memory that a step of training or of beam search gives back is the next one's."""

from __future__ import annotations

import ctypes
import platform
from typing import Any

from onmt_exhird.bridge.seams import Upstream

# glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tell the C library not to return large blocks to the kernel; whether it is one that can be told so."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, _NEVER))


def trainer_that_keeps_freed_memory(trainer: Upstream) -> None:
    """On a CPU each step's matrices over the vocabulary are unmapped, and zeroed anew by the kernel for the next.

    To keep them made training 7 % quicker (docs/speed.md).
    """
    build = trainer.build_trainer

    def build_trainer(opt: Any, device_id: int, *args: Any, **kwargs: Any) -> Any:
        if device_id < 0:
            keep_freed_memory()
        return build(opt, device_id, *args, **kwargs)

    trainer.build_trainer = build_trainer
