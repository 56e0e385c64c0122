"""How far a run is, on the standard error: a line that changes on a terminal, elsewhere one now and then."""

from __future__ import annotations

import sys
import time

CLEAR = "\r\x1b[K"  # the line of a terminal
SECONDS = {True: 0.5, False: 30.0}  # between two lines: on a terminal, elsewhere


class Progress:
    """Documents done of so many, how many a second in this run, and the time that is left.

    done   documents of shards that were there before, or have come since
    """

    def __init__(self, total: int, done: int) -> None:
        self.total, self.done = total, done
        self._before, self._began = done, time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._shown = self._began

    def watch(self, under_way: int) -> None:
        """Show it, if it is time: ``under_way`` more documents are done of shards that are not."""
        now = time.monotonic()
        if now - self._shown >= SECONDS[self._terminal]:
            self._shown = now
            line = describe(self.done + under_way, self.total, self.done + under_way - self._before, now - self._began)
            print(
                CLEAR + line if self._terminal else line,
                end="" if self._terminal else "\n",
                file=sys.stderr,
                flush=True,
            )

    def say(self, sentence: str) -> None:
        print(f"{CLEAR if self._terminal else ''}exhird generate: {sentence}", file=sys.stderr)

    def end(self) -> None:
        new, seconds = self.done - self._before, time.monotonic() - self._began
        if new:
            self.say(f"{new:,} documents in {in_words(seconds)}, {new / max(seconds, 1e-9):.1f} a second")


def describe(done: int, total: int, new: int, seconds: float) -> str:
    """A line for people.

    >>> describe(3000, 10000, 2000, 40.0)
    'exhird generate: 3,000 of 10,000 documents, 50.0 a second, 2 min 20 s left'
    """
    rate = new / seconds if seconds else 0.0
    left = f", {in_words((total - done) / rate)} left" if rate else ""
    return f"exhird generate: {done:,} of {total:,} documents, {rate:.1f} a second{left}"


def in_words(seconds: float) -> str:
    """A time.

    >>> in_words(7.2), in_words(140), in_words(7300), in_words(200000)
    ('7 s', '2 min 20 s', '2 h 1 min', '55 h 33 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
