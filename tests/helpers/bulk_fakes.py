"""What workers of bulk runs are given in tests; in a module of its own, since they import it in their processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from typing import Any

from helpers.fake_generator import FakeGenerator

from onmt_exhird.bulk.shards import Shard


class Deadly(FakeGenerator):
    """Dies of some documents and fails at others."""

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


def die() -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def count_documents(shard: Shard, results: Any) -> int:
    return len(results)


def texts_of(shard: Shard, results: Any) -> tuple[int, list[list[str]]]:
    import torch

    assert torch.get_num_threads() == 1
    return shard.number, [result.texts for result in results]
