"""A learning rate driven by validation perplexity, and an end of training by the clock."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.errors import ExhirdError


class Plateau:
    """Multiplies the learning rate by ``decay`` whenever perplexity is above the previous one.

    >>> plateau = Plateau(decay=0.5, least=0.1)
    >>> [plateau.see(perplexity) or plateau.apply(1.0) for perplexity in (9.0, 8.0, 8.5, 8.4, 8.6)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    def __init__(self, decay: float, least: float) -> None:
        self.decay, self.least = decay, least
        self.factor = 1.0
        self.previous = float("inf")

    def see(self, perplexity: float) -> None:
        if perplexity > self.previous:
            self.factor *= self.decay
        self.previous = perplexity

    def apply(self, learning_rate: float) -> float:
        if self.factor == 1.0:
            return learning_rate
        return min(learning_rate, max(learning_rate * self.factor, self.least))


def learning_rate_with_plateau(optimizers: Upstream) -> None:
    """Upstream has decay by step count only. The state is part of the checkpoint, so a resumed run goes on."""
    optimizer_class = optimizers.Optimizer
    from_opt, learning_rate = optimizer_class.from_opt, optimizer_class.learning_rate
    state_dict, load_state_dict = optimizer_class.state_dict, optimizer_class.load_state_dict

    def from_opt_with_plateau(cls: Any, model: Any, opt: Namespace, checkpoint: Any = None) -> Any:
        optimizer = from_opt(model, opt, checkpoint)
        if opt.plateau_decay < 1 and opt.world_size > 1:
            raise ExhirdError("-plateau_decay works with one process: only the first of several validates")
        plateau = Plateau(opt.plateau_decay, opt.plateau_min_lr)
        saved = getattr(optimizer, "saved_plateau", None)
        if saved is not None and opt.reset_optim == "none":
            plateau.factor, plateau.previous = saved
        optimizer.plateau = plateau
        return optimizer

    def rate(self: Any) -> float:
        return self.plateau.apply(learning_rate(self))

    def state(self: Any) -> dict[str, Any]:
        return state_dict(self) | {"plateau": (self.plateau.factor, self.plateau.previous)}

    def load_state(self: Any, saved: dict[str, Any]) -> None:
        load_state_dict(self, saved)
        self.saved_plateau = saved.get("plateau")

    optimizer_class.plateau = Plateau(decay=1.0, least=0.0)  # of an optimizer that was not made from options
    optimizer_class.from_opt = classmethod(from_opt_with_plateau)
    optimizer_class.learning_rate = rate
    optimizer_class.state_dict = state
    optimizer_class.load_state_dict = load_state


def steps_done(trainer: Any) -> int:
    """How many steps a trainer's model has been trained; upstream counts the one to come."""
    return trainer.optim.training_step - 1


def decay_after_validation(trainer: Upstream) -> None:
    """Upstream's training loop validates and forgets the result; its log does not say at which step that was."""
    trainer_class = trainer.Trainer
    validate = trainer_class.validate

    def validate_and_decay(self: Any, *args: Any, **kwargs: Any) -> Any:
        stats = validate(self, *args, **kwargs)
        trainer.logger.info(f"Validation at step {steps_done(self)}: perplexity {stats.ppl():.6g}")
        before = self.optim.learning_rate()
        self.optim.plateau.see(stats.ppl())
        after = self.optim.learning_rate()
        if after < before:
            trainer.logger.info(f"Validation perplexity rose: learning rate {before:g} -> {after:g}")
        return stats

    trainer_class.validate = validate_and_decay


def end_when_time_is_up(trainer: Upstream) -> None:
    """Upstream's training loop ends by the number of steps only. It saves when it ends for want of batches."""
    trainer_class, build_trainer = trainer.Trainer, trainer.build_trainer
    train, accum_batches = trainer_class.train, trainer_class._accum_batches

    def build_with_limit(opt: Namespace, *args: Any, **kwargs: Any) -> Any:
        if opt.train_minutes and opt.world_size > 1:
            raise ExhirdError("-train_minutes works with one process: several would not end at the same step")
        built = build_trainer(opt, *args, **kwargs)
        built.train_minutes = opt.train_minutes
        return built

    def train_with_limit(
        self: Any,
        train_iter: Any,
        train_steps: int,
        save_checkpoint_steps: int = 5000,
        valid_iter: Any = None,
        valid_steps: int = 10000,
    ) -> Any:
        self.validation = valid_iter, valid_steps
        return train(self, train_iter, train_steps, save_checkpoint_steps, valid_iter, valid_steps)

    def batches_in_time(self: Any, iterator: Any) -> Iterator[Any]:
        begun = time.monotonic()
        for batches in accum_batches(self, iterator):
            yield batches  # the step, its validation and its checkpoint are done before this goes on
            if self.train_minutes and time.monotonic() - begun >= 60 * self.train_minutes:
                break
        else:
            return
        step = steps_done(self)
        trainer.logger.info(f"The {self.train_minutes:g} minutes of -train_minutes are over: ending at step {step}")
        valid_iter, valid_steps = self.validation
        if valid_iter is not None and step % valid_steps:
            stats = self.validate(valid_iter, moving_average=self.moving_average)
            self._report_step(self.optim.learning_rate(), step, valid_stats=stats)

    trainer_class.train_minutes = 0.0  # of a trainer that was not made from options
    trainer_class.train = train_with_limit
    trainer_class._accum_batches = batches_in_time
    trainer.build_trainer = build_with_limit
