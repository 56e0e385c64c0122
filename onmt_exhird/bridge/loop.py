"""The training loop: OpenNMT-py's, but it goes on exactly where it was interrupted, and ends when it is asked to."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from math import inf
from typing import Any

import torch

from onmt_exhird.bridge import resume
from onmt_exhird.bridge.distributed import on_cpus
from onmt_exhird.bridge.facts import facts_of
from onmt_exhird.bridge.places import Place, Places
from onmt_exhird.bridge.random_numbers import random_states_kept, set_random_states
from onmt_exhird.bridge.readers import end_readers_at_exit, let_readers_end
from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.bridge.signals import StopRequest
from onmt_exhird.bridge.statistics import Statistics
from onmt_exhird.bridge.team import Team
from onmt_exhird.errors import ExhirdError

MOST_BAD_STEPS = 10  # in a row; then it is not the fault of single documents


def documents_of(batches: list[Any], data: dict[str, Any]) -> str:
    """The files and lines that batches were read from.

    >>> batch = {"cid": ["a", "b", "a"], "cid_line_number": [6, 0, 2]}
    >>> documents_of([batch], {"a": {"path_src": "a.src"}, "b": {"path_src": "b.src"}})
    'a.src lines 3, 7; b.src lines 1'
    """
    lines: dict[str, list[int]] = {}
    for batch in batches:
        for corpus, number in zip(batch["cid"], batch["cid_line_number"], strict=True):
            lines.setdefault(corpus, []).append(number + 1)
    return "; ".join(
        f"{data[corpus].get('path_src', corpus)} lines {', '.join(map(str, sorted(numbers)))}"
        for corpus, numbers in lines.items()
    )


class Loop:
    """One training, from its first step or from a saved one on.

    total, report   statistics of all steps, and of those since the last report
    places          how far the data have been read
    validated       the perplexity at each validated step
    bad             how many steps in a row could not be used
    seconds         how long it was trained before
    """

    def __init__(self, trainer: Any, logger: Any, data: Any, steps: int, save_every: int) -> None:
        self.trainer, self.logger = trainer, logger
        self.data, self.steps, self.save_every = data, steps, save_every
        self.team = Team(max(1, trainer.n_gpu))
        self.total, self.report = Statistics(), Statistics()
        reader = getattr(data, "data_iter", data)
        self.dataset = getattr(reader, "dataset", reader)
        self.workers = getattr(self.dataset, "num_workers", 0)  # of batches from elsewhere, no place is known
        self.places = Places(max(1, self.workers))
        self.validated: dict[int, float] = {}
        self.bad = 0
        self.seconds = 0.0
        self.begun = time.monotonic()

    @property
    def done(self) -> int:
        """How many steps the model has been trained; upstream counts the one to come."""
        return self.trainer.optim.training_step - 1

    def run(self, valid: Any, valid_every: int) -> Statistics:
        trainer = self.trainer
        random_states = resume.restore(self)
        first = self.done
        trainer._start_report_manager(start_time=time.time() - self.seconds)
        if over := self._over_already():
            self.logger.info(f"{over}: nothing is left to train")
            return self.total
        if self.workers:
            end_readers_at_exit()
        with StopRequest() as stop:
            for batches, normalization in trainer._accum_batches(self._noted()):
                if random_states is not None:  # now, since starting to read the data has drawn numbers
                    set_random_states(random_states)
                    random_states = None
                step = trainer.optim.training_step
                trainer._maybe_update_dropout(step)
                self._learn(batches, normalization)
                self._average(step)
                self._report(step, first)
                patience_is_over = step % valid_every == 0 and self._validate(valid, step)
                signal, time_is_up = self._asked_to_end(stop)
                if patience_is_over or signal or time_is_up or (self.steps and step >= self.steps):
                    break
                if self.save_every and step % self.save_every == 0:
                    self._save(step)
            else:
                self._require_a_step(first)
            if time_is_up:
                minutes = trainer.opt.train_minutes
                self.logger.info(f"The {minutes:g} minutes of -train_minutes are over: ending at step {step}")
                if valid is not None and step % valid_every:
                    self._look(valid, step)
            self._save(step)
        self._require_saved(step)
        if signal:
            newest = self._newest() or "(none is saved)"
            self.logger.info(f"Stopped by {signal} at step {step}; to go on: -train_from {newest}")
        return self.total

    def _over_already(self) -> str:
        """Why a training that is to go on has nothing left to do."""
        if self.steps and self.done >= self.steps:
            return f"The model has been trained {self.done} steps, of -train_steps {self.steps}"
        stopper = self.trainer.earlystopper
        return "Early stopping has ended this training" if stopper is not None and stopper.has_stopped() else ""

    def _noted(self) -> Iterator[tuple[Any, Place]]:
        """The batches, each noted when it is taken."""
        try:
            for batch, place in self.data:
                if isinstance(place, Place):
                    self.places.note(place)
                yield batch, place
        except ExhirdError as error:  # that of a reading process has its stack in it
            raise ExhirdError(str(error).splitlines()[-1].split("ExhirdError: ")[-1]) from None

    def _learn(self, batches: list[Any], normalization: float) -> None:
        """One step; it counts, but changes nothing, if its loss or its gradient is not finite."""
        trainer = self.trainer
        if self.team.size > 1 and trainer.parallel_mode == "data_parallel":
            # Each divides its loss by this, and the gradients are averaged: together, the sum over all documents.
            normalization = sum(self.team.gather(normalization)) / self.team.size
        stats = Statistics()
        trainer._gradient_accumulation(batches, normalization, stats, Statistics())
        if not trainer.optim.skipped:
            self.bad = 0
            self.total.update(stats, update_n_src_words=True)
            self.report.update(stats, update_n_src_words=True)
            return
        self.bad += 1
        documents = "; ".join(self.team.gather(documents_of(batches, trainer.opt.data)))
        message = f"Step {self.done}: the loss or its gradient is not finite, so the model stays as it is"
        self.logger.warning(f"{message}; its documents: {documents}")
        if self.bad == MOST_BAD_STEPS:
            raise ExhirdError(
                f"{message}; that was the {self.bad}th step in a row, so training ends. Its last checkpoint is good: "
                f"{self._newest() or 'there is none'}. Try a smaller -learning_rate or -max_grad_norm"
            )

    def _average(self, step: int) -> None:
        trainer = self.trainer
        if trainer.average_decay <= 0 or (step - 1) % trainer.average_every:
            return
        if trainer.moving_average is None:  # upstream would begin with the weights themselves, not with a copy
            trainer.moving_average = [weight.detach().clone().float() for weight in trainer.model.parameters()]
        else:
            trainer._update_average(step)

    def _report(self, step: int, first: int) -> None:
        """Say how it goes, if it is time to: the statistics then begin anew."""
        trainer = self.trainer
        self.report.seconds_left = self._seconds_left(first)
        self.report = trainer._maybe_report_training(step, self.steps, trainer.optim.learning_rate(), self.report)

    def _seconds_left(self, first: int) -> float:
        """Until the last step, if none of what may end training sooner does."""
        passed = time.monotonic() - self.begun
        left = passed / (self.done - first) * (self.steps - self.done) if self.steps else inf
        return min(left, self._time_limit() - passed)

    def _time_limit(self) -> float:
        return 60 * self.trainer.opt.train_minutes or inf

    def _look(self, valid: Any, step: int) -> tuple[Any, float]:
        """Validate and say what came out, with no consequence; the statistics are those of the first process."""
        trainer = self.trainer
        stats, perplexity = None, inf
        with random_states_kept():
            if valid is not None and (self.team.rank == 0 or trainer.parallel_mode == "tensor_parallel"):
                stats = trainer.validate(valid, moving_average=trainer.moving_average)
                perplexity = stats.ppl() if stats.ppl() < inf else inf  # not a number is the worst
        if valid is not None:
            perplexity = self.team.hear(perplexity)
            self.validated[step] = perplexity
        if stats is not None:
            self.logger.info(self._found(step, stats))
        return stats, perplexity

    def _found(self, step: int, stats: Any) -> str:
        """What a validation found, and the best so far."""
        metrics = "".join(f", {name} {value:.4g}" for name, value in stats.computed_metrics.items())
        best = resume.best_step(self.validated)
        stats.best_perplexity = self.validated[best]
        return (
            f"Validation at step {step}: perplexity {stats.ppl():.6g}{metrics}; "
            f"the best so far is {self.validated[best]:.6g} at step {best}"
        )

    def _validate(self, valid: Any, step: int) -> bool:
        """Validate, decay the learning rate if it is to fall, and say whether patience is over."""
        trainer = self.trainer
        stats, perplexity = self._look(valid, step)
        before = trainer.optim.learning_rate()
        if valid is not None:
            trainer.optim.plateau.see(perplexity)
        after = trainer.optim.learning_rate()
        if after < before:
            self.logger.info(f"Validation perplexity rose: learning rate {before:g} -> {after:g}")
        stopped = False
        if self.team.rank == 0:
            trainer._report_step(after, step, valid_stats=stats, train_stats=self.total if self.total.n_words else None)
            if trainer.earlystopper is not None and stats is not None:
                trainer.earlystopper(stats, step)
                stopped = trainer.earlystopper.has_stopped()
        return self.team.hear(stopped)

    def _asked_to_end(self, stop: StopRequest) -> tuple[str, bool]:
        """The signal that any of the processes has got, if one has, and whether the time of the first one is up."""
        time_is_up = time.monotonic() - self.begun >= self._time_limit()
        everyone = self.team.gather((stop.by, time_is_up))
        return next((signal for signal, _ in everyone if signal), ""), everyone[0][1]

    def _save(self, step: int) -> None:
        """Save a checkpoint; that of a model that is perhaps no longer finite is not written."""
        saver = self.trainer.model_saver
        if saver is not None and not self.bad:
            saver.state = resume.state_of(self)
            saver.save(step, moving_average=self.trainer.moving_average)

    def _newest(self) -> str:
        """The path of the newest checkpoint; nothing if there is none."""
        saver = self.trainer.model_saver
        return saver.newest() if saver is not None else ""

    def _require_a_step(self, first: int) -> None:
        """Data that have an end, though corpora begin again and again, have no document."""
        if self.done == first:
            raise ExhirdError("the training data have no document for this process: give more, or use fewer processes")

    def _require_saved(self, step: int) -> None:
        saver = self.trainer.model_saver
        if saver is not None and saver.error is not None:
            raise ExhirdError(f"the model of step {step} is not saved: make room, then go on with the last checkpoint")


def loop_that_loses_nothing(trainer: Upstream) -> None:
    """Upstream's loop begins its data, random numbers, patience and statistics anew after a resume.

    It dies of signals, ends by the number of steps only, forgets what a validation found, and leaves the other
    processes waiting when the first one ends early.
    """
    build_trainer = trainer.build_trainer

    def build(opt: Any, *args: Any, **kwargs: Any) -> Any:
        built = build_trainer(opt, *args, **kwargs)
        built.opt = opt
        if on_cpus(opt):
            built.gpu_rank = -1  # where validation searches
        built.facts = facts_of(opt)
        trainer.logger.info(f"Settings: {json.dumps(built.facts['settings'], default=sorted)}")
        return built

    def train(
        self: Any,
        train_iter: Any,
        train_steps: int,
        save_checkpoint_steps: int = 5000,
        valid_iter: Any = None,
        valid_steps: int = 10000,
    ) -> Statistics:
        every = "without validation" if valid_iter is None else f"and validate every {valid_steps} steps"
        trainer.logger.info(f"Start training loop {every}...")
        torch.cuda.empty_cache()
        loop = Loop(self, trainer.logger, train_iter, train_steps, save_checkpoint_steps)
        try:
            return loop.run(valid_iter, valid_steps)
        except (RuntimeError, OSError, EOFError) as error:
            # Torch's own word for it; or what was under way from it was cut off.
            if not loop.workers or not (isinstance(error, OSError | EOFError) or "DataLoader" in str(error)):
                raise
            let_readers_end()
            raise ExhirdError(
                f"a process that reads the data has gone, perhaps for want of memory ({type(error).__name__}): go on "
                "with -train_from and the last checkpoint, with fewer -num_workers or a smaller -bucket_size"
            ) from error

    trainer.build_trainer = build
    trainer.Trainer.train = train
