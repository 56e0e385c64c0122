"""A generator for the workers of Ray and Spark, which dies of some documents and fails at others."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from typing import Any

from helpers.fake_generator import FakeGenerator


class Deadly(FakeGenerator):
    def answer(self, text: str) -> Any:
        if "poison" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "broken" in text:
            raise RuntimeError("no such layer")
        return super().answer(text)


def generate(documents: Iterable[Any]) -> Iterator[Any]:
    return Deadly().generate(documents, batch_size=16)


def load() -> Any:
    return generate
