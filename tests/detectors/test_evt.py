"""Generalised Pareto fits: never below SciPy, invariant, clear about bad input."""

import math
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from openset.detectors.evt import GPD, fit_gpd

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
    """Highest likelihood over 20 000 values of theta and the bound, by brute force."""
    y = x - x.min()
    u = np.concatenate([np.linspace(-40, 5, 15_000), np.linspace(5, 40, 5_000)])
    theta = np.expm1(u[np.abs(u) > 1e-6]) / y.max()
    k = np.array([np.log1p(np.clip(t * y, -1 + 1e-16, None)).mean() for t in theta])
    inner = (k > -1) & (k < y.size - 1)
    heights = -np.log(k[inner] / theta[inner]) - k[inner] - 1
    return y.size * max(heights.max(), -np.log(y.max()))


@pytest.mark.parametrize("n", [30, 300, 3000])
@pytest.mark.parametrize("kind", SAMPLERS)
def test_the_likelihood_is_never_below_scipys(kind, n):
    for seed in range(4):
        x = draw(kind, n, seed)
        with np.errstate(all="ignore"):  # it visits points outside the support
            shape, loc, scale = stats.genpareto.fit(x)
        if shape < -1:  # there is no maximum to compare with; at -1 there is one
            shape, scale = -1.0, x.max() - loc
        assert fit_gpd(x).loglik >= log_likelihood(x, shape, loc, scale)


@pytest.mark.parametrize("kind", SAMPLERS)
def test_no_hill_is_missed(kind):
    for seed in range(3):
        x = draw(kind, 40, seed)
        assert fit_gpd(x).loglik >= best_on_dense_grid(x) - 1e-9


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
