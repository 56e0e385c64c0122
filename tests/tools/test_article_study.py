"""tools/studies/article_study.py: three ways to read an article, told apart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.files import load_tool
from helpers.generator_models import make, texts

from onmt_exhird.generator.folder import write_folder
from onmt_exhird.text import tokenize


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_folder(replace(make(), max_source=60), folder)
    return folder


def test_the_beginning_is_as_much_as_a_model_reads() -> None:
    study = load_tool("article_study")
    title, body = study.beginning(("A graph", "of deep trees " * 9), 10)
    assert (title, tokenize(body)) == ("A graph", ["of", "deep", "trees"] * 2 + ["of"])  # and the separator
    assert study.beginning(("A graph", "of trees"), 10) == ("A graph", "of trees")


def test_each_way_has_its_row(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "articles.jsonl"
    records = [
        {"title": f"On graph {n}", "abstract": text, "body": " ".join(texts(8, seed=n)), "keywords": ["graph", "tree"]}
        for n, text in enumerate(texts(3))
    ]
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    study = load_tool("article_study")
    assert study.main(["--model", str(model), "--input", str(file)]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row[:11].strip() for row in rows] == ["read", "beginning", "all at once", "in parts"]
    assert len({row[12:] for row in rows[1:]}) == 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"title": "a", "abstract": "b", "keywords": []}\n', "articles.jsonl, line 1: no key 'body'"),
        ("", "articles.jsonl: the file has no records"),
        ("{\n", "articles.jsonl, line 1: not valid JSON"),
    ],
)
def test_a_file_of_something_else_is_one_sentence_and_status_2(
    text: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "articles.jsonl"
    file.write_text(text)
    assert load_tool("article_study").main(["--model", "none", "--input", str(file)]) == 2
    assert sentence in capsys.readouterr().err


def test_articles_are_read_with_their_keyphrases(tmp_path: Path) -> None:
    file = tmp_path / "articles.jsonl"
    file.write_text('{"title": "A", "abstract": null, "body": "We colour.", "keywords": "Graphs (G); trees"}\n' * 3)
    articles, gold = load_tool("article_study").read_articles(file, 2)
    assert (articles, gold) == ([("A", "\nWe colour.")] * 2, ["graphs ; trees"] * 2)
