"""Tail distributions, fitted by maximum likelihood: generalised Pareto, Weibull."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its submodules are imported on first use
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import Array

__all__ = ["GPD", "MIN_SAMPLES", "fit_gpd"]  # the rest is for detectors

Floats = NDArray[np.float64]

MIN_SAMPLES = 30
"""Fewest samples for a three-parameter tail fit."""

# Below, the distribution equals an exponential one to full precision for z < 1e8.
_NO_SHAPE = 1e-8
# The search starts on so many samples at most, at equal steps in their order.
_MOST = 1 << 15
# Chunks of 128 kB stay in the second-level cache through all steps of a pass.
_CHUNK = 1 << 14
# u = log(1 + theta * range). Every term of the profile changes over a distance of one
# in u, so steps of a half miss no hill. Below -40 the profile only falls or rises for
# good (no two doubles are closer than e^-37 of their range); above 300, scale / range
# is below 1e-130.
_GRID: Floats = np.concatenate(
    [
        np.arange(-40.0, -2.0, 0.5),
        np.linspace(-2.0, 2.0, 33),
        np.arange(2.5, 30.0, 0.5),
        np.geomspace(30.0, 300.0, 24),
    ]
)

_MAX_STEPS = 200  # of Newton's method, for Weibull shapes


@dataclass(frozen=True, kw_only=True)
class GPD:
    r"""A generalised Pareto distribution fitted by :func:`fit_gpd`.

    .. math:: 1 - F(x) = (1 + \xi z)^{-1/\xi}, \qquad z = (x - \mu) / \sigma \ge 0

    with the limit :math:`e^{-z}` for :math:`\xi = 0` and the end point
    :math:`\mu - \sigma / \xi` for :math:`\xi < 0`. The methods take arrays of any
    array-API library, lists or numbers, and return arrays; for others there is
    ``scipy.stats.genpareto(shape, loc, scale)``.

    Parameters
    ----------
    shape, loc, scale
        :math:`\xi, \mu, \sigma`: SciPy's ``c, loc, scale``, in this order.
    loglik
        Log-likelihood of all `n` samples it was fitted to.

    Examples
    --------
    >>> law = GPD(shape=-0.5, loc=1.0, scale=2.0)
    >>> law.cdf([0.0, 1.0, 3.0, 5.0])  # at 3: 1 - (1 - 0.5)^2
    array([0.  , 0.  , 0.75, 1.  ])
    """

    shape: float
    loc: float
    scale: float
    loglik: float = math.nan
    n: int = 0

    def logsf(self, x: Array) -> Array:
        """Return ``log(1 - cdf)``, which is precise where the cdf rounds to 1."""
        x = _xp.as_float(x)
        xp = _xp.array_namespace(x)
        # The product of inf and a Python 0.0 would be NaN; there is none here.
        z = xp.where(x > self.loc, x - self.loc, xp.zeros_like(x)) / self.scale
        if abs(self.shape) < _NO_SHAPE:
            return -z
        inner = self.shape * z
        logs = xp.log1p(xp.where(inner > -1, inner, xp.zeros_like(inner)))
        return xp.where(inner > -1, -logs / self.shape, -math.inf)

    def cdf(self, x: Array) -> Array:
        """Return the cumulative distribution function."""
        logs = self.logsf(x)
        return -_xp.array_namespace(logs).expm1(logs)


def fit_gpd(x: Array) -> GPD:
    r"""Fit a generalised Pareto distribution by maximum likelihood.

    For shapes :math:`\xi \ge -1` the density falls on its support, so the likelihood
    grows with the location up to the smallest sample: the best location *is* the sample
    minimum. With :math:`y = x - \min x` and :math:`\theta = \xi/\sigma`, the best shape
    for a given :math:`\theta` is :math:`k(\theta)`, which leaves one dimension
    (Grimshaw 1993):

    .. math:: \frac{\ell(\theta)}{n} = -\log\frac{k(\theta)}{\theta} - k(\theta) - 1,
              \qquad k(\theta) = \frac1n \sum_i \log(1 + \theta y_i),
              \qquad \xi = k, \quad \sigma = k / \theta

    It is searched in :math:`u = \log(1 + \theta \max y)`, because for bounded samples
    the best :math:`\theta` is very close to :math:`-1/\max y`: a grid finds every local
    maximum (there can be several), Brent's method refines it.

    The likelihood is unbounded in two regions, which are excluded. For :math:`\xi < -1`
    it grows without bound at the largest sample: shapes are limited to at least -1. For
    :math:`\sigma \to 0` it grows through the samples that *equal* the minimum, once
    :math:`\xi > (n - n_{\min}) / n_{\min}`: the fit is the local maximum below this
    shape; samples without one (very many ties at the minimum) raise an error.

    Parameters
    ----------
    x
        At least 30 finite samples, not all equal. Arrays of any library.

    References
    ----------
    Grimshaw, "Computing maximum likelihood estimates for the generalized Pareto
    distribution", Technometrics 35(2), 1993.

    Examples
    --------
    >>> import numpy as np
    >>> quantiles = -np.log(1 - (np.arange(1000) + 0.5) / 1000)  # an exponential law
    >>> law = fit_gpd(5 + 2 * quantiles)
    >>> round(law.shape, 2), round(law.loc, 2), round(law.scale, 2)
    (-0.0, 5.0, 2.0)
    """
    values = np.asarray(_xp.to_numpy(x), dtype=float)
    _check.vector("fit_gpd", "x", values)
    n, low, high = values.size, float(values.min()), float(values.max())
    span = high - low
    if n < MIN_SAMPLES or not 0 < span < math.inf:
        rule = f"at least {MIN_SAMPLES} finite samples, not all equal"
        got = f"{n} samples from {low:g} to {high:g}"
        _check.fail("fit_gpd", "x", rule, got)
    values = np.sort(values)
    height, u = _highest(values)
    # Uniform on the range: shape -1, log-likelihood 0 in units of it.
    shape, scale = _law(u, values) if height > 0 else (-1.0, 1.0)
    loglik = n * (max(height, 0.0) - math.log(span))
    return GPD(shape=shape, loc=low, scale=scale * span, loglik=loglik, n=n)


def _highest(x: Floats) -> tuple[float, float]:
    """Return the maximum of the profile and its u, for samples in order."""
    rough = x[np.linspace(0, x.size - 1, min(x.size, _MOST)).astype(int)]
    # From this shape on, the likelihood grows through samples equal to the minimum.
    ties = int(np.searchsorted(x, x[0], side="right"))
    kept = [u for u in _GRID if _law(u, rough)[0] * ties < x.size - ties]
    heights = np.array([_height(u, rough) for u in kept])
    is_hill = (heights[1:-1] >= heights[:-2]) & (heights[1:-1] >= heights[2:])
    hills = np.flatnonzero(is_hill) + 1
    if not hills.size:  # it never falls at its left end, so it rises all the way
        rule = "samples whose likelihood has a maximum"
        _check.fail("fit_gpd", "x", rule, f"too many equal to the minimum {x[0]}")
    tops = sorted((_climb(rough, kept[i], 0.25) for i in hills), reverse=True)
    # Two maxima of nearly equal height may swap on the full data.
    return max(_climb(x, u, 0.02) for _, u in tops[:2]) if x.size > _MOST else tops[0]


def _climb(x: Floats, start: float, step: float) -> tuple[float, float]:
    """Return value and location of the local maximum of the profile near `start`."""
    # Brent's tolerance is relative; shifted to one below the start it is absolute. A
    # maximum can be located to about sqrt(machine precision).
    base = start - 1
    found = scipy.optimize.minimize_scalar(
        lambda t: -_height(base + float(t), x),
        bracket=(1 - step, 1 + step),
        tol=3e-8,
    )
    return -float(found.fun), base + float(found.x)


def _height(u: float, x: Floats) -> float:
    """Return the largest mean log-likelihood for shapes >= -1, given u."""
    shape, scale = _law(u, x)
    return -math.log(scale) - (shape + 1)  # at the bound: uniform, shape + 1 = 0


def _law(u: float, x: Floats) -> tuple[float, float]:
    """Return the best shape >= -1, and the scale in units of the range, given u."""
    theta, shape = math.expm1(u), _mean_log(u, x)
    if theta == 0:
        return 0.0, float((x - x[0]).mean()) / float(x[-1] - x[0])
    return (shape, shape / theta) if shape > -1 else (-1.0, -1 / theta)


def _mean_log(u: float, x: Floats) -> float:
    """Return the mean of ``log(1 + theta y)``, in one pass over the samples.

    Logarithms dominate the cost: sixteen terms at a time are multiplied first, if the
    product cannot overflow or underflow. Each term is a sum of positive numbers, so no
    precision is lost; near 1 its logarithm is that of 1 + z.
    """
    theta, low, high = math.expm1(u), x[0], x[-1]
    factor, total = theta / (high - low), 0.0
    folds = min(4, int(math.log2(700 / max(abs(u), 1))))
    for run in _xp.runs(x.size, _CHUNK):
        if abs(u) < 0.01:
            total += float(np.log1p((x[run] - low) * factor).sum())
            continue
        terms = (x[run] - low) * factor if u > 0 else (x[run] - high) * factor
        terms += 1 if u > 0 else math.exp(u)
        for _ in range(folds):
            half = terms.size // 2
            terms[:half] *= terms[terms.size - half :]
            terms = terms[: terms.size - half]
        total += float(np.log(terms, out=terms).sum())
    return total / x.size


def log_exponent(
    x: Array, shape: Array, scale: Array, loc: Array = 0.0, sign: int = 1
) -> Array:
    r"""Return :math:`\kappa \log(z / \lambda)`, a monotone function of the cdf.

    The cdf is ``-expm1(-exp(e))``, so `e` orders as the cdf does but never rounds to
    0 or 1. The parameters are numbers or arrays that broadcast with `x`.
    """
    xp = _xp.array_namespace(x)
    # log(z / scale) = log1p((x - centre) / scale): under libMR's translation both z and
    # scale are slightly above 10 000, and only their difference matters.
    ratio = sign * (x - (loc + sign * scale)) / scale
    shapes = xp.zeros_like(ratio) + shape
    steep = xp.where(xp.isinf(shapes), 1e30, shapes)  # a step
    found = steep * xp.log1p(xp.where(ratio > -1, ratio, xp.zeros_like(ratio)))
    found = xp.where(xp.isinf(shapes) & (ratio >= 0), math.inf, found)
    return xp.where(ratio > -1, found, -math.inf)


def weibull_cdf(exponent: Array) -> Array:
    """Return the cdf from what :func:`log_exponent` gives."""
    return -_xp.array_namespace(exponent).expm1(-exp(exponent))


def log_weibull_cdf(exponent: Array) -> Array:
    """Return the logarithm of the cdf, precise where it is small."""
    xp = _xp.array_namespace(exponent)
    low = exponent < -37  # log(1 - e^-a) equals log(a), to full precision
    inner = xp.where(low, xp.zeros_like(exponent), exponent)
    capped = xp.where(inner > 7, xp.full_like(inner, 7.0), inner)  # e^-e^7 is 0
    return xp.where(low, exponent, xp.log(weibull_cdf(capped)))


def exp(values: Array) -> Array:
    """Exponential that overflows to inf without a warning."""
    with np.errstate(over="ignore"):
        return _xp.array_namespace(values).exp(values)


def fit_weibull_rows(z: Any, *, is_member: Any = None) -> tuple[Floats, Floats]:
    r"""Fit one two-parameter Weibull distribution to each row of positive numbers.

    .. math:: F(z) = 1 - e^{-(z / \lambda)^\kappa}, \qquad
              \frac{\sum z^\kappa \log z}{\sum z^\kappa} - \frac1\kappa
              = \frac1t \sum \log z, \qquad
              \lambda = \Bigl(\frac1t \sum z^\kappa\Bigr)^{1/\kappa}

    The left side of the equation of the shape grows with :math:`\kappa`: there is one
    root, and Newton's method in :math:`\log \kappa` finds it. libMR moves the least of
    a tail to 10000 first, which makes shapes very large: scores depend on that.

    Parameters
    ----------
    z
        Positive, finite numbers, shape (m, t).
    is_member
        Mask of the entries that count, shape (m, t), for rows of different lengths;
        the others are ignored. Every row needs one.

    Returns
    -------
    tuple
        Shapes and scales, each of shape (m,). Rows of equal entries have an infinite
        shape: a step.

    Examples
    --------
    >>> shape, scale = fit_weibull_rows([[1.0, 2.0], [3.0, 3.0]])
    >>> shape.round(3)
    array([3.462,   inf])
    """
    values = np.asarray(z, dtype=float)
    member = np.ones(values.shape, bool) if is_member is None else is_member
    count = np.count_nonzero(member, axis=1)
    top = np.max(values, axis=1, where=member, initial=0.0)
    # Logarithms relative to the largest value. Above half of it the difference is
    # exact, and log1p is precise for values slightly above 10 000.
    filled, largest = np.where(member, values, top[:, None]), top[:, None]
    near = np.maximum(filled - largest, -largest / 2) / largest
    logs = np.where(
        2 * filled > largest, np.log1p(near), np.log(filled) - np.log(largest)
    )
    mean_log = logs.sum(axis=1) / count
    shape = np.full(count.size, np.inf)
    spread = np.flatnonzero(mean_log < 0)
    if spread.size:
        shape[spread] = _shapes(logs[spread], member[spread], mean_log[spread])
    with np.errstate(invalid="ignore"):  # inf * 0 in the rows that are steps
        powers = np.where(member, np.exp(shape[:, None] * logs), 0.0)
        lifted = np.log(powers.sum(axis=1) / count) / shape  # log(scale / top)
    return shape, np.where(np.isinf(shape), top, top * np.exp(lifted))


def _shapes(logs: Floats, member: NDArray[np.bool_], mean_log: Floats) -> Floats:
    """Solve the score equation of every row by Newton's method in log(shape)."""
    # At shape = 1 / |mean log| the score is not yet positive: a lower end to search in.
    low = -np.log(-mean_log)
    high = np.full_like(low, np.inf)
    here = low.copy()
    active = np.arange(low.size)
    for _ in range(_MAX_STEPS):
        log, shape = logs[active], np.exp(here[active])
        weights = np.where(member[active], np.exp(shape[:, None] * log), 0.0)
        total = weights.sum(axis=1)
        weights *= log
        first = weights.sum(axis=1) / total
        weights *= log
        second = weights.sum(axis=1) / total
        score = first - 1 / shape - mean_log[active]
        slope = shape * (second - first**2) + 1 / shape  # with respect to log(shape)
        below = score < 0
        low[active[below]] = here[active[below]]
        high[active[~below]] = here[active[~below]]
        step = np.clip(-score / slope, -2.0, 2.0)
        new = here[active] + step
        # A step out of the interval that contains the root is replaced by bisection.
        lost = (new < low[active]) | (new > high[active])
        new = np.where(lost, (low[active] + np.minimum(high[active], 1e3)) / 2, new)
        moved = np.abs(new - here[active])
        here[active] = new
        active = active[moved > 1e-14 * np.maximum(np.abs(new), 1)]
        if active.size == 0:
            break
    return np.exp(here)
