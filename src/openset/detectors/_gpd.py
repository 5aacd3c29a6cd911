"""Generalised Pareto distribution, and its maximum-likelihood fit."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # its submodules are imported on first use
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import Array

Floats = NDArray[np.float64]

MIN_SAMPLES = 30
"""Fewest samples for a three-parameter tail fit."""

# Below, the distribution equals an exponential one to full precision for z < 1e8.
_NO_SHAPE = 1e-8

# Up to this many samples the search starts on all of them, above on a subsample.
_SUBSAMPLE = 1 << 15
_N_EXTREME = 20  # order statistics of the subsample beyond which all samples are kept

# Chunks of 128 kB stay in the second-level cache through all steps of a pass.
_CHUNK = 1 << 14
_FOLDS = 4

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
_NEAR_ZERO = 1e-4  # |u| below which k / theta is taken from its series


@dataclass(frozen=True, kw_only=True)
class GPD:
    r"""A generalised Pareto distribution fitted by :func:`fit_gpd`.

    .. math:: 1 - F(x) = (1 + \xi z)^{-1/\xi}, \qquad z = (x - \mu) / \sigma \ge 0

    with the limit :math:`e^{-z}` for :math:`\xi = 0` and the end point
    :math:`\mu - \sigma / \xi` for :math:`\xi < 0`. The methods take arrays of any
    array-API library, lists or numbers, and return arrays.

    Parameters
    ----------
    shape, loc, scale
        :math:`\xi, \mu, \sigma`: SciPy's ``c, loc, scale``, in this order.
    loglik
        Log-likelihood of all `n` samples it was fitted to.
    at_bound
        The fit is at the bound ``shape = -1``, beyond which the likelihood has no
        maximum: the uniform distribution on the range of the samples.

    Examples
    --------
    >>> law = GPD(shape=-0.5, loc=1.0, scale=2.0)
    >>> law.endpoint
    5.0
    >>> law.cdf([0.0, 1.0, 3.0, 5.0])  # at 3: 1 - (1 - 0.5)^2
    array([0.  , 0.  , 0.75, 1.  ])
    """

    shape: float
    loc: float
    scale: float
    loglik: float = math.nan
    n: int = 0
    at_bound: bool = False

    @property
    def endpoint(self) -> float:
        """Right end of the support."""
        return self.loc - self.scale / self.shape if self.shape < 0 else math.inf

    def logsf(self, x: Array) -> Array:
        """Return ``log(1 - cdf)``, which is precise where the cdf rounds to 1."""
        values = _xp.as_float(x) if _xp.is_array_api_obj(x) else np.asarray(x, float)
        xp = _xp.array_namespace(values)
        above = values - self.loc
        # The product of inf and a Python 0.0 would be NaN; there is none here.
        z = xp.where(above > 0, above, xp.zeros_like(above)) / self.scale
        if abs(self.shape) < _NO_SHAPE:
            return -z
        inner = self.shape * z
        inside = inner > -1
        logs = xp.log1p(xp.where(inside, inner, xp.zeros_like(inner)))
        return xp.where(inside, -logs / self.shape, xp.full_like(z, -math.inf))

    def sf(self, x: Array) -> Array:
        """Return the survival function, ``1 - cdf``."""
        logs = self.logsf(x)
        return _xp.array_namespace(logs).exp(logs)

    def cdf(self, x: Array) -> Array:
        """Return the cumulative distribution function."""
        logs = self.logsf(x)
        return -_xp.array_namespace(logs).expm1(logs)

    def ppf(self, q: Any) -> Floats:
        """Return the quantiles of the probabilities `q` (NumPy)."""
        p = np.asarray(q, dtype=float)
        if np.any(~((p >= 0) & (p <= 1))):
            msg = _check.must(
                "probabilities in [0, 1]", caller="GPD.ppf", name="q", got=q
            )
            raise ValueError(msg)
        with np.errstate(divide="ignore"):
            hazard = -np.log1p(-p)
        if abs(self.shape) < _NO_SHAPE:
            return np.asarray(self.loc + self.scale * hazard)
        # expm1(-inf) / shape is the end point, expm1(inf) is no end point.
        return np.asarray(
            self.loc + self.scale * (np.expm1(self.shape * hazard) / self.shape)
        )


def fit_gpd(x: Array, *, method: str = "profile") -> GPD:
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
    it grows without bound at the largest sample: shapes are limited to at least -1, and
    `at_bound` is set if the fit is at this bound. For :math:`\sigma \to 0` it grows
    through the samples that *equal* the minimum, once :math:`\xi > (n - n_{\min}) /
    n_{\min}`: the fit is the local maximum below this shape; samples without one (very
    many ties at the minimum) raise an error.

    Parameters
    ----------
    x
        At least 30 finite samples, not all equal. Arrays of any library.
    method
        ``"profile"``, or ``"scipy"`` for ``scipy.stats.genpareto.fit`` as it is (free
        location; a slow simplex search that may stop before the maximum or beyond
        ``shape = -1``), for replication.

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
    _check.one_of("fit_gpd", "method", method, ("profile", "scipy"))
    values = _samples(x)
    if method == "scipy":
        return _scipy(values)
    profile = _Profile([(values, 1.0)], float(values.min()), float(values.max()))
    n = values.size
    u, best = _maximise(profile)
    offset = math.log(profile.span)
    if best <= 0:  # uniform on the range: shape -1, log-likelihood 0 in units of it
        return GPD(
            shape=-1.0,
            loc=profile.low,
            scale=profile.span,
            loglik=-n * offset,
            n=n,
            at_bound=True,
        )
    shape, scale = profile.parameters(u)
    return GPD(
        shape=shape,
        loc=profile.low,
        scale=scale * profile.span,
        loglik=n * (best - offset),
        n=n,
    )


def _samples(x: Array) -> Floats:
    values = np.ascontiguousarray(_xp.to_numpy(x), dtype=np.float64)
    if values.ndim != 1:
        got = f"shape {values.shape}"
        raise ValueError(
            _check.must("one-dimensional", caller="fit_gpd", name="x", got=got)
        )
    if values.size < MIN_SAMPLES:
        got = f"{values.size} samples"
        msg = _check.must(
            f"at least {MIN_SAMPLES} samples", caller="fit_gpd", name="x", got=got
        )
        raise ValueError(msg)
    low, high = float(values.min()), float(values.max())
    if not math.isfinite(high - low):  # NaN and inf both survive min and max
        bad = int(np.count_nonzero(~np.isfinite(values)))
        got = f"{bad} samples that are NaN or inf" if bad else f"[{low}, {high}]"
        raise ValueError(
            _check.must("finite, range too", caller="fit_gpd", name="x", got=got)
        )
    if low == high:
        got = f"{values.size} samples that all equal {low}"
        raise ValueError(
            _check.must("of different values", caller="fit_gpd", name="x", got=got)
        )
    return values


def _scipy(values: Floats) -> GPD:
    with warnings.catch_warnings():
        # The simplex search visits points outside the support; ignore its warnings.
        warnings.simplefilter("ignore", RuntimeWarning)
        shape, loc, scale = map(float, scipy.stats.genpareto.fit(values))
        logpdf = scipy.stats.genpareto.logpdf(values, shape, loc=loc, scale=scale)
    loglik = float(logpdf.sum())
    return GPD(shape=shape, loc=loc, scale=scale, loglik=loglik, n=values.size)


class _Profile:
    """Mean profile log-likelihood of weighted samples, in units of their range.

    `parts` are arrays of samples, each with the weight of its samples: a subsample with
    larger weights represents the whole set.
    """

    def __init__(
        self, parts: Sequence[tuple[Floats, float]], low: float, high: float
    ) -> None:
        self.parts = parts
        self.low, self.high, self.span = low, high, high - low
        self.n = sum(part.size * weight for part, weight in parts)
        self._buffer = np.empty(_CHUNK)
        self._seen: dict[float, tuple[float, float]] = {}

    def __call__(self, u: float) -> float:
        """Largest log-likelihood per sample for shapes >= -1, given `u`."""
        shape, scale = self.parameters(u)
        return -math.log(scale) - (shape + 1)  # at the bound: uniform, shape + 1 = 0

    def parameters(self, u: float) -> tuple[float, float]:
        """Best shape and scale (in units of the range), given `u`."""
        if u not in self._seen:  # one pass over the samples for each u, not more
            self._seen[u] = self._best(u)
        return self._seen[u]

    def _best(self, u: float) -> tuple[float, float]:
        theta = math.expm1(u)
        if abs(u) < _NEAR_ZERO:
            # k / theta by its series near 0 / 0; the next term is below 1e-17.
            m1, m2, m3, m4 = self._moments
            scale = m1 - theta * (m2 / 2 - theta * (m3 / 3 - theta * m4 / 4))
            return theta * scale, scale
        shape = self._mean_log(u)
        if shape <= -1:
            return -1.0, -1 / theta
        return shape, shape / theta

    def _mean_log(self, u: float) -> float:
        """Mean of ``log(1 + theta * y)``, one pass over the samples.

        Logarithms dominate the cost: sixteen terms at a time are multiplied first, if
        the product cannot overflow or underflow. Each term is a sum of positive
        numbers, so no precision is lost.
        """
        folds = min(_FOLDS, int(math.log2(700 / max(abs(u), 1))))
        theta, floor = math.expm1(u), math.exp(u)
        total = 0.0
        for part, weight in self.parts:
            subtotal = 0.0
            for start in range(0, part.size, _CHUNK):
                chunk = part[start : start + _CHUNK]
                terms = self._buffer[: chunk.size]
                if u > 0:
                    np.subtract(chunk, self.low, out=terms)
                    terms *= 1 / self.span
                    terms *= theta
                    terms += 1
                else:
                    np.subtract(self.high, chunk, out=terms)
                    terms *= -theta / self.span
                    terms += floor
                for _ in range(folds):
                    half = terms.size // 2
                    terms[:half] *= terms[terms.size - half :]
                    terms = terms[: terms.size - half]
                subtotal += float(np.log(terms, out=terms).sum())
            total += weight * subtotal
        return total / self.n

    @cached_property
    def _moments(self) -> tuple[float, ...]:
        """Mean of the first four powers of the samples, in units of the range."""
        sums = np.zeros(4)
        for part, weight in self.parts:
            for start in range(0, part.size, _CHUNK):
                y = (part[start : start + _CHUNK] - self.low) / self.span
                sums += [weight * float(np.sum(y**power)) for power in (1, 2, 3, 4)]
        return tuple(sums / self.n)

    @property
    def shape_limit(self) -> float:
        """Shape from which the likelihood grows through the ties at the minimum."""
        ties = sum(
            weight * np.count_nonzero(part == self.low) for part, weight in self.parts
        )
        return float((self.n - ties) / ties) if ties else math.inf

    def thinned(self) -> "_Profile":
        """Return a profile of about twenty thousand samples with all extreme ones.

        Near the ends of the support single samples matter, so all samples beyond the
        20th smallest and largest of the subsample are kept individually.
        """
        [(values, _)] = self.parts
        if values.size <= _SUBSAMPLE:
            return self
        step = -(-values.size // (_SUBSAMPLE * 2 // 3))
        some = np.sort(values[::step])
        below, above = some[_N_EXTREME], some[-1 - _N_EXTREME]
        extreme = values[(values < below) | (values > above)]
        middle = some[(some >= below) & (some <= above)]
        weight = (values.size - extreme.size) / middle.size
        return _Profile([(extreme, 1.0), (middle, weight)], self.low, self.high)


def _maximise(profile: _Profile) -> tuple[float, float]:
    """Return the maximum of the profile and its value (0: at the bound)."""
    rough = profile.thinned()
    grid = _GRID.tolist()
    heights = np.array([rough(u) for u in grid])
    shapes = np.array([rough.parameters(u)[0] for u in grid])
    valid = np.flatnonzero(shapes < profile.shape_limit)
    heights = heights[: valid.max() + 1]
    inner = heights[1:-1]
    is_hill = (inner >= heights[:-2]) & (inner >= heights[2:])
    hills = np.flatnonzero(is_hill) + 1
    if hills.size == 0:  # it never falls at its left end, so it rises all the way
        msg = (
            "fit_gpd: x must have a likelihood with a maximum, got too many "
            f"samples equal to the minimum {profile.low}"
        )
        raise ValueError(msg)
    tops = sorted((_climb(rough, grid[hill], 0.25) for hill in hills), reverse=True)
    if rough is not profile:
        # Two maxima of nearly equal height may swap on the full data.
        tops = sorted((_climb(profile, u, 0.02) for _, u in tops[:2]), reverse=True)
    height, u = tops[0]
    return (u, height) if height > 0 else (-math.inf, 0.0)


def _climb(
    profile: Callable[[float], float], start: float, step: float
) -> tuple[float, float]:
    """Return value and location of the local maximum near `start`."""
    left, middle, right = start - step, start, start + step
    while step < 100:
        if profile(left) >= profile(middle):
            left, middle, right = left - 2 * step, left, middle
        elif profile(right) >= profile(middle):
            left, middle, right = middle, right, right + 2 * step
        else:
            break
        step *= 2
    else:  # constant to full precision: any point is the maximum
        return profile(middle), middle
    # Brent's tolerance is relative; shifted to one below the start it is absolute. A
    # maximum can be located to about sqrt(machine precision).
    base = middle - 1
    found = scipy.optimize.minimize_scalar(
        lambda t: -profile(base + float(t)),
        bracket=(left - base, 1.0, right - base),
        method="brent",
        tol=3e-8,
    )
    return -float(found.fun), base + float(found.x)
