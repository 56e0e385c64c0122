"""The recipes say what the paper says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyonmttok
import pytest
from onmt.bin import train
from onmt.model_builder import build_base_model
from onmt.utils.optimizers import Optimizer

from onmt_exhird.stream import BOS, EOS, PAD, STRUCTURE, UNK

RECIPES = Path(__file__).resolve().parents[1] / "recipes"


@pytest.fixture(scope="module")
def opt() -> Any:
    parsed = train._get_parser().parse_args(["-config", str(RECIPES / "kp20k" / "exhird.yaml")])
    train.ArgumentParser.update_model_opts(parsed)
    train.ArgumentParser.validate_model_opts(parsed)
    return parsed


@pytest.fixture(scope="module")
def model(opt: Any) -> Any:
    special = [UNK, PAD, BOS, EOS, *STRUCTURE]
    tokens = special + [f"w{index}" for index in range(opt.src_vocab_size - len(special))]
    vocab = pyonmttok.build_vocab_from_tokens(tokens)
    return build_base_model(opt, {"src": vocab, "tgt": vocab, "decoder_start_token": BOS})


def test_the_paper_s_model_has_its_number_of_parameters(model: Any) -> None:
    counts = {
        "embedding": model.encoder.embeddings.word_lut.weight.numel(),
        "encoder": sum(parameter.numel() for parameter in model.encoder.rnn.parameters()),
        "decoder": sum(parameter.numel() for parameter in model.decoder.hierarchy.parameters()),
        "output": sum(parameter.numel() for parameter in model.generator.parameters()),
    }
    assert counts == {"embedding": 5_000_400, "encoder": 633_600, "decoder": 1_533_600, "output": 15_051_505}
    assert sum(parameter.numel() for parameter in model.parameters()) == 22_219_105 == sum(counts.values())


def test_the_paper_s_settings(opt: Any, model: Any) -> None:
    assert (opt.batch_type, opt.batch_size, opt.normalization) == ("sents", 10, "sents")
    assert (opt.max_grad_norm, opt.dropout, opt.param_init) == (1.0, [0.0], 0.1)
    assert (opt.plateau_decay, opt.early_stopping, opt.early_stopping_criteria) == (0.5, 3, ["ppl"])
    group = Optimizer.from_opt(model, opt)._optimizer.param_groups[0]
    assert (group["lr"], tuple(group["betas"])) == (0.001, (0.9, 0.999))


def test_the_demo_s_configuration_is_valid() -> None:
    train._get_parser().parse_args(["-config", str(RECIPES / "demo" / "exhird.yaml"), "-save_model", "m"])
