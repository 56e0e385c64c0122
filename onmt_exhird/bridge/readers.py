"""Processes that read the data of a training, of ``-num_workers``: they end when it ends, and not before."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from multiprocessing.util import Finalize


def live_and_die_with_the_trainer() -> None:
    """Of a reading process: Ctrl-C and the end of a service reach all of a group, but it ends when the trainer does.

    Also when that is killed: it would wait for ever for somebody to read what it has prepared.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    trainer = multiprocessing.parent_process()  # as it was when this one was started, which takes seconds

    def watch() -> None:
        while trainer is not None and os.getppid() == trainer.pid:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def let_readers_end() -> None:
    """From here on it is no accident when one ends; torch would say so at any moment."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def end_readers_at_exit() -> None:
    """Python asks reading processes to end by a SIGTERM, and then waits for them."""

    def kill() -> None:
        let_readers_end()
        for child in multiprocessing.active_children():
            child.kill()

    Finalize(None, kill, exitpriority=1)
