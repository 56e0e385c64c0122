"""The thesaurus: documents are the bags that the obvious sums give, and logits are those of their words' vectors."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from onmt_exhird.nn.thesaurus import TITLE, Finder, Thesaurus, title_length

WORDS, SEPARATOR = 8, 6
PHRASES = [[1], [2, 3], [1, 2, 3], [3, None], [5, 5]]  # 7 has the stem of 3


@pytest.fixture
def thesaurus() -> Thesaurus:
    torch.manual_seed(2)
    made = Thesaurus(WORDS, count=5, size=3)
    made.rarity[:] = torch.tensor([0.0, 1.5, 2.0, 0.5, 3.0, 1.0, 0.0, 0.7, 1.1, 2.2, 0.9, 5.0, 0.0])
    made.roots[7] = 3
    made.phrases.data[:], made.bias.data[:] = torch.randn(5, 3), torch.randn(5)
    return made.requires_grad_(False)


@pytest.fixture
def finder(thesaurus: Thesaurus) -> Finder:
    return Finder(thesaurus.roots, PHRASES, SEPARATOR)


def places(document: list[int]) -> list[tuple[int, int]]:
    """Where phrases stand, every run of words compared with every phrase."""
    same = [3 if word == 7 else word for word in document]
    return [
        (place, number)
        for place in range(len(same))
        for number, phrase in enumerate(PHRASES)
        if same[place : place + len(phrase)] == phrase
    ]


def weights(signs: list[int], title: int, thesaurus: Thesaurus) -> dict[int, float]:
    counts: Counter[int] = Counter()
    for place, sign in enumerate(signs):
        counts[sign] += TITLE if place < title else 1  # type: ignore[assignment]
    found = {sign: (1 + math.log(count)) * float(thesaurus.rarity[sign]) for sign, count in counts.items()}
    length = math.hypot(*found.values()) or 1.0
    return {sign: weight / length for sign, weight in found.items()}


def obvious(thesaurus: Thesaurus, ids: list[int], title: int) -> list[float]:
    """Of a document, the logit of each phrase, one sign after the other."""
    found = places(ids)
    both = weights(ids, title, thesaurus) | weights(
        [WORDS + number for _, number in found], sum(place < title for place, _ in found), thesaurus
    )
    return [
        float(bias) + sum(weight * float(thesaurus.signs[sign] @ vector) for sign, weight in both.items())
        for vector, bias in zip(thesaurus.phrases, thesaurus.bias, strict=True)
    ]


def logits(thesaurus: Thesaurus, finder: Finder, documents: list[list[int]]) -> Tensor:
    return thesaurus.logits(thesaurus.vectors([finder(one, thesaurus) for one in map(torch.tensor, documents)]))


def test_logits_are_those_of_the_obvious_sum(thesaurus: Thesaurus, finder: Finder) -> None:
    documents = [[1, 2, 6, 2, 2, 3], [4, 4, 0, 5], [6, 3], [1, 5, 2, 6, 1, 6, 4], [1, 2, 7, 6, 2, 3, 1, 5, 5, 5]]
    expected = [obvious(thesaurus, one, title) for one, title in zip(documents, (2, 0, 0, 3, 3), strict=True)]
    assert logits(thesaurus, finder, documents).tolist() == [pytest.approx(one, abs=1e-5) for one in expected]
    assert obvious(thesaurus, documents[0], 2) != pytest.approx(obvious(thesaurus, documents[0], 0), abs=1e-3)


def test_phrases_are_found_where_a_comparison_of_all_finds_them(finder: Finder) -> None:
    torch.manual_seed(3)
    numbers = set()
    for length in range(60):
        document = torch.randint(1, WORDS, (length,))
        found = list(finder.phrases(document))
        assert sorted(found) == places(document.tolist())
        numbers |= {number for _, number in found}
    assert numbers == {0, 1, 2, 4}


def test_signs_of_a_kind_have_length_one_and_none_says_nothing(thesaurus: Thesaurus) -> None:
    words, own = thesaurus.weigh(torch.tensor([0, 4, 2, 6, 4, 0]), title=0)
    assert words.tolist() == [2, 4] and float(own.norm()) == pytest.approx(1.0)


def test_a_document_of_such_words_knows_only_how_common_phrases_are(thesaurus: Thesaurus, finder: Finder) -> None:
    found = logits(thesaurus, finder, [[0, 0], [1, 2], [6]])
    assert torch.equal(found[0], thesaurus.bias) and torch.equal(found[2], thesaurus.bias)
    assert not torch.allclose(found[1], thesaurus.bias)


def test_the_title_ends_at_the_first_separator() -> None:
    ids = torch.tensor([3, 4, SEPARATOR, 5, SEPARATOR])
    assert [title_length(ids, SEPARATOR), title_length(ids[3:4], SEPARATOR), title_length(ids, None)] == [2, 0, 0]


def test_it_is_made_of_tensors_as_they_are(thesaurus: Thesaurus, finder: Finder) -> None:
    before = torch.random.get_rng_state()
    again = Thesaurus.of(thesaurus.state_dict())
    assert torch.equal(torch.random.get_rng_state(), before)
    assert again.signs.data_ptr() == thesaurus.signs.data_ptr() and not again.signs.requires_grad
    assert torch.equal(logits(again, finder, [[1, 2]]), logits(thesaurus, finder, [[1, 2]]))
