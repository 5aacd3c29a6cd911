"""The 90 % interval for a new kind of unknowns covers about 90 % of new kinds.

Kinds are rejected with probability Phi(z), z normal over kinds. The accuracy that is
covered is the one measured in operation, on new samples of both sides.
"""

import numpy as np
import pytest
from scipy.stats import norm

from openset.thresholds.kinds import new_kind

REPEATS = 2000
N = 400  # samples of the known side and of each kind
CCR = 0.85


def coverage(n_kinds, mean, spread, seed=0):
    """Return the share of new kinds that are inside; `spread` draws a deviation."""
    rng = np.random.default_rng(seed)
    inside = 0
    for _ in range(REPEATS):
        z = rng.normal(mean, spread(rng), n_kinds + 1)
        calibrated, operated = rng.binomial(N, CCR, 2).tolist()
        *rejected, new = rng.binomial(N, norm.cdf(z))
        urr = np.array(rejected) / N
        found = new_kind(calibrated / N, N, np.full(n_kinds, N), urr, 0.5).interval
        inside += found.low <= (operated + new) / (2 * N) <= found.high
    return inside / REPEATS


@pytest.mark.parametrize("mean", [0.0, 1.0])
@pytest.mark.parametrize("n_kinds", [5, 10, 20])
def test_kinds_of_the_expected_spread_are_covered(n_kinds, mean):
    assert 0.85 <= coverage(n_kinds, mean, lambda _: 0.6) <= 0.95


@pytest.mark.parametrize("mean", [0.0, 1.0])
@pytest.mark.parametrize("n_kinds", [1, 2, 3, 10])
def test_kinds_whose_spread_is_not_known_are_covered(n_kinds, mean):
    """The spread of a problem is itself drawn, as three kinds would tell it."""
    found = coverage(n_kinds, mean, lambda rng: 0.6 * np.sqrt(3 / rng.chisquare(3)))
    assert 0.85 <= found <= 0.95


@pytest.mark.parametrize("n_kinds", [1, 2, 3])
def test_with_few_kinds_the_interval_is_rather_too_wide(n_kinds):
    assert coverage(n_kinds, 1.0, lambda _: 0.6) >= 0.9
