"""Documents that come while others are under way."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
from helpers.generator_models import TOKENS, make
from helpers.plain_search import PlainSearch, make_sources

from onmt_exhird.nn.model import KeyphraseModel
from onmt_exhird.search import SearchSettings, StreamConstraint, pool
from onmt_exhird.search.greedy import Greedy
from onmt_exhird.search.pool import Table
from onmt_exhird.search.sources import Sources, Written

DOCUMENTS = 17
STRICT = {"exclusive_window": None, "exclude_stems": True, "exclude_phrases": True, "min_phrases": 3}
CONSTRAINT = StreamConstraint(TOKENS, SearchSettings(max_phrases=4, max_phrase_words=2, **STRICT))


@pytest.fixture(autouse=True)
def small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "ROWS", 5)
    monkeypatch.setattr(pool, "TOKENS", 40)
    monkeypatch.setattr(pool, "DOCUMENTS", 2)


def groups(sizes: list[int]) -> list[Sources | None]:
    """Documents in groups of these sizes, each as wide as it needs; None where nothing has come."""
    sources = make_sources(sum(sizes))
    numbers = iter(range(sum(sizes)))
    parts = [torch.tensor([next(numbers) for _ in range(size)], dtype=torch.long) for size in sizes]
    return [sources.some(part) if len(part) else None for part in parts]


def flat(steps: Iterator[list[Written]]) -> list[Written]:
    return [one for step in steps for one in step]


@pytest.mark.parametrize("constraint", [None, CONSTRAINT], ids=["free", "constrained"])
@pytest.mark.parametrize("decoder", ["exhird", "catseq", "catseqd", "catseqcorr"])
@pytest.mark.parametrize("seed", range(4))
def test_whenever_a_document_comes_it_is_searched_as_if_alone(
    seed: int, decoder: str, constraint: StreamConstraint | None
) -> None:
    """Short ones beside long ones, those with few unknown words beside those with many, and steps without any."""
    rng = random.Random(seed)
    sizes = []
    while sum(sizes) < DOCUMENTS:
        sizes.append(min(rng.choice([0, 0, 1, 1, 2, 7]), DOCUMENTS - sum(sizes)))
    model, sources = make(decoder).build(), make_sources(DOCUMENTS)
    found = flat(Greedy(model, constraint, 15, scored=True).steps(groups(sizes)))
    assert sorted(one.document for one in found) == list(range(DOCUMENTS))
    plain = PlainSearch(model, constraint, 15)
    for one in found:
        expected = plain.greedy(sources, one.document)
        assert one.tokens.tolist() == expected.tokens
        torch.testing.assert_close(one.log_probs, torch.tensor(expected.log_probs), rtol=1e-4, atol=1e-4)


def watch(model: KeyphraseModel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many documents a model encodes each time."""
    encoded: list[int] = []
    encode = model.encode

    def note(ids: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        encoded.append(len(lengths))
        return encode(ids, lengths)

    monkeypatch.setattr(model, "encode", note)
    return encoded


def endless() -> KeyphraseModel:
    """A model that writes until it may not go on."""
    model = make().build()
    model.generator.bias.data[model.ids.eos] = -99.0
    return model


def test_one_who_comes_to_an_empty_pool_is_begun_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = endless()
    encoded = watch(model, monkeypatch)
    steps = Greedy(model, None, 9).steps([*groups([1]), None, None])
    next(steps)
    assert encoded == [1]


@pytest.mark.parametrize("patience", [2, 3])
def test_those_who_come_to_a_full_pool_are_encoded_together(patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With four rows under way two documents are waited for; when no more will come, nobody is waited for."""
    monkeypatch.setattr(pool, "PATIENCE", patience)
    monkeypatch.setattr(pool, "TOKENS", 400)
    model = endless()
    encoded = watch(model, monkeypatch)
    steps = Greedy(model, None, 12).steps([*groups([4, 0, 1, 0, 1, 0, 1]), None])
    found = [next(steps) for _ in range(4)]
    assert encoded == [4]
    found.append(next(steps))
    assert encoded == [4, 2]
    found += steps
    assert encoded == [4, 2, 1]
    assert sorted(one.document for step in found for one in step) == list(range(7))


def test_of_those_who_come_together_the_longest_are_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that documents that are encoded together are of nearly one length."""
    model = make().build()
    encode, lengths = model.encode, list[int]()

    def note(ids: torch.Tensor, own: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        lengths.extend(own.tolist())
        return encode(ids, own)

    monkeypatch.setattr(model, "encode", note)
    assert len(flat(Greedy(model, None, 9).steps(groups([9])))) == 9
    assert lengths == sorted(lengths, reverse=True)


def test_no_more_is_asked_for_than_will_soon_be_needed() -> None:
    given = 0

    def arrivals() -> Iterator[Sources | None]:
        nonlocal given
        for group in groups([1] * DOCUMENTS):
            given += 1
            yield group

    done = 0
    for finished in Greedy(endless(), None, 9).steps(arrivals()):
        done += len(finished)
        assert given <= done + 5 + 5  # in rows, and waiting for one
    assert given == done == DOCUMENTS


def test_steps_go_on_while_nothing_is_there() -> None:
    """So that one who waits for documents can do something else meanwhile."""
    assert list(Greedy(make().build(), None, 9).steps([None, None])) == [[], []]
    assert list(Greedy(make().build(), None, 9).steps([])) == []


def test_a_table_becomes_wider_for_a_longer_document() -> None:
    table = Table(torch.tensor([7, 8]))
    table.append(0, torch.ones(1, 2, dtype=torch.long))
    table.append(1, torch.zeros(3, 2, dtype=torch.long))
    table.append(2, torch.ones(2, 2, dtype=torch.long))
    assert table.room[:3].tolist() == [
        [[1, 1], [7, 8], [7, 8]],
        [[0, 0], [0, 0], [0, 0]],
        [[1, 1], [1, 1], [7, 8]],
    ]
    table.move(2, to=0)
    assert table.room[0].tolist() == table.room[2].tolist()
