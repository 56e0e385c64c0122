"""Beam search that looks at few tokens writes what upstream's own step writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import translate, write_lines

from onmt_exhird import stream
from onmt_exhird.bridge import translator

SEARCHES = {
    "plain": [],
    "exclusive": ["-exclusive_search", "-exclude_stems"],
    "several": ["-n_best", 3, "-length_penalty", "wu", "-alpha", 0.6],
    "no penalty": ["-length_penalty", "none", "-max_phrases", 3],
    "coverage": ["-coverage_penalty", "summary", "-beta", 0.3],
    "stepwise": ["-coverage_penalty", "summary", "-stepwise_penalty", "-beta", 0.3],
    "at least": ["-min_length", 9],
    "at most": ["-max_length", 7],
    "no bigram twice": ["-block_ngram_repeat", 2],
    "no unknown words": ["-ban_unk_token"],
    "longest": ["-ratio", 0.4],
}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("beam", [2, 4])
def test_equals_upstreams_step(beam: int, search: str, workshop: Path, made, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["-beam_size", max(beam, 3 if search == "several" else 0), "-batch_size", 9, "-with_score"]
    ours, theirs = [], []
    for lines in (ours, theirs):
        found = translate(workshop, made("exhird"), "test.src", *wanted, *SEARCHES[search])
        lines += [line.split("\t") for line in found]
        monkeypatch.setattr(translator, "look_at_few", lambda strategy: False)
    assert [line for line, _ in ours] == [line for line, _ in theirs]
    assert [float(score) for _, score in ours] == pytest.approx([float(score) for _, score in theirs], abs=1e-4)
    assert len({line for line, _ in ours}) > 10


def test_a_given_beginning_is_kept(workshop: Path, made, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = (workshop / "test.src").read_text().splitlines()[:4]
    write_lines(workshop / "begun.src", sources)
    begun = [f"{stream.ABSENT} {source.split()[0]}" for source in sources]
    write_lines(workshop / "begun.tgt", begun)
    wanted = ["-beam_size", 3, "-tgt", workshop / "begun.tgt", "-tgt_file_prefix"]
    lines = translate(workshop, made("exhird"), "begun.src", *wanted)
    assert all(line.startswith(beginning) for line, beginning in zip(lines, begun, strict=True))
    monkeypatch.setattr(translator, "look_at_few", lambda strategy: False)
    assert translate(workshop, made("exhird"), "begun.src", *wanted) == lines
