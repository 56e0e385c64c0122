"""Where a verb's output goes: written at once and in whole lines, quietly ended if nobody reads on."""

from __future__ import annotations

import gzip
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from onmt_exhird.cli.whole_files import whole_files
from onmt_exhird.errors import ExhirdError


def flush() -> None:
    """Write what is still in memory: here and not when the interpreter ends, where a failure is exit code 120."""
    if sys.stdout is not None:
        with _told_if_full():
            sys.stdout.flush()


def forget() -> None:
    """Let what is still to be written go nowhere, so that the interpreter can end quietly."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


@contextmanager
def _told_if_full() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        forget()
        raise ExhirdError(f"the output cannot be written: {error.strerror or error}") from error


@contextmanager
def open_output(path: Path | None) -> Iterator[IO[bytes]]:
    """Where answers go: the standard output; or a file, which appears when all is done; or a pipe that has a name."""
    from onmt_exhird.records import is_gzip

    if path is None:
        if sys.stdout is None:
            raise ExhirdError("the standard output is closed; name a file with --output")
        with _told_if_full():
            yield sys.stdout.buffer
    elif path.exists() and not path.is_file() and not path.is_dir():
        with _told_if_full(), path.open("wb") as device:
            yield device
    else:
        with whole_files([Path(os.path.realpath(path))]) as (file,):
            if not is_gzip(path):
                yield file.buffer  # type: ignore[attr-defined]
                return
            with gzip.GzipFile("", "wb", fileobj=file.buffer, mtime=0) as packed:  # type: ignore[attr-defined]
                yield packed  # type: ignore[misc]


@contextmanager
def undisturbed(output: IO[bytes]) -> Iterator[Callable[[bytes], None]]:
    """A function that writes at once and as a whole: Ctrl-C waits until it has."""
    here = threading.current_thread() is threading.main_thread()  # only there signals are caught
    interrupted = False
    writing = False

    def note(*_: object) -> None:
        nonlocal interrupted
        interrupted = True
        if not writing:
            raise KeyboardInterrupt

    def put(data: bytes) -> None:
        nonlocal writing
        if not data:
            return
        writing = True
        try:
            output.write(data)
            output.flush()
        finally:
            writing = False
        if interrupted:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note) if here else None
    try:
        yield put
    finally:
        if here:
            signal.signal(signal.SIGINT, before)
