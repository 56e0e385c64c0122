"""Rows that take new documents write what the stock loop writes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from conftest import translate, write_lines
from onmt.inputters.inputter import vocabs_to_dict
from test_bridge_baselines import VOCABS, build
from test_bridge_copying import WORDS, options
from torch import nn

from onmt_exhird import stream
from onmt_exhird.bridge import pool, translator
from onmt_exhird.search import StreamConstraint

SEARCHES = {
    "plain": ["-max_phrases", 6, "-max_phrase_words", 3],
    "exclusive": ["-exclusive_search", "-exclusive_window", 2, "-max_phrases", 6, "-max_phrase_words", 3],
    "stems": [
        "-exclusive_search",
        "-exclude_stems",
        "-exclude_phrases",
        "-min_phrases",
        3,
        "-max_phrases",
        6,
        "-max_phrase_words",
        3,
    ],
    "little room": ["-max_length", 11, "-exclude_phrases", "-max_phrase_words", 4],
    "no unknown words": ["-ban_unk_token", "-max_phrases", 4, "-length_penalty", "avg"],
}


@pytest.fixture(scope="module", params=["exhird", "rnn", "catseqd"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with random parameters, and documents of 1 to 23 words, some of them unknown."""
    folder = tmp_path_factory.mktemp(request.param)
    opt = options(request.param)
    built = build(opt)
    torch.manual_seed(3)
    for parameter in built.parameters():  # so large that documents lead to different outputs
        nn.init.normal_(parameter, std=0.7)
    for token in (stream.END, stream.EOS):  # and often end
        built.generator.bias.data[VOCABS["tgt"].lookup_token(token)] = 2.5
    body = {name: tensor for name, tensor in built.state_dict().items() if "generator" not in name}
    saved = {"model": body, "generator": built.generator.state_dict(), "vocab": vocabs_to_dict(VOCABS), "opt": opt}
    torch.save(saved | {"optim": {}}, folder / "model.pt")
    rng = random.Random(5)
    words = [*WORDS[7:], "zuvoka", "poliku", "rataku"]
    lines = [" ".join(rng.choices(words, k=rng.randint(1, 23))) for _ in range(17)]
    write_lines(folder / "some.src", [*lines, ""])
    return folder / "model.pt"


@pytest.mark.parametrize("search", SEARCHES)
def test_equals_the_stock_loop(search: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["-beam_size", 1, "-batch_size", 64, "-with_score", *SEARCHES[search]]
    runs = []
    monkeypatch.setattr(translator, "Pool", lambda *args: runs.append(pool.Pool(*args)) or runs[-1])
    monkeypatch.setattr(pool, "ROWS", 3)
    monkeypatch.setattr(pool, "TOKENS", 40)
    ours = [line.split("\t") for line in translate(model.parent, model, "some.src", *wanted)]
    assert len(runs) == 1
    monkeypatch.setattr(translator, "may_begin_at_any_step", lambda decoder: False)
    stock = [line.split("\t") for line in translate(model.parent, model, "some.src", *wanted)]
    assert len(runs) == 1
    assert [line for line, _ in ours] == [line for line, _ in stock]
    assert [float(score) for _, score in ours] == pytest.approx([float(score) for _, score in stock], abs=1e-4)
    assert len({len(line.split()) for line, _ in ours if line}) > 1  # so that rows were taken at different steps


@pytest.mark.parametrize("search", SEARCHES)
def test_without_scores_the_lines_are_the_same(search: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "ROWS", 5)
    wanted = ["-beam_size", 1, "-batch_size", 64, *SEARCHES[search]]
    scored = translate(model.parent, model, "some.src", *wanted, "-with_score")
    calls: list[int] = []
    choose = StreamConstraint.choose_structure
    monkeypatch.setattr(
        StreamConstraint, "choose_structure", lambda self, state, *args: calls.append(0) or choose(self, state, *args)
    )
    assert translate(model.parent, model, "some.src", *wanted) == [line.split("\t")[0] for line in scored]
    assert calls


def test_a_structure_token_in_a_source_may_be_copied(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = f"{WORDS[7]} {stream.ABSENT} {WORDS[8]} {stream.END} {stream.EOS}"
    write_lines(model.parent / "odd.src", [f"{words} {words}", words])
    monkeypatch.setattr(StreamConstraint, "choose_structure", None)  # knows nothing of copying
    wanted = ["-beam_size", 1, "-max_phrases", 3]
    scored = translate(model.parent, model, "odd.src", *wanted, "-with_score")
    assert translate(model.parent, model, "odd.src", *wanted) == [line.split("\t")[0] for line in scored]


def test_what_counts_steps_keeps_the_stock_loop(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator, "Pool", None)
    for extra in (["-min_length", 2], ["-block_ngram_repeat", 3], ["-beam_size", 2], ["-random_sampling_topk", 2]):
        lines = translate(model.parent, model, "some.src", "-beam_size", 1, "-max_phrases", 3, *extra)
        assert len(lines) == 18


def test_a_state_that_grows_keeps_the_stock_loop() -> None:
    assert pool.may_begin_at_any_step(build(options("exhird")).decoder)
    assert not pool.may_begin_at_any_step(build(options("catseqcorr")).decoder)
    assert not pool.may_begin_at_any_step(build(options("transformer")).decoder)


def test_a_given_target_is_scored_whatever_is_being_searched(tmp_path: Path) -> None:
    opt = options("exhird")
    opt.copy_attn = False
    built = build(opt)
    body = {name: tensor for name, tensor in built.state_dict().items() if "generator" not in name}
    saved = {"model": body, "generator": built.generator.state_dict(), "vocab": vocabs_to_dict(VOCABS), "opt": opt}
    torch.save(saved | {"optim": {}}, tmp_path / "model.pt")
    write_lines(tmp_path / "some.src", [f"{WORDS[8]} {WORDS[9]}", WORDS[7]])
    write_lines(
        tmp_path / "some.tgt", [f"{stream.PRESENT} {WORDS[8]} {stream.END}", f"{stream.ABSENT} {WORDS[9]} {stream.END}"]
    )
    wanted = ["-beam_size", 1, "-max_phrases", 2, "-max_phrase_words", 1]
    lines = translate(tmp_path, tmp_path / "model.pt", "some.src", *wanted)
    assert translate(tmp_path, tmp_path / "model.pt", "some.src", *wanted, "-tgt", tmp_path / "some.tgt") == lines
