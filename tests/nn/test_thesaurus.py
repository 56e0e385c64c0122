"""The thesaurus: documents are the bags that the obvious sums give, and logits are those of their words' vectors."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from onmt_exhird.nn.thesaurus import TITLE, Thesaurus, title_length

SEPARATOR = 6


@pytest.fixture
def thesaurus() -> Thesaurus:
    torch.manual_seed(2)
    made = Thesaurus(vocab_size=7, count=5, size=3)
    made.rarity[:] = torch.tensor([0.0, 1.5, 2.0, 0.5, 3.0, 1.0, 0.0])
    made.phrases.data[:], made.bias.data[:] = torch.randn(5, 3), torch.randn(5)
    return made.requires_grad_(False)


def obvious(thesaurus: Thesaurus, ids: list[int], title: int) -> list[float]:
    """Of a document, the logit of each phrase, one word after the other."""
    counts: Counter[int] = Counter()
    for place, word in enumerate(ids):
        counts[word] += TITLE if place < title else 1  # type: ignore[assignment]
    weights = {word: (1 + math.log(count)) * float(thesaurus.rarity[word]) for word, count in counts.items()}
    length = math.hypot(*weights.values()) or 1.0
    return [
        float(bias) + sum(weight / length * float(thesaurus.words[word] @ vector) for word, weight in weights.items())
        for vector, bias in zip(thesaurus.phrases, thesaurus.bias, strict=True)
    ]


def logits(thesaurus: Thesaurus, documents: list[list[int]]) -> Tensor:
    bags = [thesaurus.bag(one, title_length(one, SEPARATOR)) for one in map(torch.tensor, documents)]
    return thesaurus.logits(thesaurus.vectors(bags))


def test_logits_are_those_of_the_obvious_sum(thesaurus: Thesaurus) -> None:
    documents = [[1, 2, 6, 2, 2, 3], [4, 4, 0, 5], [6, 3], [1, 5, 2, 6, 1, 6, 4]]
    expected = [obvious(thesaurus, one, title) for one, title in zip(documents, (2, 0, 0, 3), strict=True)]
    assert logits(thesaurus, documents).tolist() == [pytest.approx(one, abs=1e-5) for one in expected]
    assert obvious(thesaurus, documents[0], 2) != pytest.approx(obvious(thesaurus, documents[0], 0), abs=1e-3)


def test_a_bag_has_length_one_and_no_word_that_says_nothing(thesaurus: Thesaurus) -> None:
    words, weights = thesaurus.bag(torch.tensor([0, 4, 2, 6, 4, 0]), title=0)
    assert words.tolist() == [2, 4] and float(weights.norm()) == pytest.approx(1.0)


def test_a_document_of_such_words_knows_only_how_common_phrases_are(thesaurus: Thesaurus) -> None:
    found = logits(thesaurus, [[0, 0], [1, 2], [6]])
    assert torch.equal(found[0], thesaurus.bias) and torch.equal(found[2], thesaurus.bias)
    assert not torch.allclose(found[1], thesaurus.bias)


def test_the_title_ends_at_the_first_separator() -> None:
    ids = torch.tensor([3, 4, SEPARATOR, 5, SEPARATOR])
    assert [title_length(ids, SEPARATOR), title_length(ids[3:4], SEPARATOR), title_length(ids, None)] == [2, 0, 0]


def test_it_is_made_of_tensors_as_they_are(thesaurus: Thesaurus) -> None:
    before = torch.random.get_rng_state()
    again = Thesaurus.of(thesaurus.state_dict())
    assert torch.equal(torch.random.get_rng_state(), before)
    assert again.words.data_ptr() == thesaurus.words.data_ptr() and not again.words.requires_grad
    assert torch.equal(logits(again, [[1, 2]]), logits(thesaurus, [[1, 2]]))
