"""The conformal bound on false unknowns, by simulation at the stated level."""

import numpy as np
import pytest
from scipy.stats import binomtest, norm, t

from openset import Scores, thresholds


def knowns(values):
    zeros = np.zeros(values.size, dtype=int)
    return Scores(labels=zeros, predicted=zeros, known=values)


@pytest.mark.parametrize("decimals", [None, 0])
@pytest.mark.parametrize(("n", "level"), [(19, 0.05), (50, 0.1), (333, 0.05)])
def test_a_new_known_is_rejected_at_most_as_often_as_stated(n, level, decimals):
    """By the exact probability of each threshold, which varies less than decisions."""
    rng, repeats, edges = np.random.default_rng(n), 400, []
    for _ in range(repeats):
        drawn = rng.standard_t(3, n)
        known = drawn if decimals is None else drawn.round(decimals)
        value = thresholds.conformal(knowns(known), level).value
        edges.append(value if decimals is None else value - 0.5)  # rounded to less
    rejected = t.cdf(edges, 3)
    error = rejected.std() / np.sqrt(repeats)
    assert rejected.mean() <= level + 4 * error
    if decimals is None:  # without ties the bound is nearly reached: not idle
        exact = np.floor(level * (n + 1) + 1e-9) / (n + 1)
        assert abs(rejected.mean() - exact) <= 4 * error


def test_the_interval_of_the_rate_covers_the_true_rate():
    rng, repeats, covered = np.random.default_rng(2), 1000, 0
    for _ in range(repeats):
        found = thresholds.conformal(knowns(rng.normal(size=80)), 0.1)
        covered += norm.cdf(found.value) in found.rate.interval
    assert binomtest(covered, repeats, 0.95).pvalue > 1e-3
