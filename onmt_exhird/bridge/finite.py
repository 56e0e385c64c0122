"""A step whose loss or gradient is not finite changes nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onmt_exhird.bridge.seams import Upstream


def norm_of(gradients: list[Tensor]) -> Tensor:
    """The length of all gradients as one vector.

    >>> norm_of([torch.tensor([3.0]), torch.tensor([4.0])])
    tensor(5.)
    """
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]))


def skip_steps_that_are_not_finite(optimizers: Upstream) -> None:
    """Upstream adds whatever comes to the weights: after one NaN they are all NaN.

    Steps in half precision look after their gradients themselves: there it is common, and the scale then changes.
    """
    optimizer_class = optimizers.Optimizer
    step, backward = optimizer_class.step, optimizer_class.backward

    def backward_to_all(self: Any, loss: Tensor) -> None:
        # A gradient of nothing but NaN tells the other processes, which get the sum of all.
        backward(self, loss if torch.isfinite(loss) else loss * torch.nan)

    def step_if_finite(self: Any) -> None:
        params = [p for group in self._optimizer.param_groups for p in group["params"] if p.grad is not None]
        self.skipped = False
        if params and self._fp16 is None:
            self.gradient_norm = norm_of([p.grad for p in params])
            self.skipped = not torch.isfinite(self.gradient_norm)
        if not self.skipped:
            step(self)
            return
        self._decay_step += 1
        self._training_step += 1

    optimizer_class.skipped = False
    optimizer_class.backward = backward_to_all
    optimizer_class.step = step_if_finite
