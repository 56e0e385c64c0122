"""A learning rate driven by validation perplexity."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from onmt_exhird.bridge.seams import Upstream


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
