"""Phrases that a text says in another order: all that the patterns allow, and added where they are likely."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers.generator_models import TOKENS, make
from hypothesis import given
from hypothesis import strategies as st

from onmt_exhird import Keyphrase, KeyphraseGenerator
from onmt_exhird.generator.chances import Chance, Manner, RearrangedChance
from onmt_exhird.generator.documents import read_document
from onmt_exhird.generator.folder import read_config, read_folder
from onmt_exhird.generator.phrases import ByStems, Raw, Reader
from onmt_exhird.generator.rearranged import cases, likely_cases, matches, of_document
from onmt_exhird.generator.thesaurus import KnownPhrases, Suggesting, Suggestion
from onmt_exhird.text import stem_words

ALWAYS = RearrangedChance(0, 0, 0, 0, 0, 0, 0, offset=2.0)  # a chance of 0.88, whatever is known


def read(text: str, *written: str) -> tuple[Reader, ByStems]:
    """A document, and phrases that a decoder has written for it."""
    reader = Reader(read_document(text))
    found = {stem_words(words.split()): reader.keyphrase(Raw(tuple(words.split()), 0, 0.5)) for words in written}
    return reader, {stems: phrase for stems, phrase in found.items() if phrase is not None}


def said(text: str) -> Counter[str]:
    """What a text says by the patterns, and how often."""
    document = read_document(text)
    return Counter(
        " ".join(document.tokens[place + offset] for offset in pattern.phrase) for pattern, place in matches(document)
    )


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
        ("theory, and linear", []),
        ("linear and quadratic: programming, theory of - graphs; of trees! and leaves", []),
        ("", []),
    ],
)
def test_what_a_text_may_say(text: str, expected: list[str]) -> None:
    assert sorted(said(text)) == sorted(expected)


def obvious(tokens: list[str]) -> Counter[str]:
    """The same by looking at every run of up to six tokens."""

    def are_words(*some: str) -> bool:
        return all(token in ("graph", "tree", "sorting", "proof") for token in some)

    found: Counter[str] = Counter()
    for start in range(len(tokens)):
        for end in range(start + 3, min(start + 6, len(tokens)) + 1):
            match tokens[start:end]:
                case [a, "and" | "or", b, *c] if len(c) in (1, 2) and are_words(a, b, *c):
                    found[" ".join([a, *c])] += 1
                case [*a, b, "and" | "or", c] if len(a) in (1, 2) and are_words(*a, b, c):
                    found[" ".join([*a, c])] += 1
                case [y, "of", "the" | "a" | "an", *x] if len(x) in (1, 2, 3) and are_words(y, *x):
                    found[" ".join([*x, y])] += 1
                case [y, "of", *x] if len(x) in (1, 2, 3) and are_words(y, *x):
                    found[" ".join([*x, y])] += 1
    return found


@given(st.lists(st.sampled_from("graph tree sorting proof and or of the a which ,".split()), max_size=30))
def test_it_is_what_the_obvious_search_finds(tokens: list[str]) -> None:
    assert said(" ".join(tokens)) == obvious(tokens)


def test_what_is_known_of_a_case() -> None:
    reader, written = read(
        "linear and quadratic programming. graph theory and algorithms. linear and convex programming, graphs of trees",
        "quadratic programming",
        "linear",
        "machine learning",
        "graph theory",
    )
    alike = of_document(reader, written)
    assert len(reader.document.tokens) == 18 and alike == (math.log(18), 3, 5 / 3)
    assert {" ".join(case.words): case.facts(alike) for case in cases(reader, written).values()} == {
        "linear programming": (0, 0, 2, 2, *alike),
        "graph algorithms": (1, 0, 1, 1, *alike),
        "trees graphs": (0, 1, 0, 1, *alike),
    }
    assert all(stems == stem_words(case.words) for stems, case in cases(reader, written).items())


def test_what_is_written_is_no_case_nor_what_says_a_word_twice() -> None:
    text = "the theory of graphs is proved by linear and quadratic programs"
    assert list(cases(*read(text))) == [("graph", "theori"), ("linear", "program")]
    assert list(cases(*read(text, "graph theory"))) == [("linear", "program")]
    assert not cases(*read("proofs of proof"))
    assert not cases(*read("")) and of_document(*read("")) == (0, 0, 0)


def test_what_is_written_in_the_documents_order_is_not_said_again() -> None:
    def likely(*written: str) -> list[str]:
        text = "the theory of graphs. theory of the graphs; design and theory of trees"
        return [" ".join(raw.words) for _, raw in likely_cases(ALWAYS, 0.5, *read(text, *written))]

    assert likely("design", "theory") == ["graphs theory", "trees theory"]
    assert likely("theories of graphs") == ["trees theory"]
    assert likely("theory of the graphs", "theory of trees") == []
    alike = read("early and late jobs", "early and late jobs", "early")  # which says more than early jobs
    assert [raw.words for _, raw in likely_cases(ALWAYS, 0.5, *alike)] == [("early", "jobs")]


def test_of_two_forms_the_first_is_taken_and_both_are_counted() -> None:
    [case] = cases(*read("theory of graphs, theories of graph", "theory")).values()
    assert (case.words, case.times) == (("graphs", "theory"), 2)


def test_chances_are_those_of_the_obvious_sum() -> None:
    chance = RearrangedChance(-1.0, -0.5, 1.5, 0.25, -0.75, 0.5, 1.0, offset=0.3)
    reader, written = read("theory of graphs, linear and quadratic programs", "linear", "theory")
    per_document = -0.75 * math.log(8) + 0.5 * 2 + 1.0 * 1 + 0.3
    odds = {"graphs theory": -0.5 + 1.5 + 0.25 + per_document, "linear programs": 1.5 + 0.25 + per_document}
    found = {" ".join(raw.words): raw.score for _, raw in likely_cases(chance, 0.2, reader, written)}
    assert found == pytest.approx({words: 1 / (1 + math.exp(-one)) for words, one in odds.items()})
    likelier = [" ".join(raw.words) for _, raw in likely_cases(chance, 0.9, reader, written)]
    assert likelier == [words for words, score in found.items() if score >= 0.9] != list(found)


def test_what_stands_there_is_not_likely() -> None:
    for text, count in (("theory of graphs", 1), ("theory of graphs. Graph theories", 0)):
        assert len(list(likely_cases(ALWAYS, 0.5, *read(text, "theory")))) == count


def test_odds_beyond_all_numbers_do_no_harm() -> None:
    for offset, count in ((-1e9, 0), (1e9, 1)):
        found = likely_cases(replace(ALWAYS, offset=offset), 0.5, *read("theory of graphs", "graphs"))
        assert len(list(found)) == count


def knowing(phrases: list[str], rearranged: RearrangedChance | None, most: int = 9) -> KnownPhrases:
    """A thesaurus of phrases that are never likely."""
    trained, count = make(), len(phrases)
    tensors = {
        "words": torch.zeros(len(trained.tokens), 2),
        "rarity": torch.ones(len(trained.tokens)),
        "phrases": torch.zeros(count, 2),
        "bias": torch.zeros(count),
        "keyness": torch.zeros(count),
    }
    never = Chance(0.0, 0.0, -9.0, 0.5)
    return KnownPhrases(phrases, tensors, Manner(never, never, most, rearranged))


def settle(known: KnownPhrases, *written: str, suggested: Sequence[Suggestion] = ()) -> list[Keyphrase]:
    text = "Theory of graphs, linear and quadratic programs: colouring of trees. Machines learn"
    phrases = Suggesting(known, len(TOKENS), None).settle(*read(text, *written), suggested)
    assert all(stems == stem_words(phrase.text.split()) for stems, phrase in phrases.items())
    return list(phrases.values())


WRITTEN = "trees", "machines learn", "programs linear", "graphs", "quadratic programs"


def test_they_come_last_and_only_if_the_thesaurus_does_not_know_them() -> None:
    alone = settle(knowing(["x"], None), *WRITTEN)
    assert [phrase.text for phrase in alone] == list(WRITTEN)
    result = settle(knowing(["x"], ALWAYS), *WRITTEN)
    assert result[: len(alone)] == alone
    assert [phrase.text for phrase in result[len(alone) :]] == ["graphs theory", "linear programs", "trees colouring"]
    for phrase in result[len(alone) :]:
        assert not phrase.present and phrase.spans == () and phrase.surface is None and phrase.attention is None
        assert phrase.score == pytest.approx(1 / (1 + math.exp(-2)), abs=1e-4)
    result = settle(knowing(["linear programs"], ALWAYS), *WRITTEN)
    assert [phrase.text for phrase in result[len(alone) :]] == ["graphs theory", "trees colouring"]


def test_so_many_absent_ones_at_most_with_the_others_the_likeliest_first() -> None:
    suggested = [Suggestion(("deep", "sorting"), 0.1, 0.9), Suggestion(("proof",), 0.1, 0.8)]
    for most, expected in ((1, []), (2, ["deep sorting"]), (4, ["deep sorting", "graphs theory", "linear programs"])):
        result = settle(knowing(["deep sorting", "proof"], ALWAYS, most), *WRITTEN, suggested=suggested)
        assert [phrase.text for phrase in result[len(WRITTEN) :]] == expected


def test_what_both_have_is_the_thesaurus_s() -> None:
    """In another form: as most authors write it, and as likely as it says."""
    suggested = [Suggestion(("graph", "theory"), 0.1, 0.7)]
    result = settle(knowing(["graph theory"], ALWAYS), "graphs", suggested=suggested)
    theories = [(phrase.text, phrase.score) for phrase in result if "theory" in phrase.text]
    assert theories == [("graph theory", 0.7)]


def test_a_folder_has_the_chance_and_the_card_says_so(tmp_path: Path) -> None:
    trained = replace(make(), thesaurus=knowing(["proof"], ALWAYS))
    KeyphraseGenerator(trained).save_pretrained(tmp_path)
    assert read_config(tmp_path)["thesaurus"]["rearranged"]["offset"] == 2.0
    assert "and those of the document's own words in another order: present" in (tmp_path / "README.md").read_text()
    again = read_folder(tmp_path).thesaurus
    assert again is not None and trained.thesaurus is not None and again.manner == trained.thesaurus.manner
