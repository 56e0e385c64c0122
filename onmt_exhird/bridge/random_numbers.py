"""Random numbers that can be drawn again: those of a whole process, and those of one part of its work."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

State = dict[str, Any]


def random_states() -> State:
    """The states of all generators, of which a checkpoint can hold each part and load it without running code."""
    state = _states_without_a_gpu()
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _states_without_a_gpu() -> State:
    kind, keys, *rest = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": (kind, torch.from_numpy(np.asarray(keys, dtype=np.int64)), *rest),
        "torch": torch.get_rng_state(),
    }


def set_random_states(state: State) -> None:
    random.setstate(state["python"])
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


@contextmanager
def random_states_kept() -> Iterator[None]:
    """What is done inside draws no random numbers from what comes after."""
    before = random_states()
    try:
        yield
    finally:
        set_random_states(before)


def number_from(*facts: object) -> int:
    """A number that depends on all facts and on nothing else, to start random numbers from."""
    return int.from_bytes(hashlib.blake2b(repr(facts).encode(), digest_size=4).digest(), "big")


@contextmanager
def random_numbers_from(number: int) -> Iterator[None]:
    """Inside, whatever draws random numbers draws the same for the same number; outside nothing has been drawn.

    For what a CPU does: a process that reads data must not so much as ask a GPU for its state.
    """
    before = _states_without_a_gpu()
    random.seed(number)
    np.random.seed(number)
    torch.default_generator.manual_seed(number)  # torch.manual_seed would also start those of a GPU anew
    try:
        yield
    finally:
        set_random_states(before)
