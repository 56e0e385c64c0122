"""The recipes say what the paper says."""

from __future__ import annotations

import subprocess
from functools import cache
from typing import Any

import pyonmttok
import pytest
import yaml
from helpers.files import RECIPES
from helpers.parameters import EXHIRD, PARAMETERS, TABLES
from onmt.bin import train
from onmt.model_builder import build_base_model
from onmt.utils.optimizers import Optimizer

from onmt_exhird.stream import BOS, EOS, PAD, STRUCTURE, UNK


@cache
def options(name: str) -> Any:
    parsed = train._get_parser().parse_args(["-config", str(RECIPES / "kp20k" / f"{name}.yaml")])
    train.ArgumentParser.update_model_opts(parsed)
    train.ArgumentParser.validate_model_opts(parsed)
    return parsed


def build(opt: Any) -> Any:
    """The model of some options, with a vocabulary of the size they ask for."""
    special = [UNK, PAD, BOS, EOS, *STRUCTURE]
    tokens = special + [f"w{index}" for index in range(opt.src_vocab_size - len(special))]
    vocab = pyonmttok.build_vocab_from_tokens(tokens)
    return build_base_model(opt, {"src": vocab, "tgt": vocab, "decoder_start_token": BOS})


@cache
def model(name: str) -> Any:
    return build(options(name))


def count(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_paper_s_model_has_its_number_of_parameters() -> None:
    exhird = model("exhird")
    counts = {
        "embedding": exhird.encoder.embeddings.word_lut.weight.numel(),
        "encoder": count(exhird.encoder.rnn),
        "decoder": count(exhird.decoder.hierarchy),
        "output": count(exhird.generator),
    }
    assert counts == {"embedding": 5_000_400, "encoder": 633_600, "decoder": 1_533_600, "output": 15_051_505}
    assert count(exhird) == EXHIRD == sum(counts.values())


def test_the_paper_s_settings() -> None:
    opt = options("exhird")
    assert (opt.batch_type, opt.batch_size, opt.normalization) == ("sents", 10, "sents")
    assert (opt.max_grad_norm, opt.dropout, opt.param_init) == (1.0, [0.0], 0.1)
    assert (opt.plateau_decay, opt.early_stopping, opt.early_stopping_criteria) == (0.5, 3, ["ppl"])
    group = Optimizer.from_opt(model("exhird"), opt)._optimizer.param_groups[0]
    assert (group["lr"], tuple(group["betas"])) == (0.001, (0.9, 0.999))


@pytest.mark.parametrize("name", sorted(set(PARAMETERS) - {"transformer"}))
def test_the_learning_rate_falls_with_validation_perplexity_only(name: str) -> None:
    optimizer = Optimizer.from_opt(model(name), options(name))
    optimizer._decay_step = 300_000
    assert optimizer.learning_rate() == 0.001


@pytest.mark.parametrize("name", PARAMETERS)
def test_each_model_has_its_number_of_parameters(name: str) -> None:
    assert count(model(name)) == PARAMETERS[name]


def test_the_transformer_has_the_size_of_exhird() -> None:
    transformer = model("transformer")
    assert count(transformer) == pytest.approx(EXHIRD, rel=0.005)
    tables = transformer.encoder.embeddings.word_lut.weight.numel() + count(transformer.generator)
    assert tables == pytest.approx(TABLES, rel=0.001)


def test_the_transformer_s_learning_rate_rises_and_falls() -> None:
    optimizer = Optimizer.from_opt(model("transformer"), options("transformer"))
    rates = {}
    for step in (1, 4000, 8000, 32000):
        optimizer._decay_step = step
        rates[step] = optimizer.learning_rate()
    assert rates == pytest.approx({1: 9.88e-8, 4000: 3.95e-4, 8000: 7.91e-4, 32000: 3.95e-4}, rel=0.01)


@pytest.mark.parametrize("name", sorted(set(PARAMETERS) - {"exhird"}))
def test_a_baseline_states_only_what_differs(name: str) -> None:
    own = yaml.safe_load((RECIPES / "kp20k" / f"{name}.yaml").read_text())
    common = yaml.safe_load((RECIPES / "kp20k" / "exhird.yaml").read_text())
    assert own.pop("base") == "exhird.yaml"
    assert own["save_model"] == name
    assert not {key for key, value in own.items() if common.get(key) == value}


def test_every_recipe_of_kp20k_is_tested_here() -> None:
    assert {path.stem for path in (RECIPES / "kp20k").glob("*.yaml")} == set(PARAMETERS)


def test_the_demo_says_what_it_does() -> None:
    demo = str(RECIPES / "demo" / "run.sh")
    helped = subprocess.run([demo, "--help"], capture_output=True, text=True, check=True).stdout
    assert "run.sh [MODEL] [OUTPUT]" in helped
    assert all(path.stem in helped for path in (RECIPES / "demo").glob("*.yaml"))
    wrong = subprocess.run([demo, "exhrid"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "unknown model 'exhrid': give one of catseq, " in wrong.stderr


@pytest.mark.parametrize("name", ["exhird", "catseq"])
def test_a_recipe_for_every_science_states_only_what_differs(name: str) -> None:
    own = yaml.safe_load((RECIPES / "science" / f"{name}.yaml").read_text())
    parsed = train._get_parser().parse_args(["-config", str(RECIPES / "science" / f"{name}.yaml")])
    before = train._get_parser().parse_args(["-config", str(RECIPES / "science" / own.pop("base"))])
    assert {key for key in own if getattr(parsed, key) == getattr(before, key)} == set()


def test_the_model_for_every_science_is_small_enough_to_ship() -> None:
    """An embedding of 100, a bias, and 2.2 million parameters that do not depend on the vocabulary."""
    parsed = train._get_parser().parse_args(["-config", str(RECIPES / "science" / "exhird.yaml")])
    train.ArgumentParser.update_model_opts(parsed)
    train.ArgumentParser.validate_model_opts(parsed)
    assert count(build(parsed)) == 101 * 30_004 + EXHIRD - 401 * 50_004 + 100 * 300


def test_the_demo_s_configuration_is_valid() -> None:
    train._get_parser().parse_args(["-config", str(RECIPES / "demo" / "exhird.yaml"), "-save_model", "m"])
