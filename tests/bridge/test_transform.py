"""``-transforms keyphrase`` does what `exhird prepare` does to files, ``keyphrase_drop`` hides phrases in training."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.stock import run_stock
from onmt.bin import train
from onmt.transforms import AVAILABLE_TRANSFORMS, TransformPipe

from onmt_exhird import stream
from onmt_exhird.corpus import MAX_SOURCE, order_phrases

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


SOURCE = "deep graph networks : a deep graph network reads graphs by attention to deep networks"
TARGET = "<p_start> deep graph network ; <p_start> graph ; <p_start> attention ; <a_start> message passing ;"


def hide(
    documents: float, phrases: float, seed: int = 5, is_train: bool = True, times: int = 1
) -> list[tuple[str, str]]:
    opt = SimpleNamespace(seed=seed, keyphrase_drop_documents=documents, keyphrase_drop_phrases=phrases)
    transform = AVAILABLE_TRANSFORMS["keyphrase_drop"](opt)
    transform.warm_up()
    examples = [{"src": SOURCE.split(), "tgt": TARGET.split()} for _ in range(times)]
    done = [transform.apply(example, is_train=is_train) for example in examples]
    return [(" ".join(example["src"]), " ".join(example["tgt"])) for example in done]


def test_hidden_phrases_are_masked_wherever_they_occur_and_become_absent() -> None:
    assert hide(1, 1) == [
        (
            "<mask> : a <mask> reads <mask> by <mask> to deep networks",
            "<a_start> deep graph network ; <a_start> graph ; <a_start> attention ; <a_start> message passing ;",
        )
    ]


@pytest.mark.parametrize(("documents", "phrases", "is_train"), [(0, 1, True), (1, 0, True), (1, 1, False)])
def test_nothing_is_hidden_at_probability_zero_or_outside_training(
    documents: float, phrases: float, is_train: bool
) -> None:
    assert hide(documents, phrases, is_train=is_train) == [(SOURCE, TARGET)]


def test_present_phrases_stay_in_the_order_of_the_source_that_is_left() -> None:
    streams = {source: stream.parse(target) for source, target in hide(1, 0.5, times=50)}
    assert len(streams) == 8  # every choice of three phrases
    for source, phrases in streams.items():
        words = [list(phrase.words) for phrase in phrases]
        assert phrases == order_phrases(source.split(), words)
        assert sorted(words) == sorted(list(phrase.words) for phrase in stream.parse(TARGET))
    # Without the longest phrase the first "graph" is gone too, and the phrase is found further on.
    assert streams["<mask> : a <mask> reads graphs by attention to deep networks"][0].text == "graph"


def test_as_many_phrases_are_hidden_as_asked_for_and_the_seed_decides_which() -> None:
    one, again, other = (hide(0.5, 0.3, seed=seed, times=2000) for seed in (5, 5, 6))
    assert one == again != other
    untouched = sum(source == SOURCE for source, _ in one) / 2000
    assert untouched == pytest.approx(0.5 + 0.5 * 0.7**3, abs=0.03)
    attention = sum("attention" not in source for source, _ in one) / 2000
    assert attention == pytest.approx(0.5 * 0.3, abs=0.03)


@pytest.mark.parametrize("value", ["-0.1", "1.5", "nan"])
def test_what_is_no_probability_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        train._get_parser().parse_args(["-keyphrase_drop_phrases", value, "-data", "{}", "-src_vocab", "v"])
    assert "is no probability" in capsys.readouterr().err


def test_the_stock_command_trains_with_hidden_phrases(workshop: Path) -> None:
    options = ["-transforms", "keyphrase_drop", "-keyphrase_drop_documents", 1, "-keyphrase_drop_phrases", 1]
    done = run_stock(
        "onmt_train", "-config", "exhird.yaml", *options, "-train_steps", 40, "-valid_steps", 40, "-report_every", 40,
        "-save_model", "hidden", cwd=workshop,
    )  # fmt: skip
    # Validation keeps its present phrases, which a model that has never seen one does not expect.
    found = re.search(r"Step 40/.* ppl: +([\d.]+)", done.stderr), re.search(r"perplexity ([\d.]+)", done.stderr)
    assert found[0] and found[1] and float(found[1][1]) > 2 * float(found[0][1])
