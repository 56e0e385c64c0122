"""Phrases read off tokens, against reading them one token after the other."""

from __future__ import annotations

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onmt_exhird.search.phrases import StreamIds, first_words, phrase_table
from onmt_exhird.search.stems import NO_WORD

IDS = StreamIds(pad=1, start=2, eos=3, present=4, absent=5, end=6)
TAGS = st.sampled_from([IDS.present, IDS.absent])
PHRASE = st.tuples(TAGS, st.lists(st.integers(7, 11), min_size=1, max_size=4)).map(lambda p: [p[0], *p[1], IDS.end])
quick = settings(max_examples=100)


def flat(phrases: list[list[int]]) -> list[int]:
    return [token for phrase in phrases for token in phrase]


@quick
@given(st.lists(PHRASE, max_size=5), TAGS, st.none() | st.integers(0, 6))
def test_first_words_are_those_of_the_phrases_in_the_window(
    phrases: list[list[int]], tag: int, window: int | None
) -> None:
    ids = [IDS.start, *flat(phrases), tag]
    wanted = phrases if window is None else phrases[max(0, len(phrases) - window) :]
    expected = [NO_WORD] * (len(ids) - 1)
    for number in range(len(phrases) - len(wanted), len(phrases)):
        expected[1 + len(flat(phrases[:number]))] = phrases[number][1]
    # Beside it a row of the same length that ends otherwise: nothing is excluded there.
    rows = torch.tensor([ids, [*ids[:-1], IDS.eos]])
    assert first_words(rows, IDS, window, filler=NO_WORD).tolist() == [expected, [NO_WORD] * len(expected)]


def slow_table(ids: list[int], size: int, max_words: int) -> tuple[list[list[int]], int]:
    table = [[NO_WORD] * max_words for _ in range(size)]
    phrase, word = -1, 0
    for token in ids:
        if token in (IDS.present, IDS.absent):
            phrase, word = phrase + 1, 0
            continue
        if 0 <= phrase < size and word < max_words and token != IDS.end:
            table[phrase][word] = token
        word += 1
    return table, min(max(phrase, 0), size - 1)


@quick
@given(st.lists(st.lists(st.integers(3, 11), min_size=9, max_size=9), min_size=1, max_size=4), st.integers(1, 4))
@example([[4, 4, 4, 4, 4, 7, 8, 9, 9]], 3)  # more phrases than there can be in so few tokens
def test_the_table_holds_what_fits_of_any_tokens(rows: list[list[int]], max_words: int) -> None:
    """Also of what is no stream: a beam may keep such hypotheses to fill its places."""
    sequence = torch.tensor([[IDS.start, *row] for row in rows])
    table, last = phrase_table(sequence, IDS, max_words)
    expected = [slow_table(ids, 10 // 3 + 1, max_words) for ids in sequence.tolist()]
    assert (table.tolist(), last.tolist()) == ([one for one, _ in expected], [one for _, one in expected])


@quick
@given(st.lists(PHRASE, max_size=5), TAGS)
def test_the_table_has_a_place_for_every_phrase_of_a_stream(phrases: list[list[int]], tag: int) -> None:
    table, last = phrase_table(torch.tensor([[IDS.start, *flat(phrases), tag]]), IDS, 4)
    words = [[word for word in phrase if word != NO_WORD] for phrase in table[0, : len(phrases)].tolist()]
    assert words == [phrase[1:-1] for phrase in phrases]
    assert last.tolist() == [len(phrases)]
    assert table[0, len(phrases) :].eq(NO_WORD).all()
