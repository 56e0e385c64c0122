"""The model that comes with the package: it is found, small, says what it is, and knows an abstract."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.files import ROOT

from onmt_exhird import KeyphraseGenerator
from onmt_exhird.cli import main
from onmt_exhird.generator.loading import installed
from onmt_exhird.stream import SEPARATOR, STRUCTURE

FOLDER = ROOT / "onmt_exhird" / "models" / "science"
ABSTRACTS = (ROOT / "recipes" / "demo" / "abstracts.txt").read_text().splitlines()


@pytest.fixture(scope="module")
def science() -> KeyphraseGenerator:
    return KeyphraseGenerator.from_pretrained()


def test_is_found_by_its_name_and_without_one(science: KeyphraseGenerator) -> None:
    assert "science" in installed() and science.name == "science"
    assert KeyphraseGenerator.from_pretrained("science").config == science.config
    assert {*STRUCTURE, SEPARATOR} <= set((FOLDER / "vocab.txt").read_text().split("\n"))


def test_is_small_enough_for_a_wheel() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 25_000_000


def test_its_card_has_every_part(science: KeyphraseGenerator) -> None:
    for part in ("## Training data", "## Training settings", "## Scores", "## Limits", "## Licence"):
        assert part in science.card
    assert "Not given" not in science.card


def test_finds_what_an_abstract_is_about(science: KeyphraseGenerator) -> None:
    """One phrase of each, which every sound model finds: no more, lest rounding decides."""
    results = science(ABSTRACTS)
    for result, wanted in zip(
        results, ("leak", "citation", "question answering", "blood pressure", "pricing"), strict=True
    ):
        assert 2 <= len(result) <= 12
        assert any(wanted in phrase.text for phrase in result), result.texts


def test_the_command_needs_no_model_named(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps({"id": "a", "text": ABSTRACTS[2]}) + "\n")
    assert main(["generate", str(file)]) == 0
    answer = json.loads(capsysbinary.readouterr().out)
    assert answer["id"] == "a" and answer["keyphrases"]
