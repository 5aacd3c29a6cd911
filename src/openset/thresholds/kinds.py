"""Kinds of unknowns, which are their groups: rates against each, and against a new one.

A group of unknowns is what the user says it is. Synthetic ones are kinds only if there
are no others.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import hypot, sqrt
from typing import Any

import numpy as np
import scipy  # whose parts are imported when first used
from numpy.typing import ArrayLike, NDArray

from openset.metrics import Interval, Rates
from openset.metrics.counts import ranking_counts
from openset.metrics.sums import Floats
from openset.scores import Scores
from openset.thresholds.threshold import Rate

SYNTHETIC_PREFIX = "synthetic:"
"""How the group names of synthetic unknowns begin."""

_LEVEL = 0.9
_SPREAD, _FREEDOM = 0.6, 3.0
"""Standard deviation of the rejection rate between kinds (on the probit scale) before
any is seen, and how many kinds it counts for: tuned on networks of small images."""


@dataclass(frozen=True, eq=False)
class ByGroup:
    """Rates at each threshold, strictest first; one row per group of unknowns."""

    names: tuple[str, ...]
    n: NDArray[np.int64]
    values: Floats  # (m,)
    tpr: Floats  # (m,)
    ccr: Floats  # (m,)
    urr: Floats  # (g, m)
    alpha: float

    @property
    def osa(self) -> Floats:
        """Open-set accuracy, shape (g, m)."""
        return self.alpha * self.ccr + (1 - self.alpha) * self.urr

    @property
    def regret(self) -> Floats:
        """What each group loses against its own best threshold, shape (g, m)."""
        return self.osa.max(axis=1, keepdims=True) - self.osa

    @property
    def auroc(self) -> Floats:
        """AUROC of the known samples against each group, shape (g,)."""
        urr = np.concatenate([np.ones((len(self.names), 1)), self.urr], axis=1)
        return (urr[:, 1:] + urr[:, :-1]) / 2 @ np.diff(self.tpr, prepend=0.0)

    def rates(self, rates: Rates, threshold: float) -> list[Rates]:
        """Return the rates of a threshold against each group; `rates` are of all."""
        level = int(np.searchsorted(-self.values, -threshold, side="right")) - 1
        rejected = np.round(self.urr[:, level] * self.n).astype(int).tolist()
        return [
            replace(rates, n_unknown=n, n_rejected_unknown=r)
            for n, r in zip(self.n.tolist(), rejected, strict=True)
        ]

    def rows(
        self, rates: Rates, threshold: float
    ) -> Iterator[tuple[dict[str, Any], Rates, float]]:
        """Yield a record of each group, its rates, and its best open-set accuracy."""
        of_groups, best = self.rates(rates, threshold), self.osa.max(axis=1).tolist()
        for name, one, most in zip(self.names, of_groups, best, strict=True):
            yield {"group": name, "n": one.n_unknown, "urr": one.urr}, one, most

    @property
    def kinds(self) -> list[int]:
        """Indices of the groups that are kinds: not synthetic ones, if others."""
        real = [i for i, name in enumerate(self.names) if not is_synthetic(name)]
        return real or list(range(len(self.names)))


def is_synthetic(name: str) -> bool:
    """Whether a group is of synthetic unknowns, by its name."""
    return name.startswith(SYNTHETIC_PREFIX)


def by_group(scores: Scores, alpha: float) -> ByGroup:
    """Count the unknowns of each group at every distinct score."""
    counts = ranking_counts(scores)
    # With a score of +inf no threshold rejects all.
    first = 1 if counts.values[1] == np.inf else 0
    values = counts.values[first:]
    groups = scores.unknown_groups
    unknown = scores.known[scores.is_unknown]
    urr = np.empty((len(groups.names), values.size))
    if len(groups.names) == 1:  # all unknowns, which are counted already
        urr[0] = (counts.n_unknown - counts.unknown[first:]) / counts.n_unknown
    for i in range(len(groups.names) * (len(groups.names) > 1)):
        ordered = np.sort(unknown[groups.index == i])
        urr[i] = np.searchsorted(ordered, values, side="left") / ordered.size
    return ByGroup(
        names=groups.names,
        n=np.bincount(groups.index),
        values=values,
        tpr=counts.known[first:] / counts.n_known,
        ccr=counts.correct[first:] / counts.n_known,
        urr=urr,
        alpha=alpha,
    )


def new_kind(
    ccr: float, n_known: int, n_unknown: ArrayLike, urr: ArrayLike, alpha: float
) -> Rate:
    r"""Predict the open-set accuracy against a kind of unknowns not seen before.

    The share of a kind that is rejected is taken as :math:`\Phi(z)` with z normal over
    kinds. With k kinds of mean :math:`\bar z`, the interval is

    .. math:: \bar z \pm t_{\nu}\, s \sqrt{1 + 1/k}, \qquad
              s^2 = \frac{3 \cdot 0.6^2 + \sum_i (z_i - \bar z)^2}{\nu}, \quad
              \nu = 3 + k - 1

    a 90 % prediction interval of a random-effects model whose spread is known a priori
    as well as from three kinds: with few kinds it is wide. The noise of the known side
    is added.

    Parameters
    ----------
    ccr, n_known
        Correct classification rate at the threshold, and known samples it is of.
    n_unknown, urr
        Samples of each kind, and the share of them that the threshold rejects.
    alpha
        Weight of the known samples.

    Examples
    --------
    >>> for kinds in ([0.9], [0.9, 0.9, 0.9], [0.5, 0.9, 0.99]):
    ...     found = new_kind(1.0, 90, [100] * len(kinds), kinds, 0.5)
    ...     low, high = found.interval.low, found.interval.high
    ...     print(f"{found.value:.2f} {low:.2f} {high:.2f}")
    0.95 0.62 1.00
    0.95 0.78 1.00
    0.94 0.61 1.00
    """
    n = np.asarray(n_unknown)
    z = scipy.special.ndtri((np.asarray(urr) * n + 0.5) / (n + 1))
    k = z.size
    freedom = _FREEDOM + k - 1
    variance = (_FREEDOM * _SPREAD**2 + ((z - z.mean()) ** 2).sum()) / freedom
    half = scipy.special.stdtrit(freedom, (1 + _LEVEL) / 2) * sqrt(
        variance * (1 + 1 / k)
    )
    low, value, high = (
        float(alpha * ccr + (1 - alpha) * scipy.special.ndtr(z.mean() + step))
        for step in (-half, 0.0, half)
    )
    # The known samples are drawn twice: to calibrate, and in operation.
    noise = sqrt(1.5 * max(ccr * (1 - ccr), 0.01) / n_known)
    noise *= alpha * float(scipy.special.ndtri((1 + _LEVEL) / 2))
    interval = Interval(
        max(value - hypot(value - low, noise), 0.0),
        min(value + hypot(high - value, noise), 1.0),
        _LEVEL,
        f"random effects of {k} kind{'s' if k > 1 else ''}",
    )
    return Rate("open-set accuracy on a new kind", value, interval)
