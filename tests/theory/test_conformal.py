"""The conformal bound on false unknowns, by simulation at the stated level."""

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from openset import Scores, thresholds

REPEATS = 2000


def knowns(values):
    zeros = np.zeros(values.size, dtype=int)
    return Scores(labels=zeros, predicted=zeros, known=values)


@pytest.mark.parametrize("decimals", [None, 0])
@pytest.mark.parametrize(("n", "level"), [(19, 0.05), (50, 0.1), (333, 0.05)])
def test_a_new_known_is_rejected_at_most_as_often_as_stated(n, level, decimals):
    rng = np.random.default_rng(n)
    rejected = 0
    for _ in range(REPEATS):
        drawn = rng.standard_t(3, n + 1)
        drawn = drawn if decimals is None else drawn.round(decimals)
        found = thresholds.conformal(knowns(drawn[:-1]), level)
        rejected += drawn[-1] < found.value
    test = binomtest(int(rejected), REPEATS, level)
    assert test.proportion_ci(0.999).low <= level
    if decimals is None:  # without ties the bound is nearly reached: not idle
        exact = np.floor(level * (n + 1) + 1e-9) / (n + 1)
        assert binomtest(int(rejected), REPEATS, exact).pvalue > 1e-3


def test_the_interval_of_the_rate_covers_the_true_rate():
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(REPEATS):
        found = thresholds.conformal(knowns(rng.normal(size=80)), 0.1)
        covered += norm.cdf(found.value) in found.rate.interval
    assert binomtest(covered, REPEATS, 0.95).pvalue > 1e-3
