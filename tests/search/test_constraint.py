"""The constraint against a slow reading of the rules with Python sets, and through small searches on random models."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.plain_search import phrases_so_far
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from onmt_exhird import stream
from onmt_exhird.errors import ExhirdError
from onmt_exhird.search import SearchSettings, StreamConstraint
from onmt_exhird.text import stem, stem_words

SPECIALS = ["<unk>", "<blank>", "<s>", "</s>", "<p_start>", "<a_start>", ";"]
WORDS = ["graph", "graphs", "tree", "trees", "heap", "sorted", "sorting", "<digit>", "a/b"]
VOCABULARY = SPECIALS + WORDS
OOV = [["heaps", "zeta", "zetas"], ["omega"], []]
WIDTH = len(VOCABULARY) + 3  # as wide as the document with most out-of-vocabulary words needs
NOT_WORDS = {"<blank>", "<s>", "</s>", "<p_start>", "<a_start>", ";"}


def tokens_of(ids: list[int], document: int) -> list[str]:
    return [(VOCABULARY + OOV[document])[index] for index in ids]


def slow_permitted(written: list[str], document: int, limits: SearchSettings) -> set[str]:
    """The tokens that may follow, read from the rules one by one."""
    if written and written[-1] == "</s>":
        return {"</s>"}
    closed, opened = phrases_so_far(written)
    room = math.inf if limits.max_length is None else limits.max_length - len(written)
    words = {word for word in VOCABULARY + OOV[document] if word not in NOT_WORDS}
    if limits.exclude_phrases:
        words = {word for word in words if "/" not in word}
    if opened is None:
        stems = limits.exclude_stems or limits.exclude_phrases
        known = {stem(word) if stems else word for word in words if word in VOCABULARY}
        window = len(closed) if limits.exclusive_window is None else min(limits.exclusive_window, len(closed))
        used = len(closed) if limits.exclude_phrases else window
        may_open = len(closed) < limits.max_phrases and room >= 3 and used < len(known)
        permitted = set(stream.TAGS) if may_open else {"</s>"}
        return permitted | {"</s>"} if len(closed) >= limits.min_phrases else permitted
    if len(opened) == limits.max_phrase_words or (room == 1 and opened):
        return {";"}
    earlier = {stem_words(phrase) for phrase in closed}
    permitted = set(words)
    if not opened:
        window = closed if limits.exclusive_window is None else closed[len(closed) - limits.exclusive_window :]
        window = closed if limits.exclusive_window is not None and limits.exclusive_window > len(closed) else window
        firsts = {phrase[0] for phrase in window}
        permitted -= firsts
        if limits.exclude_stems:
            permitted -= {word for word in words if stem(word) in {stem(first) for first in firsts}}
    elif not (limits.exclude_phrases and stem_words(opened) in earlier):
        permitted.add(";")
    if limits.exclude_phrases and (len(opened) + 1 == limits.max_phrase_words or room == 2):
        permitted -= {word for word in words if stem_words([*opened, word]) in earlier}
    return permitted


@st.composite
def limits(draw: st.DrawFn) -> SearchSettings:
    window = draw(st.sampled_from([0, 1, 2, 4, None]))
    fewest = draw(st.integers(0, 3))
    return SearchSettings(
        exclusive_window=window,
        min_phrases=fewest,
        max_phrases=max(1, fewest) + draw(st.integers(0, 9)),
        max_phrase_words=draw(st.integers(1, 4)),
        max_length=draw(st.none() | st.integers(1, 25)),
        exclude_stems=window != 0 and draw(st.booleans()),
        exclude_phrases=draw(st.booleans()),
    )


Model = Callable[[Tensor], Tensor]


def random_model(seed: int, kind: str) -> Model:
    """Log-probabilities (rows, WIDTH) that depend on the tokens so far and the seed only."""

    def model(sequence: Tensor) -> Tensor:
        rows = []
        for ids in sequence.tolist():
            generator = torch.Generator().manual_seed(hash((seed, *ids)) % 2**31)
            scores = torch.randn(WIDTH, generator=generator)
            if kind == "peaked":
                scores = scores * 300
            elif kind == "sparse":
                scores[torch.rand(WIDTH, generator=generator) < 0.9] = -math.inf
            elif kind == "structure":
                scores[7:] = -math.inf
            elif kind == "nothing":
                scores[:] = -math.inf
            rows.append(scores.log_softmax(0) if scores.max() > -math.inf else scores)
        return torch.stack(rows)

    return model


KINDS = st.sampled_from(["plain", "peaked", "sparse", "structure", "nothing"])


def constrained(constraint: StreamConstraint, model: Model, sequence: Tensor, documents: Tensor) -> Tensor:
    """The model's log-probabilities for the rows' documents, under the constraint."""
    log_probs = model(sequence)
    for row, document in enumerate(documents.tolist()):
        log_probs[row, len(VOCABULARY) + len(OOV[document]) :] = -math.inf
    classes = constraint.oov_classes(OOV)
    constraint.apply(log_probs, sequence, None if classes is None else classes[documents])
    return log_probs


def run(constraint: StreamConstraint, model: Model, sampled: bool) -> list[str]:
    """Greedy search or sampling, all documents in one batch; finished rows stay."""
    documents = torch.arange(len(OOV))
    sequence = torch.full((len(OOV), 1), 2)
    for _ in range(200):
        log_probs = constrained(constraint, model, sequence, documents)
        assert not log_probs.isnan().any()
        assert log_probs.amax(1).isfinite().all()
        chosen = torch.distributions.Categorical(logits=log_probs).sample() if sampled else log_probs.argmax(1)
        sequence = torch.cat([sequence, chosen.unsqueeze(1)], dim=1)
        if sequence[:, -1].eq(3).all():
            break
    return [" ".join(tokens_of(ids[1:], row)) for row, ids in enumerate(sequence.tolist())]


def run_beam(constraint: StreamConstraint, model: Model, document: int, size: int) -> list[str]:
    """Beam search that keeps what is finished; every hypothesis it returns has a finite score."""
    alive, scores, finished = torch.tensor([[2]]), torch.zeros(1), []
    while len(alive):
        log_probs = constrained(constraint, model, alive, torch.full((len(alive),), document))
        best, flat = (log_probs + scores.unsqueeze(1)).flatten().topk(min(size, log_probs.numel()))
        flat, scores = flat[best.isfinite()], best[best.isfinite()]
        alive = torch.cat([alive[flat // WIDTH], (flat % WIDTH).unsqueeze(1)], dim=1)
        done = alive[:, -1].eq(3)
        finished += alive[done].tolist()
        alive, scores = alive[~done], scores[~done]
        if len(finished) >= size:
            break
    return [" ".join(tokens_of(ids[1:], document)) for ids in finished]


def assert_obeys(line: str, limits: SearchSettings) -> None:
    """The invariants of a finished output line, ``</s>`` at its end."""
    tokens = line.split()
    tokens = tokens[: tokens.index("</s>")] if "</s>" in tokens else tokens
    phrases = stream.parse(" ".join(tokens))
    assert not {"<s>", "<blank>"} & set(tokens)
    assert len(phrases) <= limits.max_phrases
    assert all(len(phrase.words) <= limits.max_phrase_words for phrase in phrases)
    if limits.max_length is None and not limits.exclude_phrases and limits.exclusive_window in (0, 1, 2, 4):
        assert len(phrases) >= limits.min_phrases
    if limits.max_length is not None:
        assert len(tokens) <= limits.max_length
    key: Callable[[str], str] = stem if limits.exclude_stems else str
    firsts = [key(phrase.words[0]) for phrase in phrases]
    window = len(firsts) if limits.exclusive_window is None else limits.exclusive_window
    for index, first in enumerate(firsts):
        assert first not in firsts[max(0, index - window) : index]
    if limits.exclude_phrases:
        unique = {stem_words(phrase.words) for phrase in phrases}
        assert len(unique) == len(phrases)


@given(limits=limits(), seed=st.integers(0, 10**6), length=st.integers(0, 40))
@settings(max_examples=150)
def test_what_is_permitted_is_what_the_slow_rules_permit(limits: SearchSettings, seed: int, length: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    written: list[list[str]] = [[] for _ in OOV]
    longest = length if limits.max_length is None else min(length, limits.max_length - 1)
    for _ in range(longest):
        for document, tokens in enumerate(written):
            choices = sorted(slow_permitted(tokens, document, limits) - {"</s>"}) or ["</s>"]
            tokens.append(choices[int(torch.randint(len(choices), (1,), generator=generator))])
    ids = [[2, *((VOCABULARY + OOV[row]).index(token) for token in tokens)] for row, tokens in enumerate(written)]
    before = torch.randn(len(OOV), WIDTH, generator=generator).log_softmax(1)
    after = before.clone()
    constraint = StreamConstraint(VOCABULARY, limits)
    constraint.apply(after, torch.tensor(ids), constraint.oov_classes(OOV))
    for row, tokens in enumerate(written):
        known = VOCABULARY + OOV[row]
        columns = [index for index in range(len(known)) if after[row, index].isfinite()]
        assert {known[index] for index in columns} == slow_permitted(tokens, row, limits)
        assert after[row, columns].equal(before[row, columns])


@given(limits=limits(), seed=st.integers(0, 10**6), kind=KINDS, sampled=st.booleans())
@settings(max_examples=80)
def test_greedy_search_and_sampling_write_streams(limits: SearchSettings, seed: int, kind: str, sampled: bool) -> None:
    torch.manual_seed(seed)
    for line in run(StreamConstraint(VOCABULARY, limits), random_model(seed, kind), sampled):
        assert_obeys(line, limits)


@given(limits=limits(), seed=st.integers(0, 10**6), kind=KINDS, document=st.integers(0, 2))
@settings(max_examples=40)
def test_every_hypothesis_of_a_beam_is_a_stream(limits: SearchSettings, seed: int, kind: str, document: int) -> None:
    lines = run_beam(StreamConstraint(VOCABULARY, limits), random_model(seed, kind), document, size=3)
    assert lines or limits.max_length is not None
    for line in lines:
        assert_obeys(line, limits)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20)
def test_a_hypothesis_does_not_depend_on_the_rows_beside_it(seed: int) -> None:
    model = random_model(seed, "plain")
    constraint = StreamConstraint(VOCABULARY, SearchSettings(exclusive_window=2, exclude_phrases=True))
    sequence = torch.tensor([[2, 4, 7, 6, 5], [2, 5, 11, 12, 6], [2, 4, 9, 16, 13]])
    together = constrained(constraint, model, sequence, torch.arange(3))
    for row in range(3):
        alone = constrained(constraint, model, sequence[row : row + 1], torch.tensor([row]))
        assert alone.equal(together[row : row + 1])


def next_tokens(line: str, **options: Any) -> set[str]:
    """What may follow a line, in a document without out-of-vocabulary words."""
    ids = [[2, *(VOCABULARY.index(token) for token in line.split())]]
    log_probs = torch.zeros(1, len(VOCABULARY))
    StreamConstraint(VOCABULARY, SearchSettings(**options)).apply(log_probs, torch.tensor(ids))
    return {token for token, value in zip(VOCABULARY, log_probs[0], strict=True) if value == 0}


THREE = "<p_start> graph ; <p_start> tree heap ; <a_start> sorted ; <a_start>"


@pytest.mark.parametrize(
    ("window", "excluded"),
    [(0, set()), (1, {"sorted"}), (2, {"sorted", "tree"}), (None, {"sorted", "tree", "graph"})],
)
def test_first_words_of_the_last_phrases_are_excluded(window: int | None, excluded: set[str]) -> None:
    assert next_tokens(THREE, exclusive_window=window) == {"<unk>", *WORDS} - excluded


def test_exclusion_leaves_later_words_alone() -> None:
    assert next_tokens(THREE + " heap", exclusive_window=None) == {"<unk>", ";", *WORDS}


def test_unk_is_excluded_like_any_word() -> None:
    assert "<unk>" not in next_tokens("<p_start> <unk> ; <p_start>", exclusive_window=1)


def test_copied_words_outside_the_vocabulary_are_excluded_by_their_own_id() -> None:
    log_probs = torch.zeros(1, WIDTH)
    copied = len(VOCABULARY) + 1
    StreamConstraint(VOCABULARY, SearchSettings(exclusive_window=1)).apply(
        log_probs, torch.tensor([[2, 4, copied, 6, 4]])
    )
    assert [index for index in range(len(SPECIALS), WIDTH) if log_probs[0, index] != 0] == [copied]


def test_stems_widen_exclusion_from_inside_the_vocabulary_to_outside_and_back() -> None:
    constraint = StreamConstraint(VOCABULARY, SearchSettings(exclusive_window=1, exclude_stems=True))
    heap, heaps, zeta, zetas = VOCABULARY.index("heap"), *range(len(VOCABULARY), WIDTH)
    for first, excluded in [(heap, {heap, heaps}), (heaps, {heap, heaps}), (zeta, {zeta, zetas})]:
        log_probs = torch.zeros(1, WIDTH)
        constraint.apply(log_probs, torch.tensor([[2, 4, first, 6, 4]]), constraint.oov_classes(OOV[:1]))
        assert {index for index in range(len(SPECIALS), WIDTH) if log_probs[0, index] != 0} == excluded


def test_a_phrase_that_repeats_an_earlier_one_goes_on() -> None:
    after = next_tokens("<p_start> graph ; <a_start> graphs", exclude_phrases=True)
    assert ";" not in after
    assert "tree" in after


def test_the_last_word_may_not_complete_a_repetition() -> None:
    after = next_tokens("<p_start> heap trees ; <a_start> heap", exclude_phrases=True, max_phrase_words=2)
    assert after == {"<unk>", ";", *WORDS} - {"tree", "trees", "a/b"}


def test_the_last_word_that_the_length_allows_may_not_complete_a_repetition() -> None:
    after = next_tokens("<p_start> heap trees ; <a_start> heap", exclude_phrases=True, max_length=8)
    assert after == {"<unk>", ";", *WORDS} - {"tree", "trees", "a/b"}


@pytest.mark.parametrize("limit", [{}, {"max_phrase_words": 3}, {"max_length": 9}])
def test_a_word_may_complete_a_repetition_where_another_can_follow(limit: dict[str, Any]) -> None:
    after = next_tokens("<p_start> heap trees ; <a_start> heap", exclude_phrases=True, **limit)
    assert after == {"<unk>", ";", *WORDS} - {"a/b"}


def test_a_full_phrase_is_closed_even_if_it_repeats_an_earlier_one() -> None:
    """No search gets there, but a target that is given may; the row beside it is one that excludes."""
    constraint = StreamConstraint(VOCABULARY, SearchSettings(exclude_phrases=True, max_phrase_words=2))
    log_probs = torch.zeros(2, len(VOCABULARY))
    constraint.apply(log_probs, torch.tensor([[2, 4, 7, 9, 6, 5, 7, 9], [2, 4, 9, 6, 5, 7, 6, 4]]))
    assert log_probs[0].isfinite().nonzero().flatten().tolist() == [6]


def test_words_that_the_evaluation_splits_are_not_copied_where_no_phrase_may_repeat() -> None:
    constraint = StreamConstraint(VOCABULARY, SearchSettings(exclude_phrases=True))
    log_probs = torch.zeros(1, len(VOCABULARY) + 2)
    constraint.apply(log_probs, torch.tensor([[2, 4, 7]]), constraint.oov_classes([["x/y", "omega"]]))
    assert log_probs[0, len(VOCABULARY) :].tolist() == [-math.inf, 0]


@pytest.mark.parametrize(("window", "following"), [(1, [4, 5]), (2, [3]), (3, [3]), (None, [3])])
def test_a_vocabulary_that_runs_out_of_words_ends_the_stream(window: int | None, following: list[int]) -> None:
    few = [*SPECIALS, "graph"]  # two words: there is <unk>, too
    log_probs = torch.zeros(1, len(few))
    two = torch.tensor([[2, 4, 7, 6, 4, 0, 6]])
    StreamConstraint(few, SearchSettings(exclusive_window=window, min_phrases=5)).apply(log_probs, two)
    assert log_probs.isfinite().nonzero()[:, 1].tolist() == following


def test_the_best_permitted_token_never_sinks_to_where_samplers_put_what_they_drop() -> None:
    log_probs = torch.full((3, WIDTH), -20000.0)
    sequence = torch.tensor([[2, 4, 7, 6], [2, 4, 7, 8], [2, 4, 7, 3]])
    StreamConstraint(VOCABULARY, SearchSettings(max_phrase_words=2)).apply(log_probs, sequence)
    assert log_probs.amax(1).tolist() == [-500] * 3


def test_a_phrase_ends_where_no_word_has_a_probability() -> None:
    log_probs = torch.full((1, WIDTH), -math.inf)
    StreamConstraint(VOCABULARY, SearchSettings()).apply(log_probs, torch.tensor([[2, 4, 7]]))
    assert log_probs.argmax().item() == 6


def test_a_first_word_without_probabilities_is_of_the_vocabulary_and_not_excluded() -> None:
    log_probs = torch.full((1, WIDTH), -math.inf)
    StreamConstraint(VOCABULARY, SearchSettings(exclusive_window=1)).apply(log_probs, torch.tensor([[2, 4, 0, 6, 4]]))
    assert log_probs.isfinite().nonzero()[:, 1].tolist() == list(range(len(SPECIALS), len(VOCABULARY)))


def test_the_best_of_very_unlikely_words_stays_the_best() -> None:
    log_probs = torch.full((1, WIDTH), -900.0)
    log_probs[0, 9] = -700.0
    StreamConstraint(VOCABULARY, SearchSettings()).apply(log_probs, torch.tensor([[2, 4]]))
    assert log_probs.argmax().item() == 9


def test_forced_end_marks_full_phrases_only() -> None:
    constraint = StreamConstraint(VOCABULARY, SearchSettings(max_phrase_words=2))
    sequence = torch.tensor([[2, 4, 7, 8], [2, 4, 7, 6], [2, 4, 7, 3]])
    assert constraint.forced_end(sequence).tolist() == [True, False, False]


def test_a_start_token_that_is_also_the_last_one_begins_a_stream() -> None:
    log_probs = torch.zeros(1, len(VOCABULARY))
    StreamConstraint(VOCABULARY, SearchSettings()).apply(log_probs, torch.tensor([[3]]))
    assert log_probs.isfinite().nonzero()[:, 1].tolist() == [4, 5]


def test_a_vocabulary_without_structure_tokens_is_an_error() -> None:
    with pytest.raises(ExhirdError, match="<p_start>, <a_start>"):
        StreamConstraint(["<unk>", "<blank>", "<s>", "</s>", ";", "graph"], SearchSettings())


@pytest.mark.parametrize(
    "line", ["", "<p_start> graph ;", "<p_start> graph tree", "<p_start> graph ; <a_start> heap ;"]
)
def test_structure_is_chosen_as_from_the_whole_vocabulary(line: str) -> None:
    """Where no word may come: at the beginning, between phrases, after a full one, after the last."""
    constraint = StreamConstraint(VOCABULARY, SearchSettings(max_phrases=2, max_phrase_words=2))
    sequence = torch.tensor([[2, *(VOCABULARY.index(token) for token in line.split())]]).repeat(24, 1)
    log_probs = torch.randn(24, len(VOCABULARY), generator=torch.Generator().manual_seed(3))
    of_structure = log_probs[:, constraint.structure]
    constraint.apply(log_probs, sequence)
    chosen = constraint.choose_structure(constraint.state(sequence), of_structure)
    assert chosen.tolist() == log_probs.argmax(1).tolist()
