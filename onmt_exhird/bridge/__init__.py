"""Everything that knows OpenNMT-py: what is registered with it, and what of it is replaced and why.

`install` is called by the one-line module that the wheel puts beside OpenNMT-py's own decoders
(see tools/build_backend.py), so the stock commands, spawned workers and ``python -m`` all have it.
"""

from __future__ import annotations

import os
import sys
from importlib import metadata
from types import TracebackType

from onmt_exhird.errors import ExhirdError

UPSTREAM = "OpenNMT-py"
SUPPORTED = "3.5.1"
SWITCH = "ONMT_EXHIRD"  # environment variable; "off" leaves OpenNMT-py as it is
HOOK = "onmt.decoders.exhird_plugin"


def switched_off() -> bool:
    return os.environ.get(SWITCH, "").lower() in {"0", "off", "no", "false"}


def check_version(found: str) -> None:
    """The seams fit one release; with another they would fail in strange places."""
    if found != SUPPORTED:
        raise ExhirdError(
            f"onmt_exhird works with {UPSTREAM} {SUPPORTED}, but {found} is installed: "
            f"run 'pip install {UPSTREAM}=={SUPPORTED}', or set {SWITCH}=off to use {UPSTREAM} without the plug-in"
        )


def _show_without_stack_trace() -> None:
    """Upstream's commands let exceptions through; a user's mistake needs its sentence, not the stack."""
    show = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, ExhirdError):
            print(f"error: {error}", file=sys.stderr)
        else:
            show(kind, error, trace)

    sys.excepthook = excepthook


def install() -> None:
    """Register the plug-in with the OpenNMT-py that is being imported."""
    if switched_off():
        return
    _show_without_stack_trace()
    check_version(metadata.version(UPSTREAM))
    from onmt_exhird.bridge import seams

    seams.start()
    from onmt_exhird.bridge import (  # noqa: F401  (each registers what it holds)
        baselines,
        batches,
        checkpoints,
        data_checks,
        decoders,
        loss,
        options,
        scorer,
        training,
        transform,
        translator,
    )
