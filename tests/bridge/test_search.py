"""Our search writes what upstream's own loop writes, greedy and with beams, for every model.

With ``-min_length 1``, which no stream falls short of, a search is upstream's: that is what ours is compared with.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from helpers.bridge_models import VOCABS, WORDS, build, options, wild
from helpers.files import write_lines
from helpers.stock import translate

from onmt_exhird import stream
from onmt_exhird.bridge import translator
from onmt_exhird.bridge.models import as_ours
from onmt_exhird.search import StreamConstraint, pool

LIMITS = ["-max_phrases", 6, "-max_phrase_words", 3]
SEARCHES = {
    "plain": LIMITS,
    "exclusive": ["-exclusive_search", "-exclusive_window", 2, *LIMITS],
    "stems": ["-exclusive_search", "-exclude_stems", "-exclude_phrases", "-min_phrases", 3, *LIMITS],
    "little room": ["-max_length", 11, "-exclude_phrases", "-max_phrase_words", 4],
    "no unknown words": ["-ban_unk_token", "-max_phrases", 4, "-length_penalty", "avg"],
}
BEAMS = SEARCHES | {
    "several": ["-n_best", 3, "-length_penalty", "wu", "-alpha", 0.6, *LIMITS],
    "no penalty": ["-length_penalty", "none", "-max_phrases", 3],
}
UPSTREAM = ["-min_length", 1]


@pytest.fixture(scope="module", params=["exhird", "rnn", "catseqd", "catseqcorr", "transformer"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wild model, and documents of 1 to 23 words, some of them unknown."""
    folder = tmp_path_factory.mktemp(request.param)
    rng = random.Random(5)
    words = [*WORDS[7:], "zuvoka", "poliku", "rataku"]
    lines = [" ".join(rng.choices(words, k=rng.randint(1, 23))) for _ in range(17)]
    write_lines(folder / "some.src", [*lines, ""])
    return wild(request.param, folder / "model.pt")


def both(model: Path, *wanted: object) -> tuple[list[list[str]], list[list[str]]]:
    """Lines and scores of our search and of upstream's."""
    runs = []
    for more in ([], UPSTREAM):
        lines = translate(model.parent, model, "some.src", "-with_score", *wanted, *more)
        runs.append([list(column) for column in zip(*(line.split("\t") for line in lines), strict=True)])
    return runs[0], runs[1]


@pytest.mark.parametrize("search", SEARCHES)
def test_greedy_search_equals_upstreams_loop(search: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "ROWS", 3)
    monkeypatch.setattr(pool, "TOKENS", 40)
    ours, upstreams = both(model, "-beam_size", 1, "-batch_size", 64, *SEARCHES[search])
    assert ours[0] == upstreams[0]
    assert list(map(float, ours[1])) == pytest.approx(list(map(float, upstreams[1])), rel=1e-4, abs=1e-4)
    assert len({len(line.split()) for line in ours[0] if line}) > 1  # so that rows are taken at different steps


@pytest.mark.parametrize("search", BEAMS)
@pytest.mark.parametrize("beam", [3, 4])
def test_beam_search_equals_upstreams(beam: int, search: str, model: Path) -> None:
    ours, upstreams = both(model, "-beam_size", beam, "-batch_size", 9, *BEAMS[search])
    assert ours[0] == upstreams[0]
    assert list(map(float, ours[1])) == pytest.approx(list(map(float, upstreams[1])), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("search", SEARCHES)
def test_without_scores_the_lines_are_the_same(search: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "ROWS", 5)
    wanted = ["-beam_size", 1, "-batch_size", 64, *SEARCHES[search]]
    scored = translate(model.parent, model, "some.src", *wanted, "-with_score")
    calls: list[int] = []
    choose = StreamConstraint.choose_structure
    monkeypatch.setattr(
        StreamConstraint, "choose_structure", lambda self, state, *args: calls.append(0) or choose(self, state, *args)
    )
    assert translate(model.parent, model, "some.src", *wanted) == [line.split("\t")[0] for line in scored]
    assert bool(calls) == ("transformer" not in model.parent.name)


def test_a_structure_token_in_a_source_may_be_copied(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = f"{WORDS[7]} {stream.ABSENT} {WORDS[8]} {stream.END} {stream.EOS}"
    write_lines(model.parent / "odd.src", [f"{words} {words}", words])
    monkeypatch.setattr(StreamConstraint, "choose_structure", None)  # knows nothing of copying
    wanted = ["-beam_size", 1, "-max_phrases", 3]
    scored = translate(model.parent, model, "odd.src", *wanted, "-with_score")
    assert translate(model.parent, model, "odd.src", *wanted) == [line.split("\t")[0] for line in scored]


@pytest.mark.parametrize(
    "extra",
    [
        ["-min_length", 2],
        ["-block_ngram_repeat", 3],
        ["-random_sampling_topk", 2],
        ["-beam_size", 3, "-coverage_penalty", "summary", "-beta", 0.3],
        ["-beam_size", 3, "-ratio", 0.4],
    ],
    ids=str,
)
def test_what_only_upstream_has_stays_upstreams(extra: list[object], model: Path, monkeypatch) -> None:
    for name in ("Greedy", "Beam"):
        monkeypatch.setattr(translator, name, None)
    lines = translate(model.parent, model, "some.src", "-beam_size", 1, "-max_phrases", 3, *extra)
    assert len(lines) == 18


def test_a_given_beginning_is_kept(model: Path) -> None:
    sources = (model.parent / "some.src").read_text().splitlines()[:4]
    write_lines(model.parent / "begun.src", sources)
    begun = [f"{stream.ABSENT} {WORDS[8 + number]}" for number in range(4)]
    write_lines(model.parent / "begun.tgt", begun)
    wanted = ["-beam_size", 3, "-tgt", model.parent / "begun.tgt", "-tgt_file_prefix", *LIMITS]
    lines = translate(model.parent, model, "begun.src", *wanted)
    assert all(line.startswith(beginning) for line, beginning in zip(lines, begun, strict=True))


def test_a_model_of_ours_is_searched_on_its_own_tensors() -> None:
    for decoder in ("exhird", "rnn", "catseqd", "catseqcorr"):
        built = build(options(decoder))
        ours = as_ours(built, VOCABS)
        assert ours is not None
        theirs = {parameter.data_ptr() for parameter in built.parameters()}
        assert {parameter.data_ptr() for parameter in ours.parameters()} <= theirs
    assert as_ours(build(options("transformer")), VOCABS) is None


def test_a_given_target_is_scored_whatever_is_being_searched(tmp_path: Path) -> None:
    path = wild("exhird", tmp_path / "model.pt", copies=False)
    write_lines(tmp_path / "some.src", [f"{WORDS[8]} {WORDS[9]}", WORDS[7]])
    write_lines(
        tmp_path / "some.tgt", [f"{stream.PRESENT} {WORDS[8]} {stream.END}", f"{stream.ABSENT} {WORDS[9]} {stream.END}"]
    )
    wanted = ["-beam_size", 1, "-max_phrases", 2, "-max_phrase_words", 1]
    lines = translate(tmp_path, path, "some.src", *wanted)
    assert translate(tmp_path, path, "some.src", *wanted, "-tgt", tmp_path / "some.tgt") == lines
