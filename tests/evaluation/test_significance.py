"""Intervals, paired tests and the spread over seeds, against slow and obvious code."""

from __future__ import annotations

import itertools
import statistics

import numpy as np
import pytest

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation import System, evaluate
from onmt_exhird.evaluation.metrics import HEADLINE

SOURCES = ["a b c", "b c d", "c d e", "d e f", "e f g", "a c e", "b d f"]
GOLD = ["a ; z", "b ; c ; y", "c", "d ; x", "e ; f", "a ; w", "v"]
BASE = ["a ; b", "b ; y ; y", "d", "d ; x", "", "a ; c ; e", "b ; d"]
OURS = ["a ; z", "b ; c", "c ; c", "d ; q", "e", "a ; w ; w", "v ; b"]
OTHER = ["c ; z", "b ; b ; d", "", "x", "e ; f", "a ; e ; c", "v"]


@pytest.mark.parametrize("convention", ["exhird", "meng"])
@pytest.mark.parametrize("runs", [[OURS], [OURS, BASE, GOLD]])
def test_intervals_are_those_of_evaluating_each_resample(convention, runs):
    resamples, seed = 23, 5
    result = evaluate(
        SOURCES, GOLD, [System("x", runs)], convention=convention, confidence=True, resamples=resamples, seed=seed
    ).systems[0]
    generator = np.random.default_rng([seed, 0])
    samples = []
    for _ in range(resamples):
        drawn = generator.integers(0, len(SOURCES), len(SOURCES))
        sources, gold, *drawn_runs = ([texts[index] for index in drawn] for texts in (SOURCES, GOLD, *runs))
        samples.append(evaluate(sources, gold, [System("x", drawn_runs)], convention=convention).systems[0].scores)
    for key, interval in result.intervals.items():
        low, high = np.quantile([sample[key] for sample in samples], (0.025, 0.975))
        assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-9), key


@pytest.mark.parametrize("ours", [[OURS], [OURS, OTHER]])
def test_randomisation_agrees_with_all_exchanges(ours):
    systems = [System("base", [BASE]), System("ours", ours)]
    result = evaluate(SOURCES, GOLD, systems, confidence=True, resamples=4000).systems[1]
    differences: dict[str, list[float]] = {key: [] for key in HEADLINE}
    for exchanged in itertools.product([False, True], repeat=len(SOURCES)):
        pairs = []
        for run in ours:
            first = [theirs if swap else base for swap, base, theirs in zip(exchanged, BASE, run, strict=True)]
            second = [base if swap else theirs for swap, base, theirs in zip(exchanged, BASE, run, strict=True)]
            pairs.append(evaluate(SOURCES, GOLD, {"first": first, "second": second}))
        for key in HEADLINE:
            differences[key].append(statistics.mean(pair["second"][key] - pair["first"][key] for pair in pairs))
    for key, comparison in result.comparisons.items():
        exact = np.mean(np.abs(differences[key]) >= abs(differences[key][0]) - 1e-12)
        assert comparison.difference == pytest.approx(differences[key][0])
        assert comparison.p_randomisation == pytest.approx(exact, abs=0.03)


def test_equal_systems_do_not_differ():
    comparisons = evaluate(SOURCES, GOLD, {"a": OURS, "b": OURS}, confidence=True, resamples=50).systems[1].comparisons
    assert {(one.difference, one.p_bootstrap, one.p_randomisation) for one in comparisons.values()} == {(0.0, 1.0, 1.0)}


def test_a_system_that_is_always_better_differs():
    sources, gold = ["a b c d"] * 30, ["a ; b"] * 30
    systems = {"bad": ["c"] * 15 + ["a ; d"] * 15, "good": ["a ; b"] * 15 + ["a"] * 15}
    comparison = evaluate(sources, gold, systems, confidence=True, resamples=500).systems[1].comparisons["present/F1@M"]
    assert comparison.p_bootstrap < 0.01
    assert comparison.p_randomisation < 0.01


def test_the_seed_decides_the_resamples():
    one, again, other = (
        evaluate(SOURCES, GOLD, OURS, confidence=True, resamples=50, seed=seed).systems[0].intervals
        for seed in (3, 3, 4)
    )
    assert one == again
    assert one != other


def test_resampling_is_in_the_signature():
    result = evaluate(SOURCES, GOLD, OURS, confidence=True, resamples=7, seed=3)
    assert result.resampling == "interval:95%|paired-bootstrap:7|approximate-randomisation:7|seed:3"


def test_more_resamples_than_a_block_are_all_used():
    few, many = (evaluate(SOURCES, GOLD, OURS, confidence=True, resamples=n).systems[0] for n in (100, 101))
    assert few.intervals != many.intervals


def test_seeds_give_mean_and_standard_deviation():
    result = evaluate(SOURCES, GOLD, [System("ours", [BASE, OURS, GOLD])]).systems[0]
    runs = [evaluate(SOURCES, GOLD, run).systems[0] for run in (BASE, OURS, GOLD)]
    values = [run["present/F1@M"] for run in runs]
    assert result.runs == 3
    assert result["present/F1@M"] == pytest.approx(statistics.mean(values))
    assert result.deviations["present/F1@M"] == pytest.approx(statistics.stdev(values))


def test_a_single_run_has_no_deviation():
    assert evaluate(SOURCES, GOLD, OURS).systems[0].deviations == {}


@pytest.mark.parametrize("convention", ["exhird", "meng"])
def test_the_difference_shown_is_that_of_the_scores_shown(convention):
    systems = [System("base", [BASE, OTHER]), System("ours", [OURS, GOLD, OTHER])]
    base, ours = evaluate(SOURCES, GOLD, systems, convention=convention, confidence=True, resamples=7).systems
    for key in HEADLINE:
        assert ours.comparisons[key].difference == ours[key] - base[key]


def test_the_order_of_the_runs_does_not_matter():
    base, ours = System("base", [BASE, OTHER]), [OURS, GOLD, OTHER]
    one, other = (
        evaluate(SOURCES, GOLD, [base, System("ours", runs)], confidence=True, resamples=50).systems[1].comparisons
        for runs in (ours, ours[::-1])
    )
    for key in HEADLINE:
        assert one[key].p_randomisation == other[key].p_randomisation
        assert one[key].p_bootstrap == other[key].p_bootstrap


def test_seeds_can_be_compared_with_a_single_run():
    systems = [System("base", [BASE]), System("ours", [OURS, GOLD])]
    comparison = evaluate(SOURCES, GOLD, systems, confidence=True, resamples=50).systems[1].comparisons["present/F1@M"]
    assert 0 < comparison.p_bootstrap <= 1 and comparison.difference > 0


@pytest.mark.parametrize("options", [{"resamples": 0}, {"seed": -1}])
def test_impossible_resampling_is_an_error(options):
    with pytest.raises(ExhirdError, match="cannot be drawn"):
        evaluate(SOURCES, GOLD, OURS, confidence=True, **options)
