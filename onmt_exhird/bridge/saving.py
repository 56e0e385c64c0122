"""Checkpoints that are whole or not there, and of which the newest and the best stay."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from onmt_exhird.bridge.checkpoints import load_harmless
from onmt_exhird.bridge.resume import KEY, best_step
from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.errors import ExhirdError


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


def save_whole_checkpoints(model_saver: Upstream) -> None:
    """Upstream writes checkpoints in place, and removes old ones without a look at how good they are.

    Its checkpoint in safetensors is there before its weights are.
    """
    saver = model_saver.ModelSaver
    init, save, save_pytorch, save_safetensors = saver.__init__, saver.save, saver._save, saver._st_save

    def init_empty(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.checkpoint_queue, self.model_queue = deque(), deque()  # without an end: upstream then removes nothing
        self.saved, self.state, self.error = [], {}, None

    def save_and_tidy(self: Any, step: int, moving_average: Any = None) -> None:
        """Save; if that fails, say so and leave everything else as it is."""
        if self.keep_checkpoint == 0 or step == self.last_saved_step:
            return
        before = self.last_saved_step
        save(self, step, moving_average)
        if self.error is not None:
            self.last_saved_step = before
            last = f"the last good one is {self.newest()}" if self.saved else "there is none yet"
            model_saver.logger.error(f"The checkpoint of step {step} could not be written ({self.error}); {last}")
            return
        self.saved = [other for other in self.saved if other != step] + [step]
        if self.keep_checkpoint > 0:
            for old in superfluous(self.saved, self.keep_checkpoint, self.state.get("validated", {})):
                self.saved.remove(old)
                for path in (path_of(self, old), weights_of(path_of(self, old))):
                    path.unlink(missing_ok=True)

    def whole(save_files: Any) -> Any:
        def save_beside_and_move(self: Any, step: int, model: Any) -> tuple[str | None, str | None]:
            from safetensors import torch as safetensors

            files = Files(self.state)
            before = safetensors.save_file
            model_saver.torch.save = files.save
            safetensors.save_file = files.save_weights  # type: ignore[assignment]
            try:
                checkpoint, weights = save_files(self, step, model)
            finally:
                safetensors.save_file = before
                del model_saver.torch.save
                files.move()
            self.error = files.error
            return checkpoint, weights and str(weights_of(Path(weights)))

        return save_beside_and_move

    def path_of(self: Any, step: int) -> Path:
        return Path(f"{self.base_path}_step_{step}.pt")

    def newest(self: Any) -> str:
        return str(path_of(self, self.saved[-1])) if self.saved else ""

    def take_over(self: Any, checkpoint: str, saved: list[int], step: int) -> None:
        """The checkpoints of the training that goes on are those of this one too, if it saves where that one did."""
        if path_of(self, step).resolve() == Path(checkpoint).resolve():
            self.saved = [old for old in saved if old != step and path_of(self, old).exists()] + [step]

    saver.__init__, saver.save = init_empty, save_and_tidy
    saver._save, saver._st_save = whole(save_pytorch), whole(save_safetensors)
    saver.newest, saver.take_over = newest, take_over


# --- loading ----------------------------------------------------------------------------------------------------


def fault_of(checkpoint: str) -> str:
    """What is wrong with a checkpoint, if anything is."""
    from safetensors import SafetensorError, safe_open

    weights = weights_of(Path(checkpoint))
    try:
        if "model" not in load_harmless(checkpoint, map_location="cpu"):
            with safe_open(weights, framework="pt"):
                pass
    except (ExhirdError, SafetensorError, OSError) as error:
        return str(error)
    return ""


def _earlier(checkpoint: Path) -> list[str]:
    """The checkpoints of the same name and fewer steps, the newest first."""
    name = re.fullmatch(r"(.*_step_)(\d+)\.pt", checkpoint.name)
    if name is None:
        return []
    found = [re.fullmatch(re.escape(name[1]) + r"(\d+)\.pt", path.name) for path in checkpoint.parent.glob("*.pt")]
    steps = [int(other[1]) for other in found if other and int(other[1]) < int(name[2])]
    return [str(checkpoint.with_name(f"{name[1]}{step}.pt")) for step in sorted(steps, reverse=True)]


def newest_whole(checkpoint: str, warn: Callable[[str], None]) -> str:
    """A checkpoint, or the newest before it that is whole if it was cut short."""
    if not os.path.isfile(checkpoint) or not (fault := fault_of(checkpoint)):
        return checkpoint
    for before in _earlier(Path(checkpoint)):
        if not fault_of(before):
            warn(f"{checkpoint} is broken ({fault}): going on from {before}, the newest before it that is whole")
            return before
    raise ExhirdError(f"{checkpoint} is broken ({fault}), and no whole checkpoint lies before it: train anew")


def go_on_from_a_whole_checkpoint(train_single: Upstream) -> None:
    """Upstream fails on a checkpoint that was cut short, though the one before it may lie beside it."""
    init_train = train_single._init_train

    def init_from_whole(opt: Any) -> Any:
        if opt.train_from:
            opt.train_from = newest_whole(opt.train_from, train_single.logger.warning)
        return init_train(opt)

    train_single._init_train = init_from_whole
