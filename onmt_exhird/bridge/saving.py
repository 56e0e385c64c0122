"""Checkpoints that are whole or not there, and of which the newest and the best stay."""

from __future__ import annotations

import os
from argparse import Namespace
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from onmt_exhird.bridge.resume import KEY, best_step
from onmt_exhird.bridge.seams import Upstream, UpstreamClass, put_before


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Files:
    """The files of one checkpoint: written beside their places, and moved there when all are safe on the disk.

    state   what is added to the checkpoint
    error   why it could not be written. It is raised by nobody here: the other processes wait for this one
    """

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state
        self.error: Exception | None = None
        self._parts: dict[Path, Path] = {}

    def save(self, checkpoint: dict[str, Any], path: str) -> None:
        """In the place of `torch.save`."""
        self._write(Path(path), lambda part: torch.save(checkpoint | {KEY: self.state}, part))

    def save_weights(self, tensors: dict[str, Any], path: str) -> None:
        """In the place of `safetensors.torch.save_file`. Tensors that share storage are cut apart: it refuses them."""
        from safetensors.torch import save

        weights = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
        self._write(weights_of(Path(path)), lambda part: part.write_bytes(save(weights)))

    def _write(self, path: Path, write: Callable[[Path], object]) -> None:
        part = path.with_name(f".{path.name}.part")
        self._parts[part] = path
        try:
            write(part)
            sync(part)
        except (OSError, RuntimeError) as error:  # a full disk is one or the other
            self.error = error

    def move(self) -> None:
        """Give the files their names, that of the checkpoint last; or remove what was written of them."""
        try:
            if self.error is None:
                for part, path in reversed(self._parts.items()):
                    os.replace(part, path)
                    sync(path.parent)
        except OSError as error:
            self.error = error
        finally:
            for part in self._parts:
                part.unlink(missing_ok=True)


def weights_of(checkpoint: Path) -> Path:
    """The file of a checkpoint's weights in safetensors; upstream saves another name than it loads.

    >>> weights_of(Path("model_step_9.pt")).name
    'model_step_9.00.safetensors'
    """
    return checkpoint.with_suffix(".00.safetensors")


def superfluous(saved: list[int], keep: int, perplexities: dict[int, float]) -> list[int]:
    """The steps whose checkpoints may go: all but the newest, so many, and the best of those that were validated.

    >>> superfluous([100, 200, 300, 400], 2, {100: 5.0, 200: 4.0, 300: 4.5, 400: 4.6})
    [100]
    """
    validated = {step: perplexities[step] for step in saved if step in perplexities}
    best = {best_step(validated)} if validated else set()
    return [step for step in saved[:-keep] if step not in best]


@contextmanager
def written_as_a_whole(files: Files) -> Iterator[None]:
    """Inside, what upstream's saver writes becomes these files; after it they have their names, or none is there."""
    from onmt.models import model_saver
    from safetensors import torch as safetensors

    save_file = safetensors.save_file
    model_saver.torch.save = files.save  # of `checkpoints.load_without_running_code`: the module torch is not touched
    safetensors.save_file = files.save_weights  # type: ignore[assignment]
    try:
        yield
    finally:
        safetensors.save_file = save_file
        del model_saver.torch.save
        files.move()


class SaverOfWholeCheckpoints(UpstreamClass):
    """Upstream's saver, but nothing of a checkpoint is there unless all is, and the best one stays beside the newest.

    saved   the steps whose checkpoints are there, the newest last
    state   of the training, for the next checkpoint
    error   why the last checkpoint could not be written, if it could not
    """

    model_opt: Namespace  # upstream's, as the next ones
    optim: Any
    last_saved_step: int | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Those of the optimizer: upstream has the checkpoint's before, with which the next resume would go on.
        self.model_opt = Namespace(**vars(self.model_opt) | self.optim.own_rates)
        # Without an end: upstream then removes nothing.
        self.checkpoint_queue: deque[str] = deque()
        self.model_queue: deque[str] = deque()
        self.saved: list[int] = []
        self.state: dict[str, Any] = {}
        self.error: Exception | None = None

    def save(self, step: int, moving_average: Any = None) -> None:
        """Save; if that fails, say so and leave everything else as it is."""
        from onmt.utils.logging import logger

        if self.keep_checkpoint == 0 or step == self.last_saved_step:
            return
        before = self.last_saved_step
        super().save(step, moving_average)
        if self.error is not None:
            self.last_saved_step = before
            last = f"the last good one is {self.newest()}" if self.saved else "there is none yet"
            logger.error(f"The checkpoint of step {step} could not be written ({self.error}); {last}")
            return
        self.saved = [other for other in self.saved if other != step] + [step]
        if self.keep_checkpoint > 0:
            for old in superfluous(self.saved, self.keep_checkpoint, self.state.get("validated", {})):
                self._remove(old)

    def newest(self) -> str:
        """The path of the newest checkpoint; nothing if there is none."""
        return str(self._path(self.saved[-1])) if self.saved else ""

    def take_over(self, checkpoint: str, saved: list[int], step: int) -> None:
        """The checkpoints of the training that goes on are those of this one too, if it saves where that one did."""
        if self._path(step).resolve() == Path(checkpoint).resolve():
            self.saved = [old for old in saved if old != step and self._path(old).exists()] + [step]

    def _save(self, step: int, model: Any) -> tuple[str | None, None]:
        """What upstream calls for ``-save_format pytorch``; in processes other than the first it writes nothing."""
        files = Files(self.state)
        with written_as_a_whole(files):
            checkpoint, _ = super()._save(step, model)
        self.error = files.error
        return checkpoint, None

    def _st_save(self, step: int, model: Any) -> tuple[str | None, str | None]:
        """What upstream calls for ``-save_format safetensors``."""
        files = Files(self.state)
        with written_as_a_whole(files):
            checkpoint, weights = super()._st_save(step, model)
        self.error = files.error
        return checkpoint, weights and str(weights_of(Path(weights)))

    def _path(self, step: int) -> Path:
        return Path(f"{self.base_path}_step_{step}.pt")

    def _remove(self, step: int) -> None:
        self.saved.remove(step)
        for path in (self._path(step), weights_of(self._path(step))):
            path.unlink(missing_ok=True)


def save_whole_checkpoints(model_saver: Upstream) -> None:
    """Upstream writes checkpoints in place, and removes old ones without a look at how good they are.

    Its checkpoint in safetensors is there before its weights are.
    """
    put_before(model_saver, "ModelSaver", SaverOfWholeCheckpoints)
