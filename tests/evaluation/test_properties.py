"""What must hold for all predictions, under all conventions."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from onmt_exhird.evaluation import evaluate

WORDS = st.sampled_from(["graph", "graphs", "tree", "trees", "fast", "networks", ",", "a/b", "<unk>", "größe"])
PLAIN_WORDS = st.sampled_from(["graph", "graphs", "tree", "fast", "networks", "größe"])
CHOICES = st.fixed_dictionaries(
    {
        "convention": st.sampled_from(["exhird", "chan", "meng"]),
        "docs": st.sampled_from(["all", "with-gold"]),
        "tokens": st.sampled_from(["blanks", "words"]),
    }
)
COUNTS = ("num_", "gold_")


def phrases(words: st.SearchStrategy[str], most: int = 7) -> st.SearchStrategy[list[str]]:
    return st.lists(st.lists(words, min_size=1, max_size=3).map(" ".join), max_size=most)


DOCUMENTS = st.lists(
    st.tuples(st.lists(WORDS, max_size=5).map(" ".join), phrases(WORDS), phrases(WORDS)), min_size=1, max_size=5
)


def scores(documents, **options):
    sources, gold, predictions = (list(part) for part in zip(*documents, strict=True))
    return evaluate(sources, gold, predictions, **options).systems[0].scores


@settings(max_examples=60)
@given(DOCUMENTS, CHOICES)
def test_scores_are_between_zero_and_one(documents, options):
    for key, value in scores(documents, **options).items():
        assert value >= 0
        assert value <= 1 or key.startswith(COUNTS), key


@settings(max_examples=60)
@given(DOCUMENTS, CHOICES, st.randoms(use_true_random=False))
def test_shuffling_documents_changes_nothing(documents, options, generator: random.Random):
    shuffled = documents[:]
    generator.shuffle(shuffled)
    assert scores(shuffled, **options) == scores(documents, **options)


@settings(max_examples=60)
@given(DOCUMENTS, CHOICES, st.data())
def test_duplicating_a_prediction_changes_only_dup_ratio(documents, options, data):
    chosen = [index for index, (_, _, predictions) in enumerate(documents) if predictions]
    if not chosen:
        return
    index = data.draw(st.sampled_from(chosen))
    source, gold, predictions = documents[index]
    original = data.draw(st.integers(0, len(predictions) - 1))
    place = data.draw(st.integers(original + 1, len(predictions)))
    longer = [*predictions[:place], predictions[original], *predictions[place:]]
    before = scores(documents, **options)
    after = scores([*documents[:index], (source, gold, longer), *documents[index + 1 :]], **options)
    ratio_before, ratio_after = before.pop("dup_ratio"), after.pop("dup_ratio")
    assert after == before
    assert ratio_after >= ratio_before
    if not {",", "<unk>"} & set(predictions[original].split()):  # no convention drops it, so it counts
        assert ratio_after > ratio_before


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.lists(PLAIN_WORDS, max_size=5).map(" ".join), phrases(PLAIN_WORDS)), min_size=1, max_size=5),
    st.sampled_from(["exhird", "chan"]),
)
def test_a_perfect_system_scores_one_at_m(documents, convention):
    perfect = [(source, gold, gold) for source, gold in documents]
    result = scores(perfect, convention=convention, docs="with-gold")
    for kind in ("present", "absent", "total"):
        if result[f"gold_{kind}"]:
            assert result[f"{kind}/F1@M"] == 1


@settings(max_examples=30)
@given(DOCUMENTS)
def test_a_wrong_prediction_at_the_end_lowers_no_recall(documents):
    longer = [(source, gold, [*predictions, "quokka"]) for source, gold, predictions in documents]
    before, after = scores(documents), scores(longer)
    for key in before:
        if "/R@" in key:
            assert after[key] == before[key]
        elif key == "total/P@M":
            assert after[key] <= before[key]
