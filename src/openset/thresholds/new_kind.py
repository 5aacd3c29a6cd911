"""The open-set accuracy to expect on a kind of unknowns that was not calibrated on."""

from math import hypot, sqrt

import numpy as np
import scipy  # whose parts are imported when first used
from numpy.typing import NDArray

from openset.metrics import Interval
from openset.thresholds._threshold import Rate

LEVEL = 0.9
_SPREAD, _FREEDOM = 0.6, 3.0
"""Standard deviation of the rejection rate between kinds (on the probit scale) before
any is seen, and how many kinds it counts for: benchmarks/missing_kinds.py."""


def new_kind(
    ccr: float,
    n_known: int,
    n_unknown: NDArray[np.int64],
    urr: NDArray[np.float64],
    alpha: float,
    *,
    level: float = LEVEL,
) -> Rate:
    r"""Predict the open-set accuracy against a kind of unknowns not seen before.

    The share of a kind that is rejected is taken as :math:`\Phi(z)` with z normal over
    kinds. With k kinds of mean :math:`\bar z`, the interval is

    .. math:: \bar z \pm t_{\nu}\, s \sqrt{1 + 1/k}, \qquad
              s^2 = \frac{3 \cdot 0.6^2 + \sum_i (z_i - \bar z)^2}{\nu}, \quad
              \nu = 3 + k - 1

    a prediction interval of a random-effects model whose spread is known a priori as
    well as from three kinds: with few kinds it is wide. The noise of the known side is
    added.

    Parameters
    ----------
    ccr, n_known
        Correct classification rate at the threshold, and known samples it is of.
    n_unknown, urr
        Samples of each kind, and the share of them that the threshold rejects.
    alpha
        Weight of the known samples.
    level
        Confidence that a new kind lies inside.

    Examples
    --------
    >>> for kinds in ([0.9], [0.9, 0.9, 0.9], [0.5, 0.9, 0.99]):
    ...     found = new_kind(1.0, 90, np.full(len(kinds), 100), np.array(kinds), 0.5)
    ...     low, high = found.interval.low, found.interval.high
    ...     print(f"{found.value:.2f} {low:.2f} {high:.2f}")
    0.95 0.62 1.00
    0.95 0.78 1.00
    0.94 0.61 1.00
    """
    z = scipy.special.ndtri((urr * n_unknown + 0.5) / (n_unknown + 1))
    k = z.size
    freedom = _FREEDOM + k - 1
    variance = (_FREEDOM * _SPREAD**2 + ((z - z.mean()) ** 2).sum()) / freedom
    half = scipy.special.stdtrit(freedom, (1 + level) / 2) * sqrt(
        variance * (1 + 1 / k)
    )
    low, value, high = (
        float(alpha * ccr + (1 - alpha) * scipy.special.ndtr(z.mean() + step))
        for step in (-half, 0.0, half)
    )
    # The known samples are drawn twice: to calibrate, and in operation.
    noise = sqrt(1.5 * max(ccr * (1 - ccr), 0.01) / n_known)
    noise *= alpha * float(scipy.special.ndtri((1 + level) / 2))
    interval = Interval(
        max(value - hypot(value - low, noise), 0.0),
        min(value + hypot(high - value, noise), 1.0),
        level,
        f"random effects of {k} kind{'s' if k > 1 else ''}",
    )
    return Rate("open-set accuracy on a new kind", value, interval)
