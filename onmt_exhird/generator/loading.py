"""Where a model is: a folder, a checkpoint, or installed under a name."""

from __future__ import annotations

from importlib import metadata, resources
from pathlib import Path

from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.checkpoint import read_checkpoint
from onmt_exhird.generator.folder import read_folder
from onmt_exhird.generator.trained import Trained

GROUP = "onmt_exhird.models"  # entry points: a name -> the package that holds the model folder's files
SHIPPED = "science"


def installed() -> dict[str, metadata.EntryPoint]:
    """The models that installed packages offer, by name."""
    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def load(model: str | Path | None = None) -> Trained:
    """A trained model, from a folder, a ``.pt`` file of onmt_train, or by the name of an installed one."""
    path = Path(SHIPPED if model is None else model)
    if model is not None and path.is_dir():
        return read_folder(path)
    if model is not None and path.is_file():
        return read_checkpoint(path)
    models = installed()
    name = SHIPPED if model is None else str(model)
    if name in models:
        with resources.as_file(resources.files(models[name].value)) as folder:
            return read_folder(folder)
    names = ", ".join(sorted(models)) or "none"
    if model is None:
        raise ExhirdError(
            f"no model was named and none comes with this package (installed: {names}): name a model folder"
        )
    raise ExhirdError(f"there is no model '{model}': neither a folder, a .pt file, nor an installed model ({names})")
