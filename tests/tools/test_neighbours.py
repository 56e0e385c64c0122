"""Phrases of similar documents: the nearest ones are those of the slow, obvious sum, and likely ones are right."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
from helpers.files import load_tool, write_lines

WORDS = [f"{letter}word" for letter in "abcdefghij"]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("neighbours")


@pytest.fixture(scope="module")
def index() -> ModuleType:
    return load_tool("reinforcement.index")


def cosines(documents: list[list[str]], query: list[str], rarest: int, commonest: float) -> list[float]:
    having = Counter(word for document in documents for word in set(document))
    used = {word for word, count in having.items() if rarest <= count <= commonest * len(documents)}

    def vector(document: list[str]) -> dict[str, float]:
        counts = Counter(word for word in document if word in used)
        rarity = {word: 1 + math.log((1 + len(documents)) / (1 + having[word])) for word in counts}
        return {word: (1 + math.log(count)) * rarity[word] for word, count in counts.items()}

    def cosine(left: dict[str, float], right: dict[str, float]) -> float:
        norms = math.hypot(*left.values()) * math.hypot(*right.values())
        return sum(value * right.get(word, 0.0) for word, value in left.items()) / norms if norms else 0.0

    return [cosine(vector(query), vector(document)) for document in documents]


def test_the_nearest_are_those_of_the_obvious_sum(index):
    random = Random(1)
    documents = [random.choices(WORDS, range(1, 11), k=random.randint(1, 12)) for _ in range(60)]
    found = index.Index(documents, rarest=3, commonest=0.8)
    for query in (*documents[:5], ["aword", "unheard", "7"]):
        expected = cosines(documents, query, 3, 0.8)
        nearest = found.nearest(query, 7)
        assert [how for _, how in nearest] == pytest.approx(
            [how for how in sorted(expected)[::-1][:7] if how], rel=1e-4
        )
        assert [how for _, how in nearest] == pytest.approx([expected[number] for number, _ in nearest], rel=1e-4)


def test_a_document_without_a_known_word_has_no_neighbours(index):
    assert index.Index([WORDS] * 9, commonest=1.0).nearest(["unheard", ";"], 3) == []


@pytest.fixture
def corpus(tool, monkeypatch, tmp_path: Path) -> Path:
    """Thirty documents on trees, of which each second has the phrase spanning tree, and thirty on fish."""
    monkeypatch.setattr(tool, "NEAREST", 20)
    monkeypatch.setattr(tool, "Index", partial(tool.Index, rarest=1, commonest=1.0))
    sources = [f"trees graphs nodes edges {WORDS[n % 10]}" for n in range(30)]
    sources += [f"fish water lakes rain {WORDS[n % 10]}" for n in range(30)]
    targets = [f"<p_start> graphs ; <a_start> {'spanning trees' if n % 2 else f'thing{n}'} ;" for n in range(30)]
    targets += [f"<p_start> fish ; <a_start> {'river' if n % 3 else f'matter{n}'} ;" for n in range(30)]
    write_lines(tmp_path / "all.src", sources)
    write_lines(tmp_path / "all.tgt", targets)
    return tmp_path / "all"


def test_phrases_of_like_documents_that_do_not_stand_in_it(tool, corpus, capsys):
    assert tool.main(["--data", str(corpus), "--among", str(corpus)]) == 0
    assert "written" in capsys.readouterr().out
    lines = load_tool("reinforcement.files").read_near(str(corpus))
    assert len(lines) == 60
    assert all("span tree" in line and "river" not in line for line in lines[:30])
    assert all("river" in line and "graph" not in line for line in lines[30:])
    assert all(0 <= chance <= 1 for line in lines for chance in line.values())
    own = [lines[n]["span tree"] for n in range(30)]
    rare = [chance for line in lines for phrase, chance in line.items() if phrase.startswith(("thing", "matter"))]
    assert min(own) > 0.25 > max(rare)


def test_its_own_phrases_are_not_looked_up(tool, corpus):
    """thing0 is the first document's alone: it would be the nearest to itself."""
    documents = tool.Corpus.read([str(corpus)])
    found = dict(tool.Neighbourhood(documents).phrases(documents.sources[0]))
    assert "thing0" not in found
    assert sum(phrase.startswith("thing") for phrase in found) > 3


def test_likely_is_what_was_right_as_often(tool):
    found = [[("right", 0.5), ("wrong", 0.1)], [("right", 0.5), ("wrong", 0.1)]]
    assert tool.calibrate(found, [["right"], []]) == [{"right": 0.5, "wrong": 0.0}] * 2


def test_a_stronger_phrase_is_not_less_likely(tool):
    found = [[("weak", 0.1), ("strong", 1.9)]]
    assert tool.calibrate(found, [["weak"]]) == [{"weak": 1.0, "strong": 1.0}]


def test_a_mistake_is_a_sentence(tool, tmp_path, capsys):
    assert tool.main(["--data", "nowhere", "--among", "nowhere"]) == 2
    assert "nowhere.src" in capsys.readouterr().err
    for ending in ("src", "tgt"):
        write_lines(tmp_path / f"none.{ending}", [])
    assert tool.main(["--data", "none", "--among", str(tmp_path / "none")]) == 2
    assert "none.src is empty" in capsys.readouterr().err
