"""Phrases that a text says in another order: all that the patterns allow, and added where they are likely."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.generator_models import make
from hypothesis import given
from hypothesis import strategies as st

from onmt_exhird import KeyphraseGenerator
from onmt_exhird.generator.chances import Chance, Manner, RearrangedChance
from onmt_exhird.generator.documents import read_document
from onmt_exhird.generator.folder import read_config, read_folder
from onmt_exhird.generator.phrases import ByStems, Raw, Reader
from onmt_exhird.generator.rearranged import candidates, cases, likely_cases
from onmt_exhird.generator.thesaurus import KnownPhrases
from onmt_exhird.generator.trained import Trained
from onmt_exhird.text import stem_words

ALWAYS = RearrangedChance(0, 0, 0, 0, 0, 0, 0, offset=2.0)  # a chance of 0.88, whatever is known


def read(text: str, *written: str) -> tuple[Reader, ByStems]:
    """A document, and phrases that a decoder has written for it."""
    reader = Reader(read_document(text))
    found = {stem_words(words.split()): reader.keyphrase(Raw(tuple(words.split()), 0, 0.5)) for words in written}
    return reader, {stems: phrase for stems, phrase in found.items() if phrase is not None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("linear and quadratic programming", ["linear programming"]),
        ("linear or quadratic integer programming", ["linear integer", "linear integer programming"]),
        ("graph theory and algorithms", ["graph algorithms"]),
        ("random graph theory and algorithms", ["graph algorithms", "random graph algorithms"]),
        ("theory of the random graphs", ["random theory", "random graphs theory"]),
        ("the theory of sorting", ["sorting theory"]),
        ("theory of this and of 3 graphs", []),
        ("theory of sorting theory", ["sorting theory"]),
        ("theory, and linear", []),
        ("", []),
    ],
)
def test_what_a_text_may_say(text: str, expected: list[str]) -> None:
    assert [" ".join(words) for words in candidates(read_document(text).tokens)] == expected


def obvious(tokens: list[str]) -> Counter[tuple[str, ...]]:
    """The same by looking at every run of up to six tokens."""

    def are_words(*some: str) -> bool:
        return all(token in ("graph", "tree", "sorting", "proof") for token in some)

    found: Counter[tuple[str, ...]] = Counter()
    for start in range(len(tokens)):
        for end in range(start + 3, min(start + 6, len(tokens)) + 1):
            match tokens[start:end]:
                case [a, "and" | "or", b, *c] if len(c) in (1, 2) and are_words(a, b, *c):
                    found[a, *c] += 1
                case [*a, b, "and" | "or", c] if len(a) in (1, 2) and are_words(*a, b, c):
                    found[*a, c] += 1
                case [y, "of", "the" | "a" | "an", *x] if len(x) in (1, 2, 3) and are_words(y, *x):
                    found[*x, y] += 1
                case [y, "of", *x] if len(x) in (1, 2, 3) and are_words(y, *x):
                    found[*x, y] += 1
    return Counter({words: times for words, times in found.items() if len(set(words)) == len(words)})


@given(st.lists(st.sampled_from("graph tree sorting proof and or of the a which , <digit>".split()), max_size=30))
def test_they_are_those_of_the_obvious_search(tokens: list[str]) -> None:
    assert {words: found.times for words, found in candidates(tokens).items()} == obvious(tokens)


def test_what_is_known_of_a_case() -> None:
    reader, written = read(
        "linear and quadratic programming. graph theory and algorithms. linear and convex programming, graphs of trees",
        "quadratic programming",
        "linear",
        "machine learning",
        "graph theory",
    )
    assert len(reader.document.tokens) == 18
    of_document = (math.log(18), 3.0, 5 / 3)
    assert {" ".join(case.words): case.facts for case in cases(reader, written)} == {
        "linear programming": (0.0, 0.0, 2.0, 2.0, *of_document),
        "graph algorithms": (1.0, 0.0, 1.0, 1.0, *of_document),
        "trees graphs": (0.0, 1.0, 0.0, 1.0, *of_document),
    }


def test_what_stands_there_or_is_written_is_no_case() -> None:
    text = "theory of graphs, linear and quadratic programs. graph theory"
    assert [case.words for case in cases(*read(text))] == [("linear", "programs")]
    assert not list(cases(*read(text, "linear programming")))
    assert not list(cases(*read("proofs of proof")))


def test_none_is_said_across_a_break() -> None:
    for sign in (";", ":", " -", "!"):
        assert not list(cases(*read(f"linear and quadratic{sign} programming, theory of{sign} graphs")))


def test_of_two_forms_the_first_is_taken() -> None:
    assert [case.words for case in cases(*read("theory of graphs, theories of graph"))] == [("graphs", "theory")]


def test_chances_are_those_of_the_obvious_sum() -> None:
    chance = RearrangedChance(-1.0, -0.5, 1.5, 0.25, -0.75, 0.5, 1.0, offset=0.3)
    reader, written = read("theory of graphs, linear and quadratic programs", "linear", "theory")
    per_document = -0.75 * math.log(8) + 0.5 * 2 + 1.0 * 1 + 0.3
    odds = {"graphs theory": -0.5 + 1.5 + 0.25 + per_document, "linear programs": 1.5 + 0.25 + per_document}
    found = {" ".join(case.words): score for case, score in likely_cases(chance, 0.2, reader, written)}
    assert found == pytest.approx({words: 1 / (1 + math.exp(-one)) for words, one in odds.items()})
    likelier = [" ".join(case.words) for case, _ in likely_cases(chance, 0.9, reader, written)]
    assert likelier == [words for words, score in found.items() if score >= 0.9] != list(found)


def test_odds_beyond_all_numbers_do_no_harm() -> None:
    reader, written = read("theory of graphs")
    for offset, count in ((-1e9, 0), (1e9, 1)):
        assert len(list(likely_cases(replace(ALWAYS, offset=offset), 0.5, reader, written))) == count


def knowing(phrases: list[str], rearranged: RearrangedChance | None, most: int = 9) -> Trained:
    """A model with a thesaurus that adds nothing, and whose only known word is rare."""
    import torch

    trained = make()
    tensors = {
        "words": torch.zeros(len(trained.tokens), 2),
        "rarity": torch.tensor([float(token == "graph") for token in trained.tokens]),
        "phrases": torch.zeros(len(phrases), 2),
        "bias": torch.zeros(len(phrases)),
        "keyness": torch.zeros(len(phrases)),
    }
    never = Chance(0.0, 0.0, -9.0, 0.5)
    return replace(trained, thesaurus=KnownPhrases(phrases, tensors, Manner(never, never, most, rearranged)))


TEXT = "graph of quiet sorting; linear and quadratic programming, colouring of trees"
SAID = {"quiet graph", "quiet sorting graph", "linear programming", "trees colouring"}


def test_a_generator_adds_them_last_and_not_those_that_the_thesaurus_knows() -> None:
    without = KeyphraseGenerator(knowing(["trees colouring", "proof"], None))(TEXT)
    result = KeyphraseGenerator(knowing(["trees colouring", "proof"], ALWAYS))(TEXT)
    assert list(result[: len(without)]) == list(without)
    more = result[len(without) :]
    assert {phrase.text for phrase in more} == SAID - {"trees colouring"}
    for phrase in more:
        assert not phrase.present and phrase.spans == () and phrase.surface is None
        assert phrase.score == pytest.approx(1 / (1 + math.exp(-2)), abs=1e-4)
    assert KeyphraseGenerator(knowing(["proof"], ALWAYS))(TEXT, thesaurus=False).texts == without.texts


def test_so_many_absent_ones_at_most_with_the_decoders_own() -> None:
    for most in (1, 3):
        without = KeyphraseGenerator(knowing(["proof"], None, most))(TEXT)
        result = KeyphraseGenerator(knowing(["proof"], ALWAYS, most))(TEXT)
        assert len(result.absent) == max(most, len(without.absent))


def test_a_folder_has_the_chance_and_the_card_says_so(tmp_path: Path) -> None:
    trained = knowing(["proof"], ALWAYS)
    KeyphraseGenerator(trained).save_pretrained(tmp_path)
    assert read_config(tmp_path)["thesaurus"]["rearranged"]["offset"] == 2.0
    assert "and those of the document's own words in another order: present" in (tmp_path / "README.md").read_text()
    again = read_folder(tmp_path).thesaurus
    assert again is not None and trained.thesaurus is not None and again.manner == trained.thesaurus.manner
