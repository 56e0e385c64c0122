"""Adam in one pass over the parameters, gradient clipping included."""

from __future__ import annotations

from argparse import Namespace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from onmt_exhird.bridge.seams import Upstream


@cache
def fuses_on_cpu() -> bool:
    """Whether this torch has a fused Adam for CPUs: since 2.4."""
    try:
        torch.optim.Adam([torch.zeros(1)], fused=True)
    except RuntimeError:
        return False
    return True


def excess(norm: Tensor, most: float) -> Tensor:
    """What to divide gradients of this common norm by so that it is at most ``most``: one or more.

    >>> excess(torch.tensor(5.0), most=2.5)
    tensor(2.0000)
    """
    return ((norm + 1e-6) / most).clamp(min=1.0)


def adam_in_one_pass(optimizers: Upstream) -> None:
    """Upstream's Adam passes ten times over every parameter, and its clipping twice over every gradient.

    In one pass training had 15.5 documents per CPU second instead of 13 (docs/speed.md).
    """
    optimizer_class = optimizers.Optimizer
    from_opt, step = optimizer_class.from_opt, optimizer_class.step

    def from_opt_fused(cls: Any, model: Any, opt: Namespace, checkpoint: Any = None) -> Any:
        optimizer = from_opt(model, opt, checkpoint)
        adam = optimizer._optimizer
        on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
        if type(adam) is torch.optim.Adam:
            # A checkpoint says how it was trained; what this machine can do counts.
            optimizer.in_one_pass = on_cpu and fuses_on_cpu()
            for group in adam.param_groups:
                group["fused"] = optimizer.in_one_pass or None
        return optimizer

    def fused_step(self: Any) -> None:
        if not self.in_one_pass:
            step(self)
            return
        adam = self._optimizer
        for group in adam.param_groups:
            group["lr"] = self.learning_rate()
        if self._max_grad_norm > 0:
            # The pass divides by this number as it goes: the way in which scaled losses are treated. The norm is
            # there: `finite.skip_steps_that_are_not_finite`, which calls this step, has looked at it.
            adam.grad_scale, adam.found_inf = excess(self.gradient_norm, self._max_grad_norm), torch.zeros(())
        adam.step()
        self._decay_step += 1
        self._training_step += 1

    optimizer_class.in_one_pass = False
    optimizer_class.from_opt = classmethod(from_opt_fused)
    optimizer_class.step = fused_step
