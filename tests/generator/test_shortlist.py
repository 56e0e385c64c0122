"""A shortlist: a model that has one gives what the whole model would give without the other words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers.generator_models import TOKENS, WORDS, make, texts

from onmt_exhird import KeyphraseGenerator
from onmt_exhird.cli import main
from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.shortlist import ALWAYS, shorten
from onmt_exhird.generator.trained import Trained
from onmt_exhird.nn import output_layer, quantised
from onmt_exhird.subwords import Subwords
from onmt_exhird.textmodel import TextModel

SHORT = ["tree", "networks", "learning", "of", "language", "keyphrase", "models"]


def without_others(trained: Trained) -> Trained:
    """The same model with an output layer that gives all other words nothing: the obvious way."""
    bias = trained.tensors["generator.bias"].clone()
    for number, token in enumerate(trained.tokens):
        if token not in {*SHORT, *ALWAYS}:
            bias[number] = -1e9
    return replace(trained, tensors=trained.tensors | {"generator.bias": bias})


def answers(trained: Trained, **options: int) -> list[list[object]]:
    """Of each document its phrases, where they stand, and their scores up to what eight bits know."""
    found = KeyphraseGenerator(trained)(texts(40), max_phrases=6, **options)
    return [
        [(phrase.text, tuple(phrase.spans), pytest.approx(phrase.score, abs=0.01)) for phrase in result]
        for result in found
    ]


@pytest.mark.parametrize("screened", [False, True])
@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("decoder", ["exhird", "catseq", "catseqd", "catseqcorr"])
def test_it_gives_what_the_model_would_give_without_the_other_words(
    decoder: str, tied: bool, beam_size: int, screened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if screened and not quantised.is_available():
        pytest.skip("no products in eight bits here")
    whole = make(decoder, tied=tied)
    expected = answers(without_others(whole), beam_size=beam_size)
    monkeypatch.setattr(output_layer, "LARGE", 0 if screened else 10**9)
    assert answers(shorten(whole, SHORT), beam_size=beam_size) == expected
    assert expected != answers(whole, beam_size=beam_size)


def test_other_words_are_copied_with_an_embedding_of_their_own() -> None:
    trained = shorten(make(), SHORT)
    model = trained.build()
    assert model.generator.vocab_size == len(model.generator.bias) == len(ALWAYS) + len(SHORT)
    assert sorted(trained.tokens) == sorted(TOKENS)
    for number, token in enumerate(trained.tokens):
        before = make().tensors["source_embedding.weight"][TOKENS.index(token)]
        assert torch.equal(model.source_embedding.weight[number], before)
    written = [phrase for result in KeyphraseGenerator(trained)(texts(40)) for phrase in result]
    others = {word for phrase in written for word in phrase.text.split()} & set(WORDS) - set(SHORT)
    assert others


def test_a_tied_layer_is_the_first_rows_of_the_embedding_itself() -> None:
    model = shorten(make(tied=True), SHORT).build()
    assert model.generator.weight.data_ptr() == model.target_embedding.weight.data_ptr()


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
@pytest.mark.parametrize("tied", [False, True])
def test_a_folder_has_it(tied: bool, precision: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    KeyphraseGenerator(make(tied=tied)).save_pretrained(tmp_path / "whole", precision)
    (tmp_path / "words.txt").write_text("\n".join(f"{word}\t7" for word in [*SHORT, "elsewhere"]))
    arguments = ["export", str(tmp_path / "whole"), str(tmp_path / "short"), "--precision", precision]
    assert main([*arguments, "--shortlist", str(tmp_path / "words.txt"), "--name", "short"]) == 0
    config = json.loads((tmp_path / "short" / "config.json").read_text())
    assert config["format"] == 3 and config["architecture"]["generated"] == len(ALWAYS) + len(SHORT)
    whole, short = (KeyphraseGenerator.from_pretrained(tmp_path / name) for name in ("whole", "short"))
    assert answers(short._trained) == answers(without_others(whole._trained))
    short.save_pretrained(tmp_path / "again", precision)
    assert (tmp_path / "again" / "config.json").read_bytes() == (tmp_path / "short" / "config.json").read_bytes()
    assert "generated" not in json.loads((tmp_path / "whole" / "config.json").read_text())["architecture"]


def test_the_card_says_it(tmp_path: Path) -> None:
    KeyphraseGenerator(shorten(make(), SHORT)).save_pretrained(tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"| vocabulary | {len(TOKENS)} words, 14 of which can be generated, the others copied |" in card


def test_what_it_cannot_be_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ExhirdError, match="made-exhird has a shortlist already"):
        shorten(shorten(make(), SHORT), SHORT)
    with pytest.raises(ExhirdError, match="no word of the shortlist is in the vocabulary of made-exhird"):
        shorten(make(), ["elsewhere"])
    pieces = TextModel(subwords=Subwords("pyonmttok", "bpe", b"#version: 0.2\n"))
    with pytest.raises(ExhirdError, match="a model of pieces of words needs all of them"):
        shorten(replace(make(), text=pieces), SHORT)
    KeyphraseGenerator(make()).save_pretrained(tmp_path / "whole")
    assert main(["export", str(tmp_path / "whole"), str(tmp_path / "x"), "--shortlist", str(tmp_path / "none")]) == 2
    assert "none cannot be read: No such file or directory; name another file with --short" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
