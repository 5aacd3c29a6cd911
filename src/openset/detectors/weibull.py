"""Two-parameter Weibull distribution, and maximum-likelihood tail fits."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import Array

Floats = NDArray[np.float64]

_MAX_STEPS = 200  # of Newton's method


class Law:
    """A distribution by the logarithm of its survival function."""

    def logsf(self, x: Array) -> Array:
        """Return ``log(1 - cdf)``."""
        raise NotImplementedError

    def sf(self, x: Array) -> Array:
        """Return the survival function, ``1 - cdf``."""
        logs = self.logsf(x)
        return _xp.array_namespace(logs).exp(logs)

    def cdf(self, x: Array) -> Array:
        """Return the cumulative distribution function."""
        logs = self.logsf(x)
        return -_xp.array_namespace(logs).expm1(logs)


@dataclass(frozen=True, kw_only=True)
class Weibull(Law):
    r"""A two-parameter Weibull distribution of ``z = sign * (x - loc)``.

    .. math:: F(x) = 1 - e^{-(z / \lambda)^\kappa}, \qquad F = 0 \text{ for } z \le 0

    Parameters
    ----------
    shape, scale
        :math:`\kappa` and :math:`\lambda`. An infinite shape is a step at `scale`.
    loc, sign
        Map `x` to `z`; with a sign of -1 the cdf decreases with `x`.
    loglik
        Log-likelihood of the `n` tail values it was fitted to.

    Examples
    --------
    >>> Weibull(shape=2.0, scale=2.0).sf([0.0, 2.0, 4.0]).round(4)  # e^0, e^-1, e^-4
    array([1.    , 0.3679, 0.0183])
    """

    shape: float
    scale: float
    loc: float = 0.0
    sign: int = 1
    loglik: float = math.nan
    n: int = 0

    def logsf(self, x: Array) -> Array:
        """Return ``log(1 - cdf)``."""
        law = self.shape, self.scale, self.loc, self.sign
        return -exp(log_exponent(_xp.floats(x), *law))


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


def fit_weibull(
    x: Array,
    *,
    tail: int | None = None,
    translate: float | None = None,
    side: str = "high",
) -> Weibull:
    r"""Fit a two-parameter Weibull distribution to one tail of the samples.

    The maximum-likelihood shape solves

    .. math:: \frac{\sum z^\kappa \log z}{\sum z^\kappa} - \frac1\kappa
              = \frac1t \sum \log z, \qquad
              \lambda = \Bigl(\frac1t \sum z^\kappa\Bigr)^{1/\kappa}

    whose left side grows with :math:`\kappa`: there is one root, and Newton's method in
    :math:`\log \kappa` finds it.

    Parameters
    ----------
    x
        Finite samples. Arrays of any library.
    tail
        Number of extreme samples to fit to; all, if None or if there are fewer.
    translate
        None: the samples themselves are z, and must be positive. A number T: libMR's
        convention. The least of the tail is moved to T, ``z = x + T - min(tail)`` for
        the high side; the low side is mirrored first, ``z = -x + T - min(-tail)``.
        libMR has T = 10000, with which the shape is very large and the distribution is
        practically a Gumbel distribution; the vast package uses T = 1. *Scores depend
        on T.*
    side
        ``"high"``: the largest samples are the tail. ``"low"``: the smallest.

    Returns
    -------
    Weibull
        With an infinite shape (a step) if all tail values are equal.

    Examples
    --------
    The low tail of [1, 2, 9] with one value is a step at 1; two values have a shape.

    >>> fit_weibull([1.0, 2.0, 9.0], tail=1, side="low").shape
    inf
    >>> law = fit_weibull([1.0, 2.0, 9.0], tail=2, side="low")
    >>> round(law.shape, 3), round(law.scale, 3), law.n
    (3.462, 1.679, 2)
    """
    _check.one_of("fit_weibull", "side", side, ("high", "low"))
    if tail is not None:
        _check.positive_int("fit_weibull", "tail", tail)
    values = np.asarray(_xp.to_numpy(x), dtype=float)
    _check.vector("fit_weibull", "x", values)
    sign = -1 if side == "low" else 1
    size = values.size if tail is None else min(tail, values.size)
    extreme = sign * np.sort(sign * values)[values.size - size :]
    if translate is None:
        sign, loc = 1, 0.0
    else:
        loc = sign * (float((sign * extreme).min()) - translate)
    rows = fit_weibull_rows((sign * (extreme - loc))[None, :], caller="fit_weibull")
    return Weibull(
        shape=float(rows.shape[0]),
        scale=float(rows.scale[0]),
        loc=float(loc),
        sign=sign,
        loglik=float(rows.loglik[0]),
        n=size,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class WeibullRows:
    """One Weibull distribution per row: arrays of shape (m,)."""

    shape: Floats
    scale: Floats
    loglik: Floats


def fit_weibull_rows(
    z: Any, *, is_member: Any = None, caller: str = "fit_weibull_rows"
) -> WeibullRows:
    """Fit one two-parameter Weibull distribution to each row of positive numbers.

    Parameters
    ----------
    z
        Positive, finite numbers, shape (m, t).
    is_member
        Mask of the entries that count, shape (m, t), for rows of different lengths;
        the others are ignored. Every row needs one.

    Returns
    -------
    WeibullRows
        Rows of equal entries have an infinite shape (a step) and likelihood.

    Examples
    --------
    >>> fit_weibull_rows([[1.0, 2.0], [3.0, 3.0]]).shape.round(3)
    array([3.462,   inf])
    """
    values = np.asarray(z, dtype=float)
    member = np.ones(values.shape, bool) if is_member is None else np.asarray(is_member)
    usable = np.isfinite(values) & (values > 0)
    if values.ndim != 2 or not member.any(axis=1).all() or not usable[member].all():
        rule = "positive and finite (translate=1.0 moves a tail), some in every row"
        _check.fail(caller, "samples", rule, f"others, of shape {values.shape}")
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
        scale = np.where(np.isinf(shape), top, top * np.exp(lifted))
        # sum (z / scale)^shape is the count, at the solution
        each = np.log(shape / scale) + (shape - 1) * (mean_log - lifted) - 1
    loglik = np.where(np.isinf(shape), np.inf, count * each)
    return WeibullRows(shape=shape, scale=scale, loglik=loglik)


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
