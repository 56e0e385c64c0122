"""Where a model is: a folder, a checkpoint, or installed under a name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata, resources
from pathlib import Path

from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.checkpoint import read_checkpoint
from onmt_exhird.generator.folder import CONFIG, read_config, read_folder
from onmt_exhird.generator.trained import Trained

GROUP = "onmt_exhird.models"  # entry points: a name -> the package that holds the model folder's files
SHIPPED = "science"


def installed() -> dict[str, metadata.EntryPoint]:
    """The models that installed packages offer, by name."""
    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


@contextmanager
def located(model: str | Path | None = None) -> Iterator[Path]:
    """Where a model is: its folder, or its ``.pt`` file."""
    path = Path(SHIPPED if model is None else model)
    if model is not None and (path.is_dir() or path.is_file()):
        yield path
        return
    models = installed()
    name = SHIPPED if model is None else str(model)
    if name in models:
        with resources.as_file(resources.files(models[name].value)) as folder:
            yield folder
        return
    names = ", ".join(sorted(models)) or "none"
    if model is None:
        raise ExhirdError(
            f"no model was named and none comes with this package (installed: {names}): name a model folder"
        )
    raise ExhirdError(f"there is no model '{model}': neither a folder, a .pt file, nor an installed model ({names})")


def load(model: str | Path | None = None) -> Trained:
    """A trained model, from a folder, a ``.pt`` file of onmt_train, or by the name of an installed one."""
    with located(model) as path:
        return read_folder(path) if path.is_dir() else read_checkpoint(path)


def identify(model: str | Path | None = None) -> dict[str, str]:
    """What tells a model from all others, wherever it is: its name and a checksum.

    A folder's is that of its configuration, which has those of its files.
    """
    with located(model) as path:
        if path.is_dir():
            name = str(read_config(path)["name"])
            path = path / CONFIG
        else:
            name = path.name
        with path.open("rb") as file:
            return {"name": name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
