"""Whether a difference between two arms is more than chance, over the same queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

RESAMPLES: Final = 10_000
CONFIDENCE: Final = 0.95
_BLOCK: Final = 500  # resamples at a time, so that memory stays flat
_SAME: Final = 1e-12  # below this, two means are taken as equal


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with the bounds of its confidence interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A minus B over the same queries. `p_value` is two-sided."""

    difference: Interval
    p_value: float
    wins: int
    ties: int
    losses: int


def bootstrap_mean(values: Sequence[float], seed: int, resamples: int = RESAMPLES) -> Interval:
    """The mean with its percentile bootstrap interval (Efron and Tibshirani 1993, chapter 13).

    On the differences of paired values this is the paired bootstrap.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.size == 0:
        return Interval(0.0, 0.0, 0.0)
    generator = np.random.default_rng(seed)
    means = np.concatenate(
        [
            sample[generator.integers(0, sample.size, (block, sample.size))].mean(axis=1)
            for block in _blocks(resamples)
        ]
    )
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return Interval(float(sample.mean()), float(low), float(high))


def permutation_p(differences: Sequence[float], seed: int, resamples: int = RESAMPLES) -> float:
    """Two-sided p of the paired sign-flip test on the mean (Fisher's randomisation test).

    The observed assignment counts as one of the resamples, so p is never 0 (Phipson and Smyth 2010).
    """
    sample = np.asarray(differences, dtype=np.float64)
    sample = sample[sample != 0.0]  # a zero has no sign to flip
    if sample.size == 0:
        return 1.0
    generator = np.random.default_rng(seed)
    observed = abs(float(sample.sum()))
    extreme = 0
    for block in _blocks(resamples):
        signs = generator.integers(0, 2, (block, sample.size)) * 2.0 - 1.0
        extreme += int(np.count_nonzero(np.abs(signs @ sample) >= observed - _SAME))
    return (extreme + 1.0) / (resamples + 1.0)


def compare(a: Sequence[float], b: Sequence[float], seed: int, resamples: int = RESAMPLES) -> Comparison:
    """Compare paired values of the same queries in the same order."""
    differences: NDArray[np.float64] = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    differences[np.abs(differences) < _SAME] = 0.0
    return Comparison(
        difference=bootstrap_mean(differences.tolist(), seed, resamples),
        p_value=permutation_p(differences.tolist(), seed, resamples),
        wins=int((differences > 0).sum()),
        ties=int((differences == 0).sum()),
        losses=int((differences < 0).sum()),
    )


def _blocks(resamples: int) -> list[int]:
    whole, rest = divmod(resamples, _BLOCK)
    return [_BLOCK] * whole + ([rest] if rest else [])
