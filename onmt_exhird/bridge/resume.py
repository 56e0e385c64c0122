"""What a checkpoint says of the training it was saved in, so that another process can go on with it to the bit."""

from __future__ import annotations

import hashlib
import random
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from onmt_exhird.bridge import texts
from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.errors import ExhirdError

FORMAT = 1
KEY = "training"  # of the state in a checkpoint
# What the order of the data depends on beside the data.
ORDER = (
    "seed batch_size batch_type batch_size_multiple bucket_size bucket_size_init bucket_size_increment "
    "num_workers world_size gpu_ranks".split()
)
_FILES = ("path_src", "path_tgt", "path_align", "path_txt")
_STATISTICS = ("loss", "n_batchs", "n_sents", "n_words", "n_correct", "n_src_words", "n_judged", "losses")
_PATIENCE = ("current_tolerance", "stalled_tolerance", "current_step_best")

State = dict[str, Any]


def best_step(perplexities: Mapping[int, float]) -> int:
    """The step with the least perplexity, the earlier of equals.

    >>> best_step({100: 5.0, 200: 4.0, 300: 4.0})
    200
    """
    return min(perplexities, key=lambda step: (perplexities[step], step))


# --- random numbers ---------------------------------------------------------------------------------------------------


def random_states() -> State:
    kind, keys, *rest = np.random.get_state(legacy=True)
    state: State = {
        "python": random.getstate(),
        "numpy": (kind, torch.from_numpy(np.asarray(keys, dtype=np.int64)), *rest),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


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


# --- what is trained on -----------------------------------------------------------------------------------------------


def digest(path: str) -> str:
    """What tells a file's content from another."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise ExhirdError(f"cannot read {path}: {error.strerror}") from None


def facts_of(opt: Namespace) -> State:
    """What must be the same for a training to go on, and all its settings."""
    corpora = {
        name: {
            "files": {key: digest(corpus[key]) for key in _FILES if corpus.get(key)},
            "weight": corpus.get("weight", 1),
            "transforms": list(corpus.get("transforms", [])),
        }
        for name, corpus in opt.data.items()
    }
    vocabulary = {side: digest(path) for side in ("src_vocab", "tgt_vocab") if (path := getattr(opt, side, None))}
    settings = {name: value for name, value in sorted(vars(opt).items()) if _is_plain(value)}
    if texts.OPTION in settings:
        settings[texts.OPTION] = texts.summary(opt)  # its own bytes would fill a log
    order = {name: settings.get(name) for name in ORDER}
    return {"data": corpora, "vocabulary": vocabulary, "order": order, "settings": settings}


def _is_plain(value: Any) -> bool:
    """Whether a value can be part of a checkpoint that is loaded without running code."""
    if isinstance(value, dict):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple | set):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | bool)


def differing(facts: State, before: State) -> list[str]:
    """What is not as it was: corpora and the vocabulary, by name."""
    names = sorted(before["data"].keys() | facts["data"].keys())
    other = [f"data/{name}" for name in names if before["data"].get(name) != facts["data"].get(name)]
    return other + ["the vocabulary"] * (before["vocabulary"] != facts["vocabulary"])


def uses_the_plugin(opt: Namespace) -> bool:
    """Whether a run is ours, so that a mistake in it is an error; the habits of others stay as upstream has them."""
    from onmt_exhird.bridge.data_checks import KEYPHRASE_DECODERS

    return opt.copy_attn or opt.decoder_type in KEYPHRASE_DECODERS or "keyphrase" in opt._all_transform


# --- the state --------------------------------------------------------------------------------------------------------


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
    trainer = loop.trainer
    state = trainer.optim.went_before
    if state is None:
        return None
    opt, step = trainer.opt, loop.done
    if "format" not in state:
        loop.logger.warning(
            f"{opt.train_from} does not say how far its data were read, nor its random numbers, patience and "
            "statistics: these begin anew; weights, optimizer and learning rate go on"
        )
        return None
    other = differing(trainer.facts, state)
    if other and uses_the_plugin(opt):
        raise ExhirdError(
            f"{opt.train_from} was trained with other data: {', '.join(other)} (files, weights, transforms) must be "
            "as they were. To begin a new training with its weights add -reset_optim all, or keep_states to keep also "
            "what the optimizer has learned"
        )
    _set_patience(trainer.earlystopper, state["patience"])
    loop.validated = dict(state["validated"])
    loop.bad, loop.seconds = state["bad"], state["seconds"]
    _restore_dropout(trainer, step + 1)
    if state["weights"] is not None:
        _restore_average(trainer, state["weights"])
    if trainer.model_saver is not None:
        trainer.model_saver.take_over(opt.train_from, state["saved"], step)
    if opt.seed <= 0:  # none is given
        opt.seed = loop.dataset.seed = trainer.facts["order"]["seed"] = state["order"]["seed"]
    other += [f"-{name}" for name in ORDER if state["order"].get(name) != trainer.facts["order"][name]]
    if other:
        loop.logger.warning(
            f"Going on after step {step}, but the data begin anew and random numbers differ, since these are not as "
            f"they were when {opt.train_from} was saved: {', '.join(other)}"
        )
        return None
    own = state["processes"][loop.team.rank]
    loop.places.load(own["places"])
    loop.dataset.go_on_from(own["places"])
    _set_numbers(loop.total, own["total"])
    _set_numbers(loop.report, own["report"])
    trainer.train_loss.batches = own["judged"]
    buffers = dict(trainer.model.named_buffers())
    for name, value in own["buffers"].items():
        buffers[name].copy_(value)
    loop.logger.info(f"Going on after step {step} exactly where {opt.train_from} was saved")
    return own["random"]


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
    """Upstream gives a checkpoint to nothing but the model and the optimizer, which the trainer then gets."""
    optimizer_class = optimizers.Optimizer
    from_opt = optimizer_class.from_opt

    def from_opt_with_state(cls: Any, model: Any, opt: Namespace, checkpoint: Any = None) -> Any:
        optimizer = from_opt(model, opt, checkpoint)
        if checkpoint is not None and opt.reset_optim == "none":
            optimizer.went_before = checkpoint.get(KEY, {})
        return optimizer

    optimizer_class.went_before = None
    optimizer_class.from_opt = classmethod(from_opt_with_state)
