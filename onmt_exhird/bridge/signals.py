"""An end of training that somebody asks for: SIGTERM or Ctrl-C."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class StopRequest:
    """While it is entered, SIGTERM and a first SIGINT are remembered; a second SIGINT interrupts at once.

    by   the name of the signal that came, or nothing
    """

    def __init__(self) -> None:
        self.by = ""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():  # Python allows it there only
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.by == "SIGINT":
            raise KeyboardInterrupt
        self.by = signal.Signals(number).name
