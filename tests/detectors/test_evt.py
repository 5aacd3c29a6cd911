"""Tail fits: never below SciPy, invariant, clear about bad input."""

import math
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from openset.detectors.evt import (
    GPD,
    fit_gpd,
    fit_weibull_rows,
    log_exponent,
    log_weibull_cdf,
    weibull_cdf,
)

SAMPLERS = {
    "gamma": lambda rng, n: rng.gamma(2.0, size=n),
    "beta": lambda rng, n: rng.beta(2.0, 3.0, size=n),
    "bump": lambda rng, n: rng.normal(14, 3, n) / rng.normal(30, 3, n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "uniform": lambda rng, n: rng.random(n),
    "bounded, shape -0.8": lambda rng, n: (1 - rng.random(n) ** 0.8) / 0.8,
    "arcsine": lambda rng, n: rng.beta(0.5, 0.5, size=n),
    "Pareto": lambda rng, n: rng.pareto(1.5, n),
    "Pareto, shape 5": lambda rng, n: rng.pareto(0.2, n),
    "half Cauchy": lambda rng, n: np.abs(rng.standard_cauchy(n)),
    "normal": lambda rng, n: rng.normal(size=n),
}


def draw(kind, n, seed=0):
    return SAMPLERS[kind](np.random.default_rng(seed + zlib.crc32(kind.encode())), n)


def log_likelihood(x, shape, loc, scale):
    """Slow and obvious: SciPy's density, summed."""
    with np.errstate(all="ignore"):  # outside the support, and for subnormal shapes
        return stats.genpareto.logpdf(x, shape, loc=loc, scale=scale).sum()


def best_on_dense_grid(x):
    """Highest likelihood over 4 000 values of theta and the bound, by brute force."""
    y = x - x.min()
    u = np.concatenate([np.linspace(-40, 5, 3_000), np.linspace(5, 40, 1_000)])
    theta = np.expm1(u[np.abs(u) > 1e-6]) / y.max()
    k = np.array([np.log1p(np.clip(t * y, -1 + 1e-16, None)).mean() for t in theta])
    inner = (k > -1) & (k < y.size - 1)
    heights = -np.log(k[inner] / theta[inner]) - k[inner] - 1
    return y.size * max(heights.max(), -np.log(y.max()))


@pytest.mark.parametrize("n", [30, 300, 3000])
@pytest.mark.parametrize("kind", SAMPLERS)
def test_no_hill_is_missed_and_the_likelihood_is_never_below_scipys(kind, n):
    for seed in range(4):
        x = draw(kind, n, seed)
        with np.errstate(all="ignore"):  # it visits points outside the support
            shape, loc, scale = stats.genpareto.fit(x)
        if shape < -1:  # there is no maximum to compare with; at -1 there is one
            shape, scale = -1.0, x.max() - loc
        found = fit_gpd(x).loglik
        assert found >= log_likelihood(x, shape, loc, scale)
        assert n > 30 or found >= best_on_dense_grid(x) - 1e-9


@pytest.mark.parametrize("kind", ["gamma", "bump", "Pareto", "bounded, shape -0.8"])
@pytest.mark.parametrize("n", [200, 100_000])
def test_the_score_equations_hold(kind, n):
    x = draw(kind, n)
    law = fit_gpd(x)
    terms = 1 + law.shape * (x - law.loc) / law.scale
    assert law.loc == x.min()
    assert np.log(terms).mean() == pytest.approx(law.shape, abs=1e-9)
    assert (1 / terms).mean() == pytest.approx(1 / (1 + law.shape), rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(sorted(SAMPLERS)),
    n=st.integers(30, 400),
    factor=st.floats(1e-3, 1e3),
    offset=st.floats(-10, 10),
    seed=st.integers(0, 99),
)
def test_scale_and_location_of_the_samples_carry_over(kind, n, factor, offset, seed):
    x = draw(kind, n, seed)
    one, other = fit_gpd(x), fit_gpd(factor * x + offset)
    assert (other.shape == -1) == (one.shape == -1)
    # Adding the offset rounds the samples themselves.
    lost = 1e-9 * (1 + abs(offset) / (factor * np.ptp(x)))
    assert other.shape == pytest.approx(one.shape, abs=1e-5 + 1e3 * lost)
    assert other.scale == pytest.approx(factor * one.scale, rel=1e-4 + 1e3 * lost)
    expected = one.loglik - n * math.log(factor)
    assert other.loglik == pytest.approx(expected, abs=1e-6 * n + n * lost)


def test_the_higher_of_two_maxima_of_many_samples_is_found():
    """A quarter of the samples is near the largest: the bound is a maximum, too."""
    few = np.random.default_rng(0).exponential(size=30_000)
    few = few[few < 9.9]
    x = np.r_[few, np.linspace(9.9, 10, 40_000 - few.size)]
    law = fit_gpd(x)
    assert law.shape > -1
    assert law.loglik > log_likelihood(x, -1.0, x.min(), np.ptp(x)) + 9000


def test_some_ties_at_the_minimum_are_fine_and_too_many_are_refused():
    x = np.round(draw("exponential", 1000), 1)
    assert np.count_nonzero(x == x.min()) > 10
    assert fit_gpd(x).shape == pytest.approx(0, abs=0.2)
    with pytest.raises(ValueError, match="too many equal to the minimum"):
        fit_gpd(np.r_[np.zeros(200), np.arange(1.0, 11.0)])


@pytest.mark.parametrize("shape", [-1.0, -0.4, 0.0, 1e-9, 0.7])
def test_the_functions_are_scipys(shape):
    law = GPD(shape=shape, loc=1.0, scale=2.0)
    x = np.array([-np.inf, 0.0, 1.0, 1.5, 2.9, 6.0, 50.0, np.inf])
    for name in ("cdf", "logsf"):
        expected = getattr(stats.genpareto, name)(x, shape, loc=1, scale=2)
        np.testing.assert_allclose(getattr(law, name)(x), expected, rtol=1e-6)


def test_evenly_spread_samples_have_the_uniform_law_at_the_bound():
    law = fit_gpd(np.linspace(3, 7, 50))
    assert law == GPD(shape=-1.0, loc=3.0, scale=4.0, loglik=-50 * math.log(4), n=50)


@pytest.mark.parametrize(
    "x",
    [
        np.arange(29.0),
        np.full(40, 2.0),
        np.r_[np.arange(40.0), np.nan],
        np.r_[np.arange(40.0), np.inf, -np.inf],
        np.r_[np.full(40, -1.7e308), 1.7e308],
    ],
)
def test_samples_without_a_fit_are_refused(x):
    rule = "fit_gpd: x must be at least 30 finite samples, not all equal, got"
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=rule):
        fit_gpd(x)


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


def test_the_log_cdf_rises_without_a_step():
    exponents = np.linspace(-45, -7, 500)
    a = np.exp(exponents)
    series = exponents - a / 2 + a**2 / 24  # of log(1 - e^-a)
    np.testing.assert_allclose(log_weibull_cdf(exponents), series, rtol=1e-14)
    ends = log_weibull_cdf(np.array([-math.inf, -800, 10, math.inf]))
    np.testing.assert_array_equal(ends, [-math.inf, -800, 0, 0])
