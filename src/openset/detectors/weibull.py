"""Maximum-likelihood fits of two-parameter Weibull distributions."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _xp
from openset._types import Array

Floats = NDArray[np.float64]

_MAX_STEPS = 200  # of Newton's method


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
