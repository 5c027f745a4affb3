"""Intervals and tests, against scipy's."""

import numpy as np
import pytest
from scipy import stats

from eval.inference import bootstrap_mean, compare, permutation_p

GENERATOR = np.random.default_rng(5)
PAIRS = {
    "clear": (GENERATOR.random(60) * 0.5 + 0.5, GENERATOR.random(60) * 0.6),
    "unclear": (GENERATOR.random(40), GENERATOR.random(40)),
    "mostly ties": (
        np.repeat([0.0, 1.0], 30),
        np.concatenate([np.repeat([0.0, 1.0], 28), [1.0, 0.0, 0.0, 0.0]]),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_interval_is_scipys(name: str) -> None:
    """E7: the paired bootstrap interval agrees with scipy.stats.bootstrap (percentile) within resampling noise."""
    a, b = PAIRS[name]
    ours = bootstrap_mean((a - b).tolist(), seed=1)
    theirs = stats.bootstrap(
        (a - b,), np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(2)
    ).confidence_interval
    noise = 0.1 * (theirs.high - theirs.low)
    assert ours.estimate == pytest.approx(float(np.mean(a - b)))
    assert ours.low == pytest.approx(theirs.low, abs=noise)
    assert ours.high == pytest.approx(theirs.high, abs=noise)


@pytest.mark.parametrize("name", PAIRS)
def test_the_permutation_test_is_scipys(name: str) -> None:
    """E7: the paired permutation test agrees with scipy.stats.permutation_test (samples) within noise."""
    a, b = PAIRS[name]
    theirs = stats.permutation_test(
        (a, b),
        lambda x, y: np.mean(x - y),
        permutation_type="samples",
        n_resamples=10_000,
        rng=np.random.default_rng(3),
    ).pvalue
    assert permutation_p((a - b).tolist(), seed=1) == pytest.approx(float(theirs), abs=0.02)


def test_exact_on_few_pairs() -> None:
    """E7: with five wins the two-sided sign-flip p is 2/32, which the resampled one comes near to."""
    assert permutation_p([1.0] * 5, seed=1) == pytest.approx(2 / 32, abs=0.01)


def test_the_same_seed_gives_the_same_figures() -> None:
    """E11: intervals and p are functions of values and seed."""
    a, b = (column.tolist() for column in PAIRS["unclear"])
    assert compare(a, b, seed=9) == compare(a, b, seed=9)
    assert compare(a, b, seed=9) != compare(a, b, seed=10)


def test_wins_ties_losses() -> None:
    """E7: counts are over queries, and rounding errors are ties."""
    result = compare([1.0, 0.5, 0.3, 0.1 + 0.2], [0.0, 0.5, 0.4, 0.3], seed=1)
    assert (result.wins, result.ties, result.losses) == (1, 2, 1)


def test_no_difference_at_all() -> None:
    """E7: equal columns have an interval of 0 to 0 and p = 1."""
    result = compare([0.5, 1.0], [0.5, 1.0], seed=1)
    assert (result.difference.low, result.difference.high, result.p_value) == (0.0, 0.0, 1.0)
