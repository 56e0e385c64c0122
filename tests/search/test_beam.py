"""Beam search against the plain one, which keeps a list of hypotheses of one document."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.generator_models import IDS, TOKENS, make
from helpers.plain_search import PlainSearch, make_sources
from torch import Tensor

from onmt_exhird.search import SearchSettings, StreamConstraint
from onmt_exhird.search.beam import Beam, Hypothesis, ModelRows
from onmt_exhird.search.sources import Sources

DOCUMENTS = 5
LIMITS: dict[str, Any] = {"max_phrases": 3, "max_phrase_words": 2}
CONSTRAINTS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "limits": LIMITS,
    "stems": LIMITS | {"exclusive_window": None, "exclude_stems": True, "exclude_phrases": True, "min_phrases": 3},
}
PENALTIES: dict[str, Callable[[int], float]] = {
    "average": float,
    "none": lambda length: 1.0,
    "wu": lambda length: ((5 + length) / 6) ** 0.6,
}


def constraint_of(options: dict[str, Any] | None) -> StreamConstraint | None:
    return None if options is None else StreamConstraint(TOKENS, SearchSettings(**options))


def search_all(search: Beam, model: Any, sources: Sources) -> list[list[Hypothesis]]:
    classes = None if search.constraint is None else search.constraint.oov_classes(sources.words)
    return search(ModelRows(model, sources, search.size), classes)


def assert_equals_plain_search(search: Beam, model: Any, sources: Sources) -> None:
    plain = PlainSearch(model, search.constraint, search.max_length, search.banned)
    for document, found in enumerate(search_all(search, model, sources)):
        expected = plain.beam(sources, document, search.size, search.penalty, search.n_best)
        assert [one.tokens.tolist() for one in found] == [one.tokens for _, one in expected]
        assert [one.score for one in found] == pytest.approx([score for score, _ in expected], rel=1e-4)
        for ours, (_, theirs) in zip(found, expected, strict=True):
            assert ours.log_probs.tolist() == pytest.approx(theirs.log_probs, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize(("size", "n_best"), [(1, 1), (2, 1), (4, 3)])
def test_every_document_is_searched_as_if_alone(size: int, n_best: int, constraint: str, penalty: str) -> None:
    search = Beam(
        size, IDS.start, IDS.eos, 12, PENALTIES[penalty], n_best, constraint_of(CONSTRAINTS[constraint]), banned=None
    )
    # Of a model whose best hypotheses often end before others, and often do not.
    assert_equals_plain_search(search, make(seed=5).build(), make_sources(DOCUMENTS))


class Uniform:
    """A document of a model to which four of five tokens are equally probable, and the end is not."""

    documents = 1

    def step(self, inputs: Tensor, full: Tensor | None) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        scores = torch.tensor([0.0, 0.0, 0.0, -math.inf, 0.0])
        return lambda rows: (scores.repeat(len(rows), 1), torch.full((len(rows), 1), -math.log(4)))

    def select(self, rows: Tensor) -> None:
        pass


def test_outputs_may_be_equally_probable_and_one_is_returned_unless_more_are_wanted() -> None:
    (found,) = Beam(3, 2, 3, max_length=2, n_best=2)(Uniform(), None)
    assert [one.score for one in found] == pytest.approx([-2 * math.log(4) / 3] * 2)
    assert [len(found) for found in Beam(3, 2, 3, max_length=2)(Uniform(), None)] == [1]


def test_a_state_that_grows_goes_with_its_hypothesis() -> None:
    search = Beam(3, IDS.start, IDS.eos, 12, constraint=constraint_of(LIMITS))
    assert_equals_plain_search(search, make("catseqcorr").build(), make_sources(DOCUMENTS))


@pytest.mark.parametrize("constraint", ["none", "limits"])
def test_a_banned_token_is_not_written(constraint: str) -> None:
    model, sources = make().build(), make_sources(DOCUMENTS)
    model.generator.bias.data[IDS.unk] = 9.0
    for banned in (None, IDS.unk):
        search = Beam(3, IDS.start, IDS.eos, 9, constraint=constraint_of(CONSTRAINTS[constraint]), banned=banned)
        assert_equals_plain_search(search, model, sources)
        written = [one.tokens for found in search_all(search, model, sources) for one in found]
        assert any(IDS.unk in tokens for tokens in written) == (banned is None)


def test_what_has_no_end_is_cut_at_the_greatest_length() -> None:
    model = make().build()
    model.generator.bias.data[IDS.eos] = -99.0
    search = Beam(2, IDS.start, IDS.eos, 7, n_best=2)
    assert_equals_plain_search(search, model, make_sources(DOCUMENTS))
    assert {len(one.tokens) for found in search_all(search, model, make_sources(DOCUMENTS)) for one in found} == {7}
