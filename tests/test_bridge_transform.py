"""``-transforms keyphrase`` does inside OpenNMT-py what `exhird prepare` does to files."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from onmt.transforms import AVAILABLE_TRANSFORMS, TransformPipe

from onmt_exhird.corpus import MAX_SOURCE

RAW = "State-of-the-art Graphs [1] with 3 nodes"
TOKENS = ["state", "of", "the", "art", "graphs", "with", "<digit>", "nodes"]


@pytest.fixture
def transform():
    return AVAILABLE_TRANSFORMS["keyphrase"](SimpleNamespace(seed=-1))


def test_raw_text_is_normalised(transform) -> None:
    assert transform.apply({"src": RAW.split(" "), "tgt": None})["src"] == TOKENS


def test_doing_it_twice_changes_nothing(transform) -> None:
    once = transform.apply({"src": RAW.split(" "), "tgt": ["<p_start>", "Graph-Theory", ";"]})
    assert once["tgt"] == ["<p_start>", "graph", "theory", ";"]
    assert transform.apply({"src": list(once["src"]), "tgt": list(once["tgt"])}) == once


@pytest.mark.parametrize(("is_train", "kept"), [(True, False), (False, True)])
def test_over_long_documents_are_dropped_in_training_only_and_counted(transform, is_train: bool, kept: bool) -> None:
    pipe = TransformPipe.build_from([transform])
    example = {"src": ["w"] * (MAX_SOURCE + 1), "tgt": ["<p_start>", "w", ";"]}
    assert bool(pipe.batch_apply([(example, pipe, "c")], is_train=is_train)) is kept
    assert ("DroppedStats(dropped=1)" in pipe.stats()) is not kept
