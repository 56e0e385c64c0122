"""The corpus of the demo: the same for the same seed, and with something to learn in it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers.files import TOOLS, load_tool

from onmt_exhird.corpus import Example, Rules, make_example
from onmt_exhird.stream import ABSENT, PRESENT

TOOL = TOOLS / "make_corpus.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("make_corpus")


@pytest.fixture(scope="module")
def records(tool: ModuleType) -> list[dict[str, Any]]:
    return tool.make_split(1, "train", 1000)


def examples_of(records: list[dict[str, Any]]) -> list[Example]:
    return [make_example(r["title"], r["abstract"], r["keywords"], Rules(), Counter()) for r in records]


@pytest.fixture(scope="module")
def examples(records: list[dict[str, Any]]) -> list[Example]:
    return examples_of(records)


def run(folder: Path, *options: str) -> dict[str, bytes]:
    command = [
        sys.executable,
        str(TOOL),
        "--output",
        str(folder),
        "--train",
        "7",
        "--valid",
        "5",
        "--test",
        "3",
        *options,
    ]
    subprocess.run(command, check=True)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    first = run(tmp_path / "a", "--seed", "4")
    assert run(tmp_path / "b", "--seed", "4") == first
    other = run(tmp_path / "c", "--seed", "5")
    assert set(first) == set(other) == {"train.jsonl", "valid.jsonl", "test.jsonl"}
    assert all(first[name] != other[name] for name in first)


def test_files_have_the_number_of_records_asked_for(tmp_path: Path) -> None:
    files = run(tmp_path)
    assert {name: data.count(b"\n") for name, data in files.items()} == {
        "train.jsonl": 7,
        "valid.jsonl": 5,
        "test.jsonl": 3,
    }
    for line in files["train.jsonl"].splitlines():
        assert list(json.loads(line)) == ["id", "title", "abstract", "keywords"]


def test_a_folder_that_cannot_be_written_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, str(TOOL), "--output", str(tmp_path / "file")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.startswith("make_corpus.py: error:") and result.stderr.count("\n") == 1


def test_a_longer_corpus_begins_with_the_shorter_one(tool: ModuleType, records: list[dict[str, Any]]) -> None:
    assert tool.make_split(1, "train", 5) == records[:5]


def test_there_are_hundreds_of_terms_all_different(tool: ModuleType) -> None:
    terms = [term.text for term in tool.TERMS]
    assert len(set(terms)) == len(terms) > 400


def test_no_first_word_belongs_to_two_fields(tool: ModuleType) -> None:
    fields: dict[str, set[str]] = {}
    for term in tool.TERMS:
        fields.setdefault(term.text.split()[0], set()).add(term.field)
    assert all(len(names) == 1 for names in fields.values())


def test_no_keyphrase_is_lost_on_the_way_to_the_stream(records: list[dict[str, Any]], examples: list[Example]) -> None:
    assert [len(example.phrases) for example in examples] == [len(record["keywords"]) for record in records]


def test_present_keyphrases_are_terms_and_absent_ones_fields_and_purposes(
    tool: ModuleType, examples: list[Example]
) -> None:
    absent = {*tool.FIELDS, *tool.PURPOSES}
    for example in examples:
        for phrase in example.phrases:
            assert (phrase.tag == ABSENT) == (phrase.text in absent)


def test_documents_are_short_and_have_one_to_six_keyphrases(examples: list[Example]) -> None:
    lengths = [len(example.src) for example in examples]
    assert min(lengths) >= 20 and max(lengths) <= 90 and 40 <= sum(lengths) / len(lengths) <= 60
    assert {len(example.phrases) for example in examples} == {1, 2, 3, 4, 5, 6}


def test_a_document_has_about_two_and_a_half_present_and_more_than_one_absent_keyphrase(
    examples: list[Example],
) -> None:
    tags = Counter(phrase.tag for example in examples for phrase in example.phrases)
    assert 2.2 < tags[PRESENT] / len(examples) < 2.7
    assert 1.2 < tags[ABSENT] / len(examples) < 1.6


def test_in_some_documents_keyphrases_begin_alike(examples: list[Example]) -> None:
    alike = sum(len({p.words[0] for p in example.phrases}) < len(example.phrases) for example in examples)
    assert 0.1 < alike / len(examples) < 0.2


def test_some_keyphrases_can_only_be_copied(tool: ModuleType, examples: list[Example]) -> None:
    vocabulary = {word for example in examples for word in example.src} | {
        word for example in examples for phrase in example.phrases for word in phrase.words
    }
    held_out = examples_of(tool.make_split(1, "test", 300))
    present = [(example, phrase) for example in held_out for phrase in example.phrases if phrase.tag == PRESENT]
    copied = [(example, phrase) for example, phrase in present if not vocabulary.issuperset(phrase.words)]
    assert 0.1 < len(copied) / len(present) < 0.25
    assert all(set(phrase.words) - vocabulary <= set(example.src) for example, phrase in copied)


def test_held_out_documents_are_new(tool: ModuleType, records: list[dict[str, Any]]) -> None:
    known = {record["abstract"] for record in records}
    assert not any(record["abstract"] in known for record in tool.make_split(1, "test", 300))


def test_there_is_something_to_normalise(records: list[dict[str, Any]]) -> None:
    text = " ".join(f"{r['title']} {r['abstract']} {' '.join(r['keywords'])}" for r in records)
    assert all(sign in text for sign in "-[]{}()%0123456789AZ")


@pytest.mark.parametrize(("language", "letter"), [("de", "ü"), ("zh", "的")])
def test_documents_of_other_languages_are_made(tmp_path: Path, language: str, letter: str) -> None:
    command = [sys.executable, str(TOOL), "--output", str(tmp_path), "--language", language]
    subprocess.run([*command, "--train", "20", "--valid", "2", "--test", "2"], check=True)
    records = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert len(records) == 20 and all(record["keywords"] for record in records)
    assert any(letter in record["abstract"] for record in records)
    if language == "zh":
        assert not any(" " in record["abstract"] for record in records)
