"""Weibull fits: the score equation, SciPy, and steps."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from openset.detectors.weibull import fit_weibull_rows, log_exponent, weibull_cdf


def fit(z):
    """Return shape and scale of one sample."""
    return [one[0] for one in fit_weibull_rows(np.asarray(z)[None])]


def score(z, shape):
    """Left minus right side of the equation the best shape solves, in plain form."""
    logs = np.log(z) - np.log(z.max())
    weights = np.exp(shape * logs)
    return (weights * logs).sum() / weights.sum() - 1 / shape - logs.mean()


@settings(max_examples=60, deadline=None)
@given(
    shape=st.floats(0.05, 500),
    scale=st.floats(1e-3, 1e3),
    n=st.integers(2, 60),
    seed=st.integers(0, 99),
)
def test_the_score_equation_holds(shape, scale, n, seed):
    z = scale * np.random.default_rng(seed).weibull(shape, n)
    found, scale = fit(z)
    assert found * score(z, found) == pytest.approx(0, abs=1e-9)
    expected = np.mean((z / z.max()) ** found) ** (1 / found) * z.max()
    assert scale == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0, 40.0])
@pytest.mark.parametrize("n", [3, 20, 1000])
def test_scipy_with_fixed_location_finds_the_same_law(shape, n):
    z = 3 * np.random.default_rng(n).weibull(shape, n)
    found, scale = fit(z)
    expected, _, theirs = stats.weibull_min.fit(z, floc=0)
    assert found == pytest.approx(expected, rel=1e-3)
    assert scale == pytest.approx(theirs, rel=1e-3)
    likelihood = stats.weibull_min.logpdf(z, found, scale=scale).sum()
    assert likelihood >= stats.weibull_min.logpdf(z, expected, scale=theirs).sum()


@pytest.mark.parametrize("translate", [1.0, 10_000.0])
def test_libmrs_translation_costs_no_digits(translate):
    tail = np.sort(np.random.default_rng(0).normal(size=300))[-20:]
    z = tail + translate - tail.min()
    shape, scale = fit(z)
    assert shape * score(z, shape) == pytest.approx(0, abs=1e-8)
    expected = stats.weibull_min.cdf(z, shape, scale=scale)
    loc = tail.min() - translate
    found = weibull_cdf(log_exponent(tail, shape, scale, loc))
    np.testing.assert_allclose(found, expected, atol=1e-7)
    single = weibull_cdf(log_exponent(tail.astype(np.float32), shape, scale, loc))
    np.testing.assert_allclose(single, expected, atol=1e-5)


def test_equal_values_make_a_step():
    shape, scale = fit([2.0, 2.0, 2.0])
    assert (shape, scale) == (math.inf, 2)
    cdf = weibull_cdf(log_exponent(np.array([1.9, 2.0, 2.1]), shape, scale))
    np.testing.assert_array_equal(cdf, [0, 1, 1])


def test_rows_are_fitted_as_if_each_were_alone():
    rng = np.random.default_rng(0)
    rows = rng.weibull(rng.uniform(0.3, 30, (50, 1)), (50, 12))
    is_member = rng.random(rows.shape) < 0.7
    is_member[:, 0] = True
    rows[3] = 1.5  # a step
    is_member[4] = np.arange(12) < 1  # a step, too
    shapes, scales = fit_weibull_rows(rows, is_member=is_member)
    for row, mask, *found in zip(rows, is_member, shapes, scales, strict=True):
        assert found == pytest.approx(fit(row[mask]), rel=1e-10)
    assert np.isinf(shapes[[3, 4]]).all()


def test_the_exponent_orders_what_the_cdf_rounds_together():
    far = np.array([3.0, 4.0])
    assert weibull_cdf(log_exponent(far, 8.0, 1.0)).tolist() == [1.0, 1.0]
    np.testing.assert_allclose(log_exponent(far, 8.0, 1.0), 8 * np.log(far))
    assert log_exponent(np.array([0.0]), 8.0, 1.0) == -math.inf
