"""Weibull tail fits: the score equation, SciPy, and libMR translation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from openset.detectors.evt import Weibull, fit_weibull, fit_weibull_rows
from openset.detectors.weibull import log_exponent


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
    law = fit_weibull(z)
    assert law.shape * score(z, law.shape) == pytest.approx(0, abs=1e-9)
    expected = np.mean((z / z.max()) ** law.shape) ** (1 / law.shape) * z.max()
    assert law.scale == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0, 40.0])
@pytest.mark.parametrize("n", [3, 20, 1000])
def test_scipy_with_fixed_location_finds_the_same_law(shape, n):
    z = 3 * np.random.default_rng(n).weibull(shape, n)
    law = fit_weibull(z)
    expected, _, scale = stats.weibull_min.fit(z, floc=0)
    assert law.shape == pytest.approx(expected, rel=1e-3)
    assert law.scale == pytest.approx(scale, rel=1e-3)
    logpdf = stats.weibull_min.logpdf(z, law.shape, scale=law.scale)
    assert law.loglik == pytest.approx(logpdf.sum(), rel=1e-9)
    assert law.loglik >= stats.weibull_min.logpdf(z, expected, scale=scale).sum()


def test_the_tail_is_the_largest_or_the_smallest_samples():
    x = np.array([5.0, 1.0, 4.0, 2.0, 3.0])
    assert fit_weibull(x, tail=2) == fit_weibull([4.0, 5.0])
    assert fit_weibull(x, tail=2, side="low") == fit_weibull([2.0, 1.0])
    assert fit_weibull(x, tail=9) == fit_weibull(x)


@pytest.mark.parametrize("translate", [1.0, 10_000.0])
def test_libmr_puts_the_least_of_the_tail_at_the_translation(translate):
    x = np.random.default_rng(0).normal(size=300)
    tail = np.sort(x)[-20:]
    z = tail + translate - tail.min()
    law, plain = fit_weibull(x, tail=20, translate=translate), fit_weibull(z)
    assert law.shape == pytest.approx(plain.shape, rel=1e-7)
    expected = stats.weibull_min.cdf(z, plain.shape, scale=plain.scale)
    np.testing.assert_allclose(law.cdf(tail), expected, atol=1e-7)
    assert law.cdf(x.min()) < 1e-4


def test_equal_values_make_a_step():
    law = fit_weibull([2.0, 2.0, 2.0])
    assert law.shape == math.inf
    np.testing.assert_array_equal(law.cdf([1.9, 2.0, 2.1]), [0, 1, 1])
    mirrored = fit_weibull([-3.0, -3.0], translate=1.0, side="low")
    np.testing.assert_array_equal(mirrored.cdf([-2.9, -3.0, -4.0]), [0, 1, 1])


def test_rows_are_fitted_as_if_each_were_alone():
    rng = np.random.default_rng(0)
    rows = rng.weibull(rng.uniform(0.3, 30, (50, 1)), (50, 12))
    is_member = rng.random(rows.shape) < 0.7
    is_member[:, 0] = True
    rows[3] = 1.5  # a step
    is_member[4] = np.arange(12) < 1  # a step, too
    laws = fit_weibull_rows(rows, is_member=is_member)
    for i, (row, mask) in enumerate(zip(rows, is_member, strict=True)):
        alone = fit_weibull(row[mask])
        assert laws.shape[i] == pytest.approx(alone.shape, rel=1e-10)
        assert laws.scale[i] == pytest.approx(alone.scale, rel=1e-10)
        assert laws.loglik[i] == pytest.approx(alone.loglik, rel=1e-10)
    assert np.isinf(laws.shape[[3, 4]]).all()


def test_the_exponent_orders_what_the_cdf_rounds_together():
    law = Weibull(shape=8.0, scale=1.0)
    far = np.array([3.0, 4.0])
    assert law.cdf(far).tolist() == [1.0, 1.0]
    assert np.diff(log_exponent(far, 8.0, 1.0)) > 0
    np.testing.assert_allclose(log_exponent(far, 8.0, 1.0), 8 * np.log(far))
    assert log_exponent(np.array([0.0]), 8.0, 1.0) == -math.inf


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": [1.0, -1.0]}, "samples must be positive and finite"),
        ({"x": [1.0, 0.0]}, "samples must be positive and finite"),
        ({"x": [1.0, 2.0, np.nan]}, "samples must be positive and finite"),
        ({"x": [1.0, 2.0], "translate": 0.0}, "samples must be positive and finite"),
        ({"x": []}, "x must be non-empty"),
        ({"x": [1.0], "side": "both"}, "side must be one of 'high', 'low'"),
        ({"x": [1.0], "tail": 0}, "tail must be an integer >= 1"),
    ],
)
def test_bad_input_is_refused(options, message):
    with pytest.raises(ValueError, match=f"fit_weibull: {message}"):
        fit_weibull(**options)
