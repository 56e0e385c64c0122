"""Rivals of the exclusive loss among words of several pieces: equal to loops, and to those of whole words."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from onmt_exhird.nn.losses import find_rivals
from onmt_exhird.nn.word_rivals import find_word_rivals

PAD, EOS, END, TAGS = 1, 3, 4, (5, 6)
WORDS = st.lists(st.tuples(st.integers(10, 12), st.lists(st.integers(20, 21), max_size=3)), min_size=1, max_size=2)
TARGETS = st.lists(st.tuples(st.sampled_from(TAGS), WORDS), max_size=5)


def flat(phrases: list[tuple[int, list[tuple[int, list[int]]]]]) -> list[int]:
    return [t for tag, words in phrases for t in (tag, *(p for first, rest in words for p in (first, *rest)), END)]


def slow_rivals(target: list[int], window: int) -> dict[int, list[int]]:
    """Place -> what is pushed down there, phrase by phrase."""
    firsts: list[tuple[int, list[int]]] = []
    for place, token in enumerate(target):
        if place and target[place - 1] in TAGS:
            word = [token]
            for piece in target[place + 1 :]:
                if piece < 20:
                    break
                word.append(piece)
            firsts.append((place, word))
    found: dict[int, list[int]] = {}
    for number, (place, word) in enumerate(firsts):
        for _, rival in reversed(firsts[max(0, number - window) : number]):
            last = len(rival) - 1
            if last < len(word) and word[:last] == rival[:last] and word[last] != rival[last]:
                found.setdefault(place + last, []).append(rival[last])
    return found


@given(st.lists(TARGETS, min_size=1, max_size=3), st.integers(1, 4))
def test_rivals_are_those_of_loops_whatever_is_beside_them(documents: list, window: int) -> None:
    rows = [[*flat(phrases), EOS] for phrases in documents]
    longest = max(map(len, rows))
    targets = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    ids, counts = find_word_rivals(targets, targets >= 20, TAGS, window, PAD)
    assert ids[~counts].eq(PAD).all()
    for number, row in enumerate(rows):
        found = {place: ids[number, place][counts[number, place]].tolist() for place in range(longest)}
        assert {place: words for place, words in found.items() if words} == slow_rivals(row, window)


@given(st.lists(TARGETS, min_size=1, max_size=3), st.integers(1, 4))
def test_of_whole_words_rivals_are_as_before(documents: list, window: int) -> None:
    rows = [[*flat(phrases), EOS] for phrases in documents]
    targets = torch.tensor([row + [PAD] * (max(map(len, rows)) - len(row)) for row in rows])
    words = find_rivals(targets, TAGS, window, PAD)
    pieces = find_word_rivals(targets, torch.zeros_like(targets, dtype=torch.bool), TAGS, window, PAD)
    assert pieces.counts.equal(words.counts)
    assert pieces.ids[pieces.counts].equal(words.ids[words.counts])


def test_a_shared_piece_is_not_pushed_down() -> None:
    unsupervised, unlabelled = [10, 20, 21], [10, 21]
    target = torch.tensor([[5, *unsupervised, END, 5, *unlabelled, END]])
    ids, counts = find_word_rivals(target, target >= 20, TAGS, 1, PAD)
    assert not counts.any()
    target = torch.tensor([[5, *unlabelled, END, 5, *unsupervised, END]])
    ids, counts = find_word_rivals(target, target >= 20, TAGS, 1, PAD)
    assert counts[0, :, 0].nonzero().flatten().tolist() == [6] and ids[0, 6, 0] == 21
