"""The constraint on pieces of words against a slow reading of the rules, on random vocabularies of pieces."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from helpers.plain_search import phrases_so_far
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from onmt_exhird import stream
from onmt_exhird.errors import ExhirdError
from onmt_exhird.languages import begins_unspaced
from onmt_exhird.search import SearchSettings, StreamConstraint
from onmt_exhird.search.piece_constraint import WORD_PIECES, PieceConstraint, build_constraint
from onmt_exhird.search.pieces import fingerprint
from onmt_exhird.subwords import MARK, MARKERS, Subwords, join
from onmt_exhird.text import TextRules, stem_words
from onmt_exhird.textmodel import TextModel

SPECIALS = ["<unk>", "<blank>", "<s>", "</s>", "<p_start>", "<a_start>", ";"]
NEVER = {"<blank>", "<s>", "</s>", "<p_start>", "<a_start>", ";"}
RULES = [TextRules(), TextRules("de", case="keep", accents="keep"), TextRules("zh")]


def begins(token: str, rules: TextRules) -> bool:
    return token in MARKERS or token.startswith(MARK) or (rules.unspaced and begins_unspaced(token))


def is_whole(token: str, rules: TextRules) -> bool:
    return token in MARKERS or (rules.unspaced and begins_unspaced(token.removeprefix(MARK)))


def words_of(pieces: Sequence[str], rules: TextRules) -> list[str]:
    """The words that exclusion and limits speak of."""
    words: list[str] = []
    for piece in pieces:
        if begins(piece, rules):
            words.append(piece.removeprefix(MARK))
        else:
            words[-1] += piece
    return words


def slow_permitted(written: Sequence[str], known: Sequence[str], limits: SearchSettings, rules: TextRules) -> set[str]:
    """The tokens that may follow, read from the rules one by one."""
    if written and written[-1] == "</s>":
        return {"</s>"}
    closed, opened = phrases_so_far(written)
    room = math.inf if limits.max_length is None else limits.max_length - len(written)
    if opened is None:
        may_open = len(closed) < limits.max_phrases and room >= 3
        permitted = set(stream.TAGS) if may_open else {"</s>"}
        return permitted | {"</s>"} if len(closed) >= limits.min_phrases else permitted
    if opened and room == 1:
        return {";"}
    usable = {token for token in known if token not in NEVER and not (limits.exclude_phrases and "/" in token)}
    beginning = {token for token in usable if begins(token, rules)}
    going_on = usable - beginning
    words = words_of(opened, rules)
    window = len(closed) if limits.exclusive_window is None else limits.exclusive_window
    firsts = [words_of(phrase, rules)[0] for phrase in closed[max(0, len(closed) - window) :]] if window else []
    key = (lambda word: stem_words([word], rules)) if limits.exclude_stems else str
    excluded = {key(word) for word in firsts}
    if not opened:
        return {t for t in beginning if not (is_whole(t, rules) and key(t.removeprefix(MARK)) in excluded)}
    is_last = is_whole(opened[-1], rules)
    may_begin, may_end = len(words) < limits.max_phrase_words, True
    if limits.exclude_phrases and stem_words(words, rules) in {stem_words(words_of(p, rules), rules) for p in closed}:
        may_end = False
        may_begin = may_begin or is_last
    if len(words) == 1 and key(words[0]) in excluded and not is_last:
        may_begin = may_end = False
    pieces = next(n for n in range(1, len(opened) + 1) if begins(opened[-n], rules))
    may_go_on = not is_last and (pieces < WORD_PIECES or not (may_begin or may_end))
    return (beginning if may_begin else set()) | (going_on if may_go_on else set()) | ({";"} if may_end else set())


@st.composite
def limits(draw: st.DrawFn) -> SearchSettings:
    window = draw(st.sampled_from([0, 1, 2, None]))
    fewest = draw(st.integers(0, 2))
    return SearchSettings(
        exclusive_window=window,
        min_phrases=fewest,
        max_phrases=max(1, fewest) + draw(st.integers(0, 9)),
        max_phrase_words=draw(st.integers(1, 3)),
        max_length=draw(st.none() | st.integers(1, 40)),
        exclude_stems=window != 0 and draw(st.booleans()),
        exclude_phrases=draw(st.booleans()),
    )


def vocabulary_and_copied(seed: int) -> tuple[list[str], list[list[str]]]:
    """Pieces of few letters, so that words are often spelt in several ways; and three documents' own pieces."""
    rng = random.Random(seed)
    texts = ["s", "a", "b", "ab", "as", "aß", "图", "像", "图像", "a/b", "x" * 70]

    def piece() -> str:
        return rng.choice([MARK, ""]) + "".join(rng.choices(texts, k=rng.choice([1, 1, 2])))

    tokens = list(dict.fromkeys(["▁a", "s", "▁ab", "▁abs", *(piece() for _ in range(8)), "<digit>"]))
    rng.shuffle(tokens)
    copied = [[one for one in dict.fromkeys(piece() for _ in range(size)) if one not in tokens] for size in (4, 2, 0)]
    return SPECIALS + tokens, copied


def next_at_random(rng: random.Random, written: list[str], choices: set[str]) -> str:
    """A token that is permitted; often one with which an earlier phrase went on, so that words are spelt again."""
    *earlier, open_phrase = " ".join(written).split(";")
    so_far = [token for token in open_phrase.split() if token not in stream.TAGS]
    likely = set()
    for phrase in earlier:
        pieces = phrase.split()[1:]
        if pieces[: len(so_far)] == so_far and len(pieces) > len(so_far):
            again = pieces[len(so_far)]
            likely |= choices & {again, f"{again}s", again.removesuffix("s")}
    return rng.choice(sorted(likely if likely and rng.random() < 0.7 else choices - {"</s>"}) or ["</s>"])


def ids_of(written: Sequence[Sequence[str]], tokens: list[str], copied: list[list[str]]) -> Tensor:
    rows = zip(written, copied, strict=True)
    return torch.tensor([[2, *((tokens + own).index(token) for token in row)] for row, own in rows])


@given(limits=limits(), seed=st.integers(0, 10**6), rules=st.sampled_from(RULES))
@settings(max_examples=100)
def test_what_is_permitted_is_what_the_slow_rules_permit(limits: SearchSettings, seed: int, rules: TextRules) -> None:
    tokens, copied = vocabulary_and_copied(seed)
    rng = random.Random(seed)
    constraint = PieceConstraint(tokens, limits, rules)
    classes = constraint.oov_classes(copied)
    before = torch.randn(3, len(tokens) + max(map(len, copied)), generator=torch.Generator().manual_seed(seed))
    written: list[list[str]] = [[] for _ in copied]
    for _ in range(30 if limits.max_length is None else limits.max_length):
        after = before.clone()
        constraint.apply(after, ids_of(written, tokens, copied), classes)
        for row, own in enumerate(copied):
            known = tokens + own
            columns = after[row, : len(known)].isfinite().nonzero().flatten().tolist()
            permitted = slow_permitted(written[row], known, limits, rules)
            assert {known[index] for index in columns} == permitted
            assert after[row, columns].equal(before[row, columns])
            written[row].append(next_at_random(rng, written[row], permitted))


@given(limits=limits(), seed=st.integers(0, 10**6), rules=st.sampled_from(RULES), likes_nothing=st.booleans())
@settings(max_examples=60)
def test_searches_write_streams_within_the_limits_of_words(
    limits: SearchSettings, seed: int, rules: TextRules, likes_nothing: bool
) -> None:
    tokens, copied = vocabulary_and_copied(seed)
    constraint = PieceConstraint(tokens, limits, rules)
    size = len(tokens) + max(map(len, copied))
    sequence, classes = torch.full((3, 1), 2), constraint.oov_classes(copied)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(300):
        log_probs = torch.randn(3, size, generator=generator)
        if likes_nothing:
            log_probs.fill_(-math.inf)
        for row, own in enumerate(copied):
            log_probs[row, len(tokens) + len(own) :] = -math.inf
        log_probs[:, 6] += 1.0
        constraint.apply(log_probs, sequence, classes)
        assert not log_probs.isnan().any() and log_probs.amax(1).isfinite().all()
        sequence = torch.cat([sequence, log_probs.argmax(1, keepdim=True)], 1)
        if sequence[:, -1].eq(3).all():
            break
    for own, row in zip(copied, sequence.tolist(), strict=True):
        known = [(tokens + own)[index] for index in row[1:]]
        line = known[: known.index("</s>")] if "</s>" in known else known
        phrases = stream.parse(" ".join(line if limits.max_length is None or "</s>" in known else line[:0]))
        assert len(phrases) <= limits.max_phrases
        longest = limits.max_phrase_words + (9 if limits.exclude_phrases else 0)
        assert all(len(words_of(phrase.words, rules)) <= longest for phrase in phrases)
        if limits.max_length is None and limits.exclude_phrases:
            keys = [stem_words(words_of(phrase.words, rules), rules) for phrase in phrases]
            assert len(set(keys)) == len(keys)
        if limits.max_length is None and limits.exclusive_window is None:
            firsts = [words_of(phrase.words, rules)[0] for phrase in phrases]
            assert len(set(firsts)) == len(firsts)


VOCABULARY = [
    *SPECIALS,
    "▁un",
    "super",
    "vised",
    "supervised",
    "label",
    "led",
    "▁graph",
    "s",
    "▁graphs",
    "<digit>",
    "图像",
]


def next_tokens(
    line: str, rules: TextRules = RULES[0], vocabulary: Sequence[str] = VOCABULARY, **options: Any
) -> set[str]:
    ids = [[2, *(vocabulary.index(token) for token in line.split())]]
    log_probs = torch.zeros(1, len(vocabulary))
    PieceConstraint(vocabulary, SearchSettings(**options), rules).apply(log_probs, torch.tensor(ids))
    return {token for token, value in zip(vocabulary, log_probs[0], strict=True) if value == 0}


BEGIN = {"<unk>", "▁un", "▁graph", "▁graphs", "<digit>"}
GO_ON = {"super", "vised", "supervised", "label", "led", "s", "图像"}


def test_a_word_is_not_excluded_because_it_shares_a_piece() -> None:
    line = "<p_start> ▁un supervised ; <p_start>"
    assert next_tokens(line, exclusive_window=1) == BEGIN
    assert next_tokens(f"{line} ▁un", exclusive_window=1) == BEGIN | GO_ON | {";"}
    assert next_tokens(f"{line} ▁un label led", exclusive_window=1) == BEGIN | GO_ON | {";"}


@pytest.mark.parametrize("spelling", ["▁un supervised", "▁un super vised"])
def test_a_word_that_spells_an_excluded_one_goes_on_however_it_is_cut(spelling: str) -> None:
    assert next_tokens(f"<p_start> ▁un supervised ; <a_start> {spelling}", exclusive_window=1) == GO_ON
    assert next_tokens(f"<p_start> ▁un supervised ; <a_start> {spelling} s", exclusive_window=1) == BEGIN | GO_ON | {
        ";"
    }


def test_only_first_words_are_excluded_and_only_in_the_window() -> None:
    assert next_tokens("<p_start> ▁graph ; <a_start> ▁un ▁graph", exclusive_window=1) == BEGIN | GO_ON | {";"}
    two = "<p_start> ▁graph ; <p_start> ▁un ; <p_start> ▁graph"
    assert ";" in next_tokens(two, exclusive_window=1)
    assert next_tokens(two, exclusive_window=2) == GO_ON


def test_stems_exclude_words_that_are_complete_too() -> None:
    line = "<p_start> ▁graph ; <p_start> ▁graphs"
    assert ";" in next_tokens(line, exclusive_window=1)
    assert next_tokens(line, exclusive_window=1, exclude_stems=True) == GO_ON


def test_the_limit_is_one_of_words() -> None:
    full = "<p_start> ▁un super vised ▁graph"
    assert next_tokens(full, max_phrase_words=2) == GO_ON | {";"}
    assert next_tokens(f"{full} s", max_phrase_words=3) == BEGIN | GO_ON | {";"}


def test_a_word_ends_after_so_many_pieces_unless_it_is_excluded() -> None:
    long = f"▁un{' s' * 15}"
    assert next_tokens(f"<p_start> {long.removesuffix(' s')}") == BEGIN | GO_ON | {";"}
    assert next_tokens(f"<p_start> {long}") == BEGIN | {";"}
    assert next_tokens(f"<p_start> {long} ; <p_start> {long}", exclusive_window=1) == GO_ON


LONG = [f"<p_start> ▁un{' s' * count}" for count in range(15, 24)]  # each goes on so as not to be an earlier one


def test_a_word_that_goes_on_for_long_is_still_the_first_and_the_last_of_its_phrase() -> None:
    options: dict[str, Any] = {"exclusive_window": None, "max_phrase_words": 1}
    assert next_tokens(" ; ".join([*LONG, LONG[-1]]), **options) == GO_ON
    assert next_tokens(" ; ".join([*LONG, f"{LONG[-1]} s"]), **options) == {";"}


@pytest.mark.parametrize("beside", ["<p_start> ▁un", "<p_start> ▁graph ; <p_start> ▁un"])
def test_a_long_phrase_is_read_as_well_beside_a_short_one(beside: str) -> None:
    twice = f"{LONG[-1]} s ; {LONG[-1]} s"
    long, short = ([2, *map(VOCABULARY.index, line.split())] for line in (twice, beside))
    sequence = torch.tensor([long, [1] * (len(long) - len(short)) + short])  # as greedy search has them
    log_probs = torch.zeros(2, len(VOCABULARY))
    PieceConstraint(VOCABULARY, SearchSettings(exclusive_window=1), RULES[0]).apply(log_probs, sequence)
    found = [{VOCABULARY[index] for index in row.isfinite().nonzero().flatten().tolist()} for row in log_probs]
    assert found == [GO_ON, BEGIN | GO_ON | {";"}]


def test_after_many_phrases_the_last_ones_exclude_as_before() -> None:
    line = "<p_start> ▁un s ; " * 19
    assert next_tokens(f"{line}<p_start> ▁un s", exclusive_window=1) == GO_ON
    assert next_tokens(f"{line}<p_start> ▁graph", exclusive_window=1) == BEGIN | GO_ON | {";"}


def test_a_phrase_that_repeats_an_earlier_one_goes_on() -> None:
    line = "<p_start> ▁graph ▁un s ; <a_start> ▁graphs ▁un s"
    assert next_tokens(line, exclude_phrases=True) == BEGIN | GO_ON
    assert next_tokens(line, exclude_phrases=True, max_phrase_words=2) == GO_ON


def test_a_phrase_that_repeats_one_of_long_ago_goes_on_too() -> None:
    line = f"<p_start> ▁graph ; {'<p_start> ▁un ▁un s ; ' * 12}<p_start> ▁graphs"
    assert next_tokens(line, exclude_phrases=True) == BEGIN | GO_ON
    assert next_tokens(line, exclude_phrases=True, exclusive_window=1) == BEGIN | GO_ON


def test_a_phrase_in_the_window_excludes_however_long_those_after_it_are() -> None:
    line = f"<p_start> ▁graph ; <p_start> ▁un{' s' * 24} ; <p_start> ▁graph"
    assert next_tokens(line, exclusive_window=2) == GO_ON


def test_chinese_pieces_are_words_and_the_same_characters_the_same_phrase() -> None:
    zh = TextRules("zh")
    line = "<p_start> 图像 ; <a_start> 图像"
    assert "图像" in next_tokens("<p_start>", zh) and "图像" not in next_tokens("<p_start>")
    assert next_tokens("<p_start> 图像 ; <a_start>", zh, exclusive_window=1) == BEGIN
    assert next_tokens("<p_start> 图像", zh) == BEGIN | {";", "图像"}
    assert next_tokens(line, zh, exclude_phrases=True, max_phrase_words=1) == BEGIN | {"图像"}


def test_markers_are_words_that_nothing_goes_on_with() -> None:
    assert next_tokens("<p_start> <digit>") == BEGIN | {";"}
    assert "<digit>" not in next_tokens("<p_start> <digit> ; <p_start>", exclusive_window=1)


def test_hypotheses_that_only_fill_a_beam_may_hold_anything_and_still_go_on() -> None:
    assert next_tokens("<p_start> <digit> ; <p_start> <digit>", exclusive_window=1) == BEGIN | {";"}
    assert next_tokens("<p_start> <digit> ; <p_start> <digit>", exclusive_window=1, exclude_phrases=True) == BEGIN
    assert next_tokens("<digit> <p_start>", exclusive_window=1, exclude_stems=True) == BEGIN


def test_no_phrase_begins_where_the_window_excludes_every_word() -> None:
    vocabulary = [*SPECIALS, "▁graph", "▁tree"]
    line = "<p_start> <unk> ; <p_start> ▁graph ; <p_start> ▁tree ;"
    assert next_tokens(line, vocabulary=vocabulary, exclusive_window=2) == {*stream.TAGS, "</s>"}
    assert next_tokens(line, vocabulary=vocabulary, exclusive_window=3) == {"</s>"}


def test_copied_pieces_that_have_no_column_are_passed_over() -> None:
    constraint = PieceConstraint(VOCABULARY, SearchSettings(exclusive_window=1), TextRules("zh"))
    classes, size = constraint.oov_classes([["图", "像", "▁图", "s"]]), len(VOCABULARY)
    log_probs = torch.zeros(1, size + 2)
    constraint.apply(log_probs, torch.tensor([[2, 4, size, 6, 4]]), classes)
    assert log_probs[0, size:].tolist() == [-math.inf, 0.0]


def test_columns_of_copied_pieces_are_left_alone_where_nothing_is_known_of_them() -> None:
    log_probs = torch.zeros(1, len(VOCABULARY) + 2)
    PieceConstraint(VOCABULARY, SearchSettings(exclusive_window=1), RULES[0]).apply(log_probs, torch.tensor([[2, 4]]))
    assert log_probs[0, len(VOCABULARY) :].tolist() == [0.0, 0.0]


def test_where_the_room_ends_even_an_excluded_word_does() -> None:
    assert next_tokens("<p_start> ▁graph ; <p_start> ▁graph", exclusive_window=1, max_length=6) == {";"}


@given(st.text(max_size=9), st.text(max_size=9))
def test_fingerprints_of_different_texts_differ(one: str, other: str) -> None:
    assert (fingerprint(one) == fingerprint(other)) == (one == other)


WORD_TEXT = TextModel(subwords=Subwords("pyonmttok", "bpe", b"#version: 0.2\n"))


def test_a_vocabulary_of_words_has_the_constraint_of_words() -> None:
    words = [*SPECIALS, "graph", "graphs"]
    assert type(build_constraint(words, SearchSettings(), TextModel())) is StreamConstraint
    assert type(build_constraint(VOCABULARY, SearchSettings(), WORD_TEXT)) is PieceConstraint


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"exclude_stems": True},
        {"exclusive_window": None},
        {"max_phrases": 3},
        {"exclusive_window": None, "max_phrases": 2},
    ],
)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=20)
def test_where_every_piece_is_a_word_all_is_as_with_words(options: dict[str, Any], seed: int) -> None:
    chosen = SearchSettings(**{"exclusive_window": 1, "max_phrase_words": 2} | options)
    words = ["graph", "graphs", "tree", "<digit>"]
    marked = [word if word in MARKERS else MARK + word for word in words]
    plain = StreamConstraint(SPECIALS + words, chosen)
    pieces = PieceConstraint(SPECIALS + marked, chosen, TextRules())
    copied = [["graphed", "omega"]], [["▁graphed", "▁omega"]]
    generator, sequence = torch.Generator().manual_seed(seed), torch.tensor([[2]])
    for _ in range(30):
        found = [torch.randn(1, 13, generator=generator)] * 2
        found = [one.clone() for one in found]
        for log_probs, constraint, own in zip(found, (plain, pieces), copied, strict=True):
            constraint.apply(log_probs, sequence, constraint.oov_classes(own))
        assert found[0].equal(found[1])
        sequence = torch.cat([sequence, found[0].argmax(1, keepdim=True)], 1)


def test_a_vocabulary_without_words_is_an_error() -> None:
    with pytest.raises(ExhirdError, match="no piece that begins a word"):
        build_constraint([*SPECIALS[1:], "s"], SearchSettings(), WORD_TEXT)


def test_joined_pieces_are_the_words_of_the_file() -> None:
    assert join("<p_start> ▁un super vised ▁graph s ;".split()) == "<p_start> unsupervised graphs ;".split()
