"""Whether a difference could be chance: bootstrap, paired tests, and the spread over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation.conventions import Convention
from onmt_exhird.evaluation.metrics import HEADLINE, Columns, scores

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
    """Resample the documents, the same for all systems; a system with several runs stands for their average.

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
    matrices = [np.mean([[run[name] for name in names] for run in runs], axis=0).T for runs in systems]
    observed = [_scores_of(matrix.sum(axis=0), names, convention) for matrix in matrices]
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
            difference = float(observed[index][name] - observed[0][name])
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
    matrices: Sequence[ndarray],
    names: Sequence[str],
    convention: Convention,
    resamples: int,
    generator: Generator,
    progress: bool,
) -> list[dict[str, ndarray]]:
    """The scores of each system on each resample, from matrices of shape (documents, quantities)."""
    import numpy as np
    from tqdm import tqdm

    documents = len(matrices[0])
    sums: list[list[ndarray]] = [[] for _ in matrices]
    for size in tqdm(_blocks(resamples), desc="bootstrap", leave=False, disable=None if progress else True):
        draws = (generator.integers(0, documents, documents) for _ in range(size))
        weights = np.stack([np.bincount(draw, minlength=documents) for draw in draws]).astype(float)
        for index, matrix in enumerate(matrices):
            sums[index].append(weights @ matrix)  # (size, quantities)
    return [_scores_of(np.concatenate(blocks), names, convention) for blocks in sums]


def _exchange(
    first: ndarray,
    second: ndarray,
    names: Sequence[str],
    convention: Convention,
    resamples: int,
    generator: Generator,
) -> dict[str, ndarray]:
    """Differences of the headline scores when each document's results change sides with probability one half."""
    import numpy as np

    change = second - first  # (documents, quantities)
    moved = np.concatenate(
        [generator.integers(0, 2, (size, len(change))).astype(float) @ change for size in _blocks(resamples)]
    )  # (resamples, quantities)
    after_first = _scores_of(first.sum(axis=0) + moved, names, convention)
    after_second = _scores_of(second.sum(axis=0) - moved, names, convention)
    return {name: after_second[name] - after_first[name] for name in HEADLINE}


def _p_value(by_chance: ndarray, observed: float) -> float:
    # The small allowance makes equal differences equal whatever the order of the additions was.
    extreme = int((abs(by_chance) >= abs(observed) - 1e-12).sum())
    return (extreme + 1) / (len(by_chance) + 1)
