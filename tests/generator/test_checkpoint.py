"""A checkpoint of onmt_train generates, without OpenNMT-py, what onmt_translate writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers.bridge_models import wild
from helpers.files import write_lines
from helpers.generator_models import texts
from helpers.stock import translate

from onmt_exhird import KeyphraseGenerator, stream
from onmt_exhird.cli import main
from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.api import Options
from onmt_exhird.generator.documents import read_document

SEARCHES = {"greedy": (1, 1), "off": (1, 0), "all": (1, None), "beam": (3, 1)}


@pytest.fixture(scope="module", params=["exhird", "rnn", "catseqd", "catseqcorr"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wild(request.param, tmp_path_factory.mktemp(request.param) / "model.pt")


@pytest.mark.parametrize("search", SEARCHES)
def test_writes_what_onmt_translate_writes(search: str, checkpoint: Path) -> None:
    beam, window = SEARCHES[search]
    documents = [read_document(text) for text in texts(12)]
    write_lines(checkpoint.parent / "some.src", [" ".join(document.tokens) for document in documents])
    exclusion = ["-exclusive_search", "-exclusive_window", "all" if window is None else window]
    wanted = ["-beam_size", beam, "-max_phrases", 5, "-max_phrase_words", 3, *exclusion]
    lines = translate(checkpoint.parent, checkpoint, "some.src", *wanted)
    generator = KeyphraseGenerator.from_pretrained(checkpoint)
    options = Options(window=window, max_phrases=5, max_phrase_words=3, beam_size=beam)
    sources = generator._sources([document.tokens for document in documents])
    found = {one.document: one.tokens.tolist() for step in generator._search([sources], options) for one in step}
    for number, line in enumerate(lines):
        written = " ".join(generator._words(found[number], sources.words[number])).removesuffix(" </s>")
        assert list(stream.parse(line)) == list(stream.parse(written))


def test_export_gives_a_folder_that_generates_the_same(checkpoint: Path, tmp_path: Path) -> None:
    assert main(["export", str(checkpoint), str(tmp_path / "model")]) == 0
    folder, direct = (KeyphraseGenerator.from_pretrained(path) for path in (tmp_path / "model", checkpoint))
    assert folder(texts(5)) == direct(texts(5))


def test_a_transformer_is_refused_with_what_can_be_done_instead(tmp_path: Path, capsys) -> None:
    path = wild("transformer", tmp_path / "model.pt")
    assert main(["export", str(path), str(tmp_path / "model")]) == 2
    assert "-decoder_type transformer" in capsys.readouterr().err and not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"copy_attn": False}, "does not copy"),
        ({"rnn_type": "LSTM"}, "-rnn_type LSTM"),
        ({"reuse_copy_attn": False}, "not catSeq .-reuse_copy_attn"),
        ({"global_attention": "mlp"}, "-global_attention"),
        ({"n_src_feats": 2}, "more than words"),
    ],
)
def test_what_is_none_of_our_models_is_refused(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    path = wild("rnn", tmp_path / "model.pt")
    saved = torch.load(path, weights_only=True)
    vars(saved["opt"]).update(changes)
    torch.save(saved, path)
    with pytest.raises(ExhirdError, match=message):
        KeyphraseGenerator.from_pretrained(path)
