"""Greedy search over a pool against the plain one, which knows one document at a time."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from helpers.generator_models import IDS, TOKENS, make
from helpers.plain_search import PlainSearch, make_sources

from onmt_exhird.nn import quantised
from onmt_exhird.nn.model import KeyphraseModel
from onmt_exhird.nn.quantised import ScreenedCopyGenerator
from onmt_exhird.search import SearchSettings, StreamConstraint, pool
from onmt_exhird.search.greedy import Greedy
from onmt_exhird.search.sources import Sources, Written

DOCUMENTS = 9
LIMITS: dict[str, Any] = {"max_phrases": 4, "max_phrase_words": 2}
CONSTRAINTS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "limits": LIMITS,
    "exclusion": LIMITS | {"exclusive_window": 2, "min_phrases": 3},
    "stems": LIMITS | {"exclusive_window": None, "exclude_stems": True, "exclude_phrases": True, "min_phrases": 4},
    "length": {"max_length": 9},
}


@pytest.fixture(autouse=True)
def small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a handful of documents takes turns."""
    monkeypatch.setattr(pool, "ROWS", 3)
    monkeypatch.setattr(pool, "TOKENS", 40)
    monkeypatch.setattr(pool, "DOCUMENTS", 2)


def constraint_of(options: dict[str, Any] | None) -> StreamConstraint | None:
    return None if options is None else StreamConstraint(TOKENS, SearchSettings(**options))


def by_document(found: list[Written]) -> list[Written]:
    assert len({one.document for one in found}) == len(found)
    return sorted(found, key=lambda one: one.document)


def assert_equals_plain_search(search: Greedy, sources: Sources, words_only: bool = False) -> None:
    """words_only: log P are wanted of words only, and NaN elsewhere."""
    plain = PlainSearch(search.model, search.constraint, search.max_length, IDS.unk if search.ban_unk else None)
    found = by_document(list(search(sources)))
    assert [one.document for one in found] == list(range(len(sources.lengths)))
    for one in found:
        expected = plain.greedy(sources, one.document)
        assert one.tokens.tolist() == expected.tokens
        log_probs = torch.tensor(expected.log_probs)
        if words_only:
            skipped = one.log_probs.isnan()
            assert [TOKENS[token] for token in set(one.tokens[skipped].tolist())]
            assert all(token in (IDS.eos, 4, 5, IDS.end) for token in one.tokens[skipped].tolist())
            log_probs[skipped] = math.nan
        torch.testing.assert_close(one.log_probs, log_probs, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("scored", [True, False])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("decoder", ["exhird", "catseqcorr"])
def test_every_document_is_searched_as_if_alone(decoder: str, constraint: str, scored: bool) -> None:
    options = CONSTRAINTS[constraint]
    search = Greedy(make(decoder).build(), constraint_of(options), max_length=15, scored=scored)
    assert_equals_plain_search(search, make_sources(DOCUMENTS), words_only=not scored and options is not None)


@pytest.mark.parametrize("documents", [1, 2, 17])
def test_documents_that_go_on_keep_their_width_beside_shorter_ones(documents: int) -> None:
    """Of a model whose outputs are of very different lengths, so that a part comes while a long document goes on."""
    sources = make_sources(documents)
    search = Greedy(make(seed=5).build(), None, max_length=15)
    assert_equals_plain_search(search, sources)
    assert documents < 17 or len({len(one.tokens) for one in search(sources)}) > 5


def wild_model() -> KeyphraseModel:
    """One that writes the unknown word whenever it may."""
    model = make().build()
    model.generator.bias.data[IDS.unk] = 9.0
    return model


@pytest.mark.parametrize("constraint", ["none", "limits"])
def test_the_unknown_word_is_written_unless_it_is_banned(constraint: str) -> None:
    for banned in (False, True):
        told = {"ban_unk": True} if banned else {}
        search = Greedy(wild_model(), constraint_of(CONSTRAINTS[constraint]), 15, **told)
        assert_equals_plain_search(search, make_sources(5), words_only=constraint != "none")
        assert any(IDS.unk in one.tokens for one in search(make_sources(5))) != banned


def test_a_structure_token_in_a_source_is_copied_like_a_word() -> None:
    sources = make_sources(5)
    for row in range(5):
        sources.extended[row, 0] = sources.ids[row, 0] = [IDS.eos, 5, IDS.end, 4, 5][row]
    search = Greedy(make().build(), constraint_of(LIMITS), 15)
    assert_equals_plain_search(search, sources)


@pytest.mark.parametrize("odd", range(3))
def test_one_source_with_structure_tokens_among_others_is_enough(odd: int) -> None:
    sources, model = make_sources(3), make().build()
    model.generator.gate_bias.data += 9.0  # it copies
    for token in range(int(sources.lengths[odd])):
        sources.extended[odd, token] = sources.ids[odd, token] = [4, 5, IDS.end][token % 3]
    search, plain = (kind(model, constraint_of(LIMITS), 15) for kind in (Greedy, PlainSearch))
    for one in search(sources):
        assert one.tokens.tolist() == plain.greedy(sources, one.document).tokens


def test_a_source_with_structure_tokens_costs_those_after_it_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "ROWS", 1)
    sources = make_sources(3)
    odd = int(sources.lengths.argmax())  # which comes first
    sources.extended[odd, 0] = sources.ids[odd, 0] = IDS.end
    for one in Greedy(make().build(), constraint_of(LIMITS), 15)(sources):
        assert one.log_probs.isnan().any() == (one.document != odd)


@pytest.mark.skipif(not quantised.is_available(), reason="no products in eight bits here")
@pytest.mark.parametrize("constraint", ["limits", "exclusion", "stems"])
def test_looking_in_eight_bits_first_finds_the_same_tokens(constraint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, sources = make().build(), make_sources(DOCUMENTS)
    plain = PlainSearch(model, constraint_of(CONSTRAINTS[constraint]), 15)
    expected = [plain.greedy(sources, document).tokens for document in range(DOCUMENTS)]
    screened = make().build()
    screened.generator = ScreenedCopyGenerator(screened.generator)
    choose, sure = screened.generator.choose, [0, 0]

    def choose_unsurely(*arguments: Any) -> tuple[torch.Tensor, ...]:
        """Every second row is not certain, nor one alone, as happens where two words are nearly equal."""
        ids, log_probs, certain = choose(*arguments)
        certain = certain & (torch.arange(len(certain)) % 2 == 0) & (len(certain) > 1)
        sure[0] += int(certain.sum())
        sure[1] += len(certain)
        return ids.where(certain, IDS.pad), log_probs, certain

    monkeypatch.setattr(screened.generator, "choose", choose_unsurely)
    found = by_document(list(Greedy(screened, constraint_of(CONSTRAINTS[constraint]), 15)(sources)))
    assert [one.tokens.tolist() for one in found] == expected
    assert 0 < sure[0] < sure[1]


def test_what_has_no_end_is_cut_at_the_greatest_length() -> None:
    model = make().build()
    model.generator.bias.data[IDS.eos] = -99.0
    assert {len(one.tokens) for one in Greedy(model, None, max_length=7)(make_sources(5))} == {7}


def test_no_documents_give_no_outputs() -> None:
    nothing = torch.empty(0, 0, dtype=torch.long)
    assert list(Greedy(make().build(), None, 9)(Sources(nothing, nothing[:, 0:0].flatten(), nothing, []))) == []


def test_outputs_come_as_they_are_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no document is encoded before there is a row for it, but for those of its part."""
    model, encoded = make().build(), 0
    encode = model.encode

    def count(ids: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        nonlocal encoded
        encoded += len(lengths)
        assert len(lengths) <= 2 or lengths.sum() <= 40
        assert ids.size(1) == lengths.max()
        return encode(ids, lengths)

    monkeypatch.setattr(model, "encode", count)
    for number, _ in enumerate(Greedy(model, constraint_of(LIMITS), 15)(make_sources(DOCUMENTS)), start=1):
        assert encoded <= number + 3 + 4
        if number == 1:
            assert encoded < DOCUMENTS
