"""What tests of every folder are given: a small corpus, and models for it made by hand."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.files import write_lines
from helpers.stock import run_stock
from helpers.workshop import BASE, MODELS, made_model, make_document
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background so, and what tests start would never hear a Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow or busy machine is no failure, and what passes once passes again; `make test-random` looks further.
settings.register_profile("random", deadline=None)
settings.register_profile("same", settings.get_profile("random"), derandomize=True)
settings.load_profile("same")


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, a vocabulary and a configuration for each model."""
    folder = tmp_path_factory.mktemp("workshop")
    rng = random.Random(5)
    for split, size in (("train", 1500), ("valid", 30), ("test", 23)):
        documents = [make_document(rng) for _ in range(size)]
        write_lines(folder / f"{split}.src", [source for source, _ in documents])
        write_lines(folder / f"{split}.tgt", [target for _, target in documents])
    for name, model in MODELS.items():
        (folder / f"{name}.yaml").write_text(BASE + model + f"save_model: {name}\n")
    run_stock("onmt_build_vocab", "-config", "rnn.yaml", "-n_sample", "-1", cwd=folder)
    return folder


@pytest.fixture(scope="session")
def made(workshop: Path) -> Callable[[str], Path]:
    """The file of a model made by hand, written when first asked for."""

    def make(name: str) -> Path:
        import torch

        path = workshop / f"{name}_made.pt"
        if not path.exists():
            torch.save(made_model(workshop, name), path)
        return path

    return make
