"""The learning rate driven by validation perplexity, and the statistics of training."""

from __future__ import annotations

import copy
import logging
import pickle
from typing import Any

import onmt.trainer
import onmt.utils
import pytest
import torch
from onmt.bin import train
from onmt.utils.optimizers import Optimizer

from onmt_exhird.bridge.loss import check_options
from onmt_exhird.bridge.plateau import Plateau
from onmt_exhird.errors import ExhirdError


def options(*arguments: str) -> Any:
    needed = ["-data", "{}", "-src_vocab", "v", "-save_model", "m", "-optim", "adam", "-learning_rate", "0.4"]
    return train._get_parser().parse_args([*needed, *arguments])


def see(optimizer: Any, *perplexities: float) -> None:
    for perplexity in perplexities:
        optimizer.plateau.see(perplexity)


def test_the_learning_rate_falls_whenever_perplexity_is_above_the_previous_one() -> None:
    optimizer = Optimizer.from_opt(torch.nn.Linear(2, 3), options("-plateau_decay", "0.5"))
    see(optimizer, 9.0, 8.0)
    assert optimizer.learning_rate() == pytest.approx(0.4)
    see(optimizer, 8.5, 8.4, 8.6)
    assert optimizer.learning_rate() == pytest.approx(0.1)


def test_it_stops_at_its_floor_and_a_higher_floor_does_not_raise_it() -> None:
    plateau = Plateau(decay=0.5, least=0.3)
    for perplexity in (1.0, 2.0, 3.0, 4.0):
        plateau.see(perplexity)
    assert (plateau.apply(1.0), plateau.apply(0.2)) == (0.3, 0.2)


@pytest.mark.parametrize(("reset", "expected"), [("none", 0.2), ("keep_states", 0.4)])
def test_the_decayed_rate_survives_a_resume_unless_options_are_reset(reset: str, expected: float) -> None:
    model, opt = torch.nn.Linear(2, 3), options("-plateau_decay", "0.5")
    optimizer = Optimizer.from_opt(model, opt)
    see(optimizer, 5.0, 6.0)
    checkpoint = {"optim": optimizer.state_dict(), "opt": copy.deepcopy(opt)}
    again = options("-plateau_decay", "0.5", "-train_from", "m.pt", "-reset_optim", reset)
    resumed = Optimizer.from_opt(model, again, checkpoint=checkpoint)
    assert resumed.learning_rate() == pytest.approx(expected)
    if reset == "none":
        see(resumed, 5.9)
        assert resumed.learning_rate() == pytest.approx(expected)  # the previous one was 6
        see(resumed, 6.5)
        assert resumed.learning_rate() == pytest.approx(expected / 2)


def test_a_checkpoint_without_the_state_can_be_resumed() -> None:
    model, opt = torch.nn.Linear(2, 3), options()
    state = Optimizer.from_opt(model, opt).state_dict()
    del state["plateau"]
    again = options("-train_from", "m.pt")
    assert Optimizer.from_opt(model, again, {"optim": state, "opt": opt}).learning_rate() == pytest.approx(0.4)


def test_an_optimizer_that_was_not_made_from_options_keeps_its_rate() -> None:
    optimizer = Optimizer(torch.optim.Adam(torch.nn.Linear(2, 3).parameters()), 0.7)
    assert optimizer.learning_rate() == 0.7


def test_statistics_travel_between_processes() -> None:
    stats = onmt.utils.Statistics(loss=6.0, n_batchs=1, n_sents=2, n_words=3)
    stats.losses = {"exclusive": 4.0, "orthogonal": 1.0}
    total = onmt.utils.Statistics()
    total.update(pickle.loads(pickle.dumps(stats)))
    total.update(pickle.loads(pickle.dumps(stats)))
    assert (total.loss, total.losses, total.n_judged) == (12.0, {"exclusive": 8.0, "orthogonal": 2.0}, 6)


def test_losses_are_reported_by_name_per_document(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onmt.utils.statistics, "logger", logging.getLogger("of this test"))  # others change upstream's
    total = onmt.utils.Statistics()
    for documents, orthogonal in ((2, 7.0), (3, 3.0)):
        stats = onmt.utils.Statistics(loss=6.0, n_batchs=1, n_sents=documents, n_words=3)
        stats.losses = {"orthogonal": orthogonal, "target_encoder": 1.0}
        total.update(stats)
    with caplog.at_level("INFO"):
        total.output(5, 10, 0.1, 0.0)
    assert "orthogonal: 2" in caplog.text and "target_encoder: 0.4" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("-exclusive_loss_window 2", "-exclusive_loss_window needs a model that copies"),
        ("-copy_attn -decoder_type exhird -copy_attn_force", "-copy_attn with -copy_attn_force copies as OpenNMT-py"),
        ("-copy_attn -exclusive_loss_window 2 -lambda_align 0.5", "-lambda_align has no effect with"),
        ("-valid_metrics KEYPHRASE_F2", "unknown metric 'KEYPHRASE_F2', .*did you mean 'KEYPHRASE_F1'"),
        ("-copy_attn -input_feed 0", "leave -input_feed 0 out"),
        ("-copy_attn -decoder_type exhird -lambda_coverage 1", "-lambda_coverage is for -decoder_type rnn"),
    ],
)
def test_options_that_do_not_go_together_are_named(arguments: str, reason: str) -> None:
    with pytest.raises(ExhirdError, match=reason):
        check_options(options(*arguments.split()))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("-copy_attn_force", "-copy_attn with -copy_attn_force copies as OpenNMT-py does"),
        ("-lambda_align 0.5", "-lambda_align has no effect with -copy_attn"),
        ("-model_task lm", "a language model with -copy_attn copies as OpenNMT-py does"),
    ],
)
def test_where_the_plug_in_is_not_used_they_get_a_warning(
    arguments: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_options(options("-copy_attn", *arguments.split()))
    assert f"warning: {reason}" in capsys.readouterr().err


def test_what_goes_together_passes(capsys: pytest.CaptureFixture[str]) -> None:
    check_options(options("-copy_attn", "-exclusive_loss_window", "4"))
    check_options(options("-copy_attn", "-truncated_decoder", "5"))
    check_options(options("-model_task", "lm"))
    assert not capsys.readouterr().err
