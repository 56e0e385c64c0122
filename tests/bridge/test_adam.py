"""Clipping and Adam in one pass give what torch's own clipping and Adam give."""

from argparse import Namespace

import pytest
import torch
from onmt.utils.optimizers import Optimizer
from torch import nn

from onmt_exhird.bridge.adam import fuses_on_cpu

needs_fused = pytest.mark.skipif(not fuses_on_cpu(), reason="this torch has no fused Adam for CPUs")


def options(**changes):
    settings = {
        "optim": "adam", "learning_rate": 0.01, "adam_beta1": 0.9, "adam_beta2": 0.999, "max_grad_norm": 1.0,
        "model_dtype": "fp32", "apex_opt_level": "", "reset_optim": "none", "decay_method": "none",
        "start_decay_steps": None, "learning_rate_decay": 0.5, "decay_steps": 100, "plateau_decay": 1.0,
        "plateau_min_lr": 1e-5, "world_size": 1, "train_from": "",
    }  # fmt: skip
    return Namespace(**settings | changes)


def trained(step, steps=4, scale=30.0):
    """A small model after some steps whose gradients are longer than the norm allows."""
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, 2))
    do_step = step(model)
    inputs = torch.randn(steps, 5, 3)
    for batch in inputs:
        model.zero_grad()
        (scale * model(batch).square().sum()).backward()
        do_step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def plain(model):
    adam = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-8)

    def step():
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()

    return step


@pytest.mark.parametrize("scale", [30.0, 1e-4], ids=["clipped", "not clipped"])
def test_equals_clipping_and_adam(scale):
    ours = trained(lambda model: Optimizer.from_opt(model, options()).step, scale=scale)
    torch.testing.assert_close(ours, trained(plain, scale=scale), rtol=1e-5, atol=1e-7)


@needs_fused
def test_it_is_the_fused_one_that_runs():
    optimizer = Optimizer.from_opt(nn.Linear(2, 3), options())
    assert optimizer.in_one_pass
    assert all(group["fused"] for group in optimizer._optimizer.param_groups)


def test_other_optimizers_are_left_alone():
    optimizer = Optimizer.from_opt(nn.Linear(2, 3), options(optim="sgd"))
    assert not optimizer.in_one_pass


def test_steps_are_counted():
    model = nn.Linear(2, 3)
    optimizer = Optimizer.from_opt(model, options())
    model(torch.ones(1, 2)).sum().backward()
    before = optimizer.training_step
    optimizer.step()
    assert optimizer.training_step == before + 1


@pytest.mark.parametrize("saved", [True, None], ids=["saved where it was fused", "saved where it was not"])
def test_a_checkpoint_does_not_decide_how_adam_is_computed_here(saved):
    model = nn.Linear(2, 3)
    first = Optimizer.from_opt(model, options())
    model(torch.ones(1, 2)).sum().backward()
    first.step()
    state = first.state_dict()
    for group in state["optimizer"]["param_groups"]:
        group["fused"] = saved
    checkpoint = {"optim": state, "opt": options()}
    second = Optimizer.from_opt(model, options(train_from="x"), checkpoint=checkpoint)
    second.step()
    assert second.in_one_pass == fuses_on_cpu()
    assert second.training_step == 3
