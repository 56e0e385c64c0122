"""What a checkpoint says of the training it was saved in, so that another process can go on with it to the bit."""

from __future__ import annotations

import random
import time
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from onmt_exhird.bridge.facts import ORDER, differing, must_have_its_data
from onmt_exhird.bridge.random_numbers import random_states
from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.errors import ExhirdError

FORMAT = 1
KEY = "training"  # of the state in a checkpoint
_STATISTICS = ("loss", "n_batchs", "n_sents", "n_words", "n_correct", "n_src_words", "n_judged", "losses")
# Options that say how an optimizer moves.
_RATES = (
    "optim", "learning_rate", "learning_rate_decay", "start_decay_steps", "decay_steps", "decay_method", "warmup_steps",
    "max_grad_norm", "adam_beta1", "adam_beta2", "adagrad_accumulator_init",
)  # fmt: skip
_PATIENCE = ("current_tolerance", "stalled_tolerance", "current_step_best")

State = dict[str, Any]


def best_step(perplexities: Mapping[int, float]) -> int:
    """The step with the least perplexity, the earlier of equals.

    >>> best_step({100: 5.0, 200: 4.0, 300: 4.0})
    200
    """
    return min(perplexities, key=lambda step: (perplexities[step], step))


def _numbers(stats: Any) -> State:
    return {name: getattr(stats, name) for name in _STATISTICS} | {"seconds": stats.elapsed_time()}


def _set_numbers(stats: Any, state: State) -> None:
    for name in _STATISTICS:
        setattr(stats, name, state[name])
    stats.losses = dict(state["losses"])
    stats.start_time = time.time() - state["seconds"]


def _patience(stopper: Any) -> State | None:
    if stopper is None:
        return None
    best = {scorer.name: scorer.best_score for scorer in stopper.early_stopping_scorers}
    return {name: getattr(stopper, name) for name in _PATIENCE} | {"of": stopper.tolerance, "best": best}


def _set_patience(stopper: Any, state: State | None) -> None:
    """As it was; more or less of it if the option says so now."""
    from onmt.utils.earlystopping import PatienceEnum

    if stopper is None or state is None:
        return
    more = stopper.tolerance - state["of"]
    stopper.current_tolerance = state["current_tolerance"] + more
    stopper.stalled_tolerance = state["stalled_tolerance"] + more
    stopper.current_step_best = state["current_step_best"]
    left = min(stopper.current_tolerance, stopper.stalled_tolerance)
    if left < stopper.tolerance:
        stopper.status = PatienceEnum.DECREASING if left > 0 else PatienceEnum.STOPPED
    for scorer in stopper.early_stopping_scorers:
        scorer.best_score = state["best"].get(scorer.name, scorer.best_score)


def state_of(loop: Any) -> State:
    """The state of a training between two steps; every process has to call it, the first one saves it."""
    trainer = loop.trainer
    own = {
        "places": loop.places.state(),
        "random": random_states(),
        "total": _numbers(loop.total),
        "report": _numbers(loop.report),
        "judged": trainer.train_loss.batches,
        # The weights are the same everywhere, but not the documents that catSeqD has seen.
        "buffers": dict(trainer.model.named_buffers()) if loop.team.size > 1 else {},
    }
    averaged = trainer.moving_average is not None  # then the weights of a checkpoint are averages
    return {
        "format": FORMAT,
        **trainer.facts,
        "processes": loop.team.gather(own),
        "patience": _patience(trainer.earlystopper),
        "validated": dict(loop.validated),
        "saved": list(trainer.model_saver.saved) if trainer.model_saver is not None else [],
        "bad": loop.bad,
        "seconds": loop.seconds + time.monotonic() - loop.begun,
        "weights": [parameter.detach().clone() for parameter in trainer.model.parameters()] if averaged else None,
    }


def restore(loop: Any) -> State | None:
    """Take up the training that a checkpoint was saved in, if there is one; returns the random states to go on with."""
    trainer, opt = loop.trainer, loop.trainer.opt
    state = trainer.optim.went_before
    if state is None:
        return None
    if "format" not in state:
        loop.logger.warning(
            f"{opt.train_from} does not say how far its data were read, nor its random numbers, patience and "
            "statistics: these begin anew; weights, optimizer and learning rate go on"
        )
        return None
    other = differing(trainer.facts, state)
    if other and must_have_its_data(opt):
        raise ExhirdError(
            f"{opt.train_from} was trained with other data: {', '.join(other)} (files, weights, transforms) must be "
            "as they were. To begin a new training with its weights add -reset_optim all, or keep_states to keep also "
            "what the optimizer has learned"
        )
    _restore_training(loop, state)
    other += [f"-{name}" for name in ORDER if state["order"].get(name) != trainer.facts["order"][name]]
    if other:
        loop.logger.warning(
            f"Going on after step {loop.done}, but the data begin anew and random numbers differ, since these are not "
            f"as they were when {opt.train_from} was saved: {', '.join(other)}"
        )
        return None
    own = state["processes"][loop.team.rank]
    _restore_process(loop, own)
    loop.logger.info(f"Going on after step {loop.done} exactly where {opt.train_from} was saved")
    return own["random"]


def _restore_training(loop: Any, state: State) -> None:
    """What goes on whatever the order of the data: patience, averages, checkpoints; the seed if none is given."""
    trainer, opt, step = loop.trainer, loop.trainer.opt, loop.done
    _set_patience(trainer.earlystopper, state["patience"])
    loop.validated = dict(state["validated"])
    loop.bad, loop.seconds = state["bad"], state["seconds"]
    _restore_dropout(trainer, step + 1)
    if state["weights"] is not None:
        _restore_average(trainer, state["weights"])
    if trainer.model_saver is not None:
        trainer.model_saver.take_over(opt.train_from, state["saved"], step)
    if opt.seed <= 0:
        opt.seed = loop.dataset.seed = trainer.facts["order"]["seed"] = state["order"]["seed"]


def _restore_process(loop: Any, own: State) -> None:
    """What each process has of its own: its place in the data, its statistics, the buffers of its model."""
    loop.places.load(own["places"])
    loop.dataset.go_on_from(own["places"])
    _set_numbers(loop.total, own["total"])
    _set_numbers(loop.report, own["report"])
    loop.trainer.train_loss.batches = own["judged"]
    buffers = dict(loop.trainer.model.named_buffers())
    for name, value in own["buffers"].items():
        buffers[name].copy_(value)


def _restore_dropout(trainer: Any, step: int) -> None:
    """Upstream changes dropout at the very step that -dropout_steps names, which may lie before a resume."""
    past = [index for index, begin in enumerate(trainer.dropout_steps) if 1 < begin + 1 < step]
    if past:
        trainer.model.update_dropout(trainer.dropout[past[-1]], trainer.attention_dropout[past[-1]])


def _restore_average(trainer: Any, weights: list[Any]) -> None:
    trainer.moving_average = [parameter.detach().clone().float() for parameter in trainer.model.parameters()]
    for parameter, value in zip(trainer.model.parameters(), weights, strict=True):
        parameter.data.copy_(value)


def draw_a_seed(train: Upstream) -> None:
    """Upstream has no seed unless one is given; then nobody can train the same model again."""
    train_process = train.train

    def train_with_seed(opt: Namespace) -> None:
        if opt.seed <= 0 and not opt.train_from:
            opt.seed = random.SystemRandom().randrange(1, 2**31)
        train_process(opt)

    train.train = train_with_seed


def optimizer_that_brings_the_state(optimizers: Upstream) -> None:
    """Upstream gives a checkpoint to nothing but the model and the optimizer, which the trainer then gets.

    With ``-reset_optim`` it takes other rates than the checkpoint's, and saves the checkpoint's all the same.
    """
    optimizer_class = optimizers.Optimizer
    from_opt = optimizer_class.from_opt

    def from_opt_with_state(cls: Any, model: Any, opt: Namespace, checkpoint: Any = None) -> Any:
        optimizer = from_opt(model, opt, checkpoint)
        if checkpoint is not None and opt.reset_optim == "none":
            optimizer.went_before = checkpoint.get(KEY, {})
        elif opt.reset_optim in ("all", "keep_states"):
            optimizer.own_rates = {name: getattr(opt, name) for name in _RATES}
        return optimizer

    optimizer_class.went_before, optimizer_class.own_rates = None, {}
    optimizer_class.from_opt = classmethod(from_opt_with_state)
