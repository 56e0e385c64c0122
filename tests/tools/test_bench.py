"""tools/bench.py: its JSON, its documents, its count of operations; what it compares with is the same model."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest
import torch
from helpers.files import load_tool

from onmt_exhird import stream

KEYS = {
    "docs_per_second",
    "docs_per_cpu_second",
    "gflops",
    "peak_gflops",
    "fraction_of_peak",
    "rss_mb",
    "ratio_to_reference",
}
SMALL = ["--documents", "60", "--repeat", "2", "--vocab", "80", "--source", "25", "--target", "12"]
TINY = ["-hidden_size", "14", "-word_vec_size", "6"]


@pytest.fixture(scope="module", autouse=True)
def _benchmarks() -> None:
    """bench.py imports these when it needs them."""
    for name in ("models", "text", "generate"):
        load_tool(f"benchmarks.{name}")


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """bench.py switches OpenNMT-py's log off, for its whole process."""
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def clocks() -> ModuleType:
    return load_tool("benchmarks.clock")


@pytest.fixture(scope="module")
def models() -> ModuleType:
    return load_tool("benchmarks.models")


@pytest.fixture(scope="module")
def documents() -> ModuleType:
    return load_tool("benchmarks.documents")


@pytest.fixture
def training(models: ModuleType, documents: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A small model and its batches, as the benchmark builds them."""
    monkeypatch.chdir(tmp_path)
    documents.write_corpus(tmp_path, documents.Shape(vocab=80, source=25, target=12), seed=3, count=40)
    options = ["-src_vocab_size", "80", "-tgt_vocab_size", "80", "-bucket_size", "40", "-batch_size", "7", *TINY]
    return models.Training(load_tool("bench").RECIPE, options)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert load_tool("bench").main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("what", ["train", "decode"])
def test_models_are_measured_against_peak_and_reference(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [*TINY, "--steps", "3", "--batch", "5"] if what == "train" else ["--documents", "9", "--batch", "4"]
    found = run(capsys, what, *SMALL, *steps)
    assert found.keys() >= KEYS
    assert all(found[key] > 0 for key in KEYS)
    assert found["fraction_of_peak"] == pytest.approx(found["gflops"] / found["peak_gflops"], abs=1e-4)
    if what == "train":
        assert 0 < found["batch_making_share"] < 1
        assert found["documents"] == 15
    else:
        assert found["same_as_reference"] == 1


@pytest.mark.parametrize("what", ["prepare", "evaluate"])
def test_text_is_measured_and_equals_the_reference(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, what, *SMALL)
    assert found.keys() >= KEYS
    assert found["gflops"] is None and found["fraction_of_peak"] is None
    assert all(found[key] > 0 for key in KEYS - {"gflops", "fraction_of_peak"})
    assert found["same_as_reference"] is True


def test_generating_is_measured_from_raw_texts_on(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(f'{{"title": "On graph {n}", "abstract": "Trees and graphs."}}\n' for n in range(5)))
    for source in ([], ["--texts", str(texts)]):
        found = run(capsys, "generate", *SMALL, "--repeat", "1", *source)
        assert found.keys() >= KEYS and found["docs_per_cpu_second"] > 0
        assert found["documents"] == (5 if source else 60) and found["phrases_per_document"] > 1
        assert 1 < found["cold_to_import_torch"] < 10


def test_without_json_every_line_is_a_key_and_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert load_tool("bench").main(["evaluate", *SMALL, "--repeat", "1", "--no-reference"]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    found = dict(lines)
    assert found.keys() >= {"docs_per_second", "load", "processor"}
    assert found["capability"].split()[0] == torch.backends.cpu.get_cpu_capability()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--config", "nowhere.yaml"], "nowhere.yaml is no file"),
        (["train", "--vocab", "5"], "--vocab is 5"),
        (["train", "--documents", "3"], "less than two batches"),
        (["prepare", "--bathc", "3"], "unknown option --bathc"),
    ],
)
def test_mistakes_are_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert load_tool("bench").main(arguments) == 2
    assert message in capsys.readouterr().err


def test_documents_have_the_shape_of_kp20k(documents: ModuleType) -> None:
    made = list(islice(documents.make_documents(documents.Shape(), seed=1), 600))
    assert sum(len(document.source) for document in made) / 600 == pytest.approx(190, rel=0.05)
    assert sum(len(document.target_line.split()) + 1 for document in made) / 600 == pytest.approx(27, rel=0.05)
    vocabulary = {documents.spell(rank) for rank in range(documents.Shape().words)}
    rare = sum(word not in vocabulary for document in made for word in document.source)
    assert rare / sum(len(document.source) for document in made) == pytest.approx(documents.RARE, rel=0.2)


def test_documents_are_streams_of_their_own_words_and_depend_on_the_seed_alone(documents: ModuleType) -> None:
    shape = documents.Shape(vocab=200, source=30, target=20)
    first, again, other = (list(islice(documents.make_documents(shape, seed), 20)) for seed in (1, 1, 2))
    assert first == again != other
    for document in first:
        phrases = stream.parse(document.target_line)
        for phrase in phrases:
            if phrase.tag == stream.PRESENT:
                assert f" {phrase.text} " in f" {document.source_line} "


def test_the_vocabulary_has_the_size_asked_for(training) -> None:
    assert len(training.vocabs["tgt"]) == 80


def test_the_reference_has_our_loss_and_gradient(training, models: ModuleType) -> None:
    import torch

    reference = load_tool("benchmarks.reference_model").ReferenceModel.like(
        training.model.state_dict(), models.find_ids(training.vocabs["tgt"])
    )
    for batch, _ in islice(training.batches, 3):
        outputs, attentions = training.model(batch["src"], batch["tgt"], batch["srclen"])
        loss, _ = training.trainer.train_loss(batch, outputs, attentions)
        training.model.zero_grad()
        reference.zero_grad()
        loss.backward()
        plain = reference.loss(batch)
        plain.backward()
        assert plain.item() == pytest.approx(loss.item(), rel=1e-4)
        torch.testing.assert_close(
            reference.combine.weight.grad, training.model.decoder.hierarchy.combine.grad, rtol=1e-3, atol=1e-5
        )
        torch.testing.assert_close(
            reference.output.weight.grad, training.model.generator.weight.grad, rtol=1e-3, atol=1e-5
        )


def test_operations_are_those_that_torch_counts(training, models: ModuleType, clocks: ModuleType) -> None:
    """One document through the plain model, whose products are the formula's."""
    from torch.utils.flop_counter import FlopCounterMode

    vocab = training.vocabs["tgt"]
    ids = models.find_ids(vocab)
    reference = load_tool("benchmarks.reference_model").ReferenceModel.like(training.model.state_dict(), ids)
    batch = {name: value[:1] for name, value in next(training.batches)[0].items()}
    batch["src"], batch["src_map"] = (batch[name][:, : batch["srclen"]] for name in ("src", "src_map"))
    grid = load_tool("benchmarks.reference_model").make_grid(batch["tgt"][:, :, 0], batch["tgt_ext"], ids)
    tokens = clocks.Tokens()
    tokens.add(int(batch["srclen"]), grid.targets.numel(), grid.targets.size(1))  # all of the grid
    with FlopCounterMode(display=False) as counter:
        reference.loss(batch)
    assert counter.get_total_flops() == pytest.approx(clocks.exhird_flop(tokens, 6, 14, len(vocab)), rel=0.01)


def test_a_document_of_the_paper_costs_what_the_authors_program_would_count(clocks: ModuleType) -> None:
    document = clocks.Tokens()
    document.add(source=190, target=27, phrases=7)
    gflop = clocks.exhird_flop(document, embedding=100, hidden=300, vocab=50_004) / 1e9
    assert gflop == pytest.approx(1.1, rel=0.03)
    assert 3 * gflop == pytest.approx(3.4, rel=0.03)
