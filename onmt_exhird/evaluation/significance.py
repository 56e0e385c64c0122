"""Whether a difference could be chance: bootstrap, paired tests, and the spread over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation.conventions import Convention
from onmt_exhird.evaluation.metrics import HEADLINE, Columns, add_up, scores

if TYPE_CHECKING:
    from numpy import ndarray
    from numpy.random import Generator

_BLOCK = 100  # resamples at a time: a block's weights for 20,000 documents are 16 MB


@dataclass(frozen=True)
class Interval:
    """The middle 95% of a score over the resamples."""

    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """A system against the first one: the difference, and how often chance alone makes one as large (two-sided)."""

    difference: float
    p_bootstrap: float
    p_randomisation: float


@dataclass(frozen=True)
class Significance:
    """For each system the intervals of all scores; for each but the first the comparisons of the headline scores."""

    intervals: list[dict[str, Interval]]
    comparisons: list[dict[str, Comparison]]


def mean_and_deviation(runs: Sequence[Mapping[str, float]]) -> tuple[dict[str, float], dict[str, float]]:
    """Each score's mean over the runs, and its sample standard deviation.

    >>> mean_and_deviation([{"F1": 0.25}, {"F1": 0.75}])[0]
    {'F1': 0.5}
    """
    means = {name: fmean(run[name] for run in runs) for name in runs[0]}
    deviations = {name: stdev(run[name] for run in runs) for name in runs[0]} if len(runs) > 1 else {}
    return means, deviations


def assess(
    systems: Sequence[Sequence[Columns]],
    convention: Convention,
    resamples: int = 1000,
    seed: int = 1,
    progress: bool = False,
) -> Significance:
    """Resample the documents, the same for all systems; the score of a system with several runs is their mean.

    Each run is scored on its own, on every resample as on the documents themselves.

    The p-value of the paired bootstrap is that of a difference at least as far from the resamples' mean as the
    observed one is from zero; that of approximate randomisation comes from exchanging the two systems' results
    in randomly chosen documents. Both count the observed difference itself, so neither is ever 0.
    """
    import numpy as np

    if resamples < 1 or seed < 0:
        raise ExhirdError(
            f"{resamples} resamples with seed {seed} cannot be drawn; give at least 1, and a seed from 0 on"
        )
    names = list(systems[0][0])
    matrices = [[np.array([run[name] for name in names]).T for run in runs] for runs in systems]
    # As the scores that are shown, to the last digit.
    observed = [mean_and_deviation([scores(add_up(run), convention) for run in runs])[0] for runs in systems]
    drawn = _bootstrap(matrices, names, convention, resamples, np.random.default_rng([seed, 0]), progress)
    intervals = []
    for sample in drawn:
        bounds = {name: np.quantile(values, (0.025, 0.975)) for name, values in sample.items()}
        intervals.append({name: Interval(float(low), float(high)) for name, (low, high) in bounds.items()})
    comparisons: list[dict[str, Comparison]] = []
    for index in range(1, len(matrices)):
        pair = matrices[0], matrices[index]
        generator = np.random.default_rng([seed, index])
        exchanged = _exchange(*pair, names, convention, resamples, generator)
        comparisons.append({})
        for name in HEADLINE:
            difference = observed[index][name] - observed[0][name]
            chance = drawn[index][name] - drawn[0][name]
            comparisons[-1][name] = Comparison(
                difference,
                _p_value(chance - chance.mean(), difference),
                _p_value(exchanged[name], difference),
            )
    return Significance(intervals, comparisons)


def _scores_of(sums: ndarray, names: Sequence[str], convention: Convention) -> dict[str, ndarray]:
    """Scores from sums of shape (..., quantities)."""
    return scores({name: sums[..., column] for column, name in enumerate(names)}, convention)


def _blocks(resamples: int) -> list[int]:
    return [min(_BLOCK, resamples - start) for start in range(0, resamples, _BLOCK)]


def _bootstrap(
    matrices: Sequence[Sequence[ndarray]],
    names: Sequence[str],
    convention: Convention,
    resamples: int,
    generator: Generator,
    progress: bool,
) -> list[dict[str, ndarray]]:
    """The mean scores of each system on each resample, from its runs' matrices of shape (documents, quantities)."""
    import numpy as np
    from tqdm import tqdm

    documents = len(matrices[0][0])
    blocks: list[list[dict[str, ndarray]]] = [[] for _ in matrices]
    for size in tqdm(_blocks(resamples), desc="bootstrap", leave=False, disable=None if progress else True):
        draws = (generator.integers(0, documents, documents) for _ in range(size))
        weights = np.stack([np.bincount(draw, minlength=documents) for draw in draws]).astype(float)
        for index, runs in enumerate(matrices):
            of_runs = [_scores_of(weights @ run, names, convention) for run in runs]
            blocks[index].append({name: np.mean([one[name] for one in of_runs], axis=0) for name in of_runs[0]})
    return [{name: np.concatenate([block[name] for block in drawn]) for name in drawn[0]} for drawn in blocks]


def _exchange(
    first: Sequence[ndarray],
    second: Sequence[ndarray],
    names: Sequence[str],
    convention: Convention,
    resamples: int,
    generator: Generator,
) -> dict[str, ndarray]:
    """Differences of the headline scores when each document's results change sides with probability one half.

    The mean over all pairs of a first and a second run, so that the order of the runs and their number do not matter.
    """
    import numpy as np

    blocks: list[dict[str, ndarray]] = []
    for size in _blocks(resamples):
        sides = generator.integers(0, 2, (size, len(first[0]))).astype(float)
        stay, move = ([[part @ run for run in runs] for runs in (first, second)] for part in (1 - sides, sides))
        differences: dict[str, list[ndarray]] = {name: [] for name in HEADLINE}
        for one, other in product(range(len(first)), range(len(second))):
            after_first = _scores_of(stay[0][one] + move[1][other], names, convention)
            after_second = _scores_of(stay[1][other] + move[0][one], names, convention)
            for name in HEADLINE:
                differences[name].append(after_second[name] - after_first[name])
        blocks.append({name: np.mean(values, axis=0) for name, values in differences.items()})
    return {name: np.concatenate([block[name] for block in blocks]) for name in HEADLINE}


def _p_value(by_chance: ndarray, observed: float) -> float:
    # The small allowance makes equal differences equal whatever the order of the additions was.
    extreme = int((abs(by_chance) >= abs(observed) - 1e-12).sum())
    return (extreme + 1) / (len(by_chance) + 1)
