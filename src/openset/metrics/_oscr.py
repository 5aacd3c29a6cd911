"""The open-set classification rate curve."""

from dataclasses import dataclass
from math import floor

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics._at_rate import last_within, pick
from openset.metrics._ranking_counts import Floats, RankingCounts, both_sides
from openset.metrics._registry import UNIT, Metric, register
from openset.scores import Scores


@dataclass(frozen=True, eq=False)
class OSCRCurve:
    """Correct classification rate over false positive rate, strictest first.

    The first point is (0, 0) at threshold +inf, the last (1, accuracy). Samples with
    equal scores are accepted together; points are joined by straight lines.
    """

    fpr: NDArray[np.float64]
    ccr: NDArray[np.float64]
    thresholds: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"OSCRCurve(points={self.fpr.size}, area={self.area:.4f})"

    @property
    def area(self) -> float:
        """Area by trapezoids: equals ``openauc(scores)``."""
        widths = np.diff(self.fpr)
        return float(widths @ (self.ccr[1:] + self.ccr[:-1]) / 2)


def oscr_curve(scores: Scores) -> OSCRCurve:
    r"""Correct classification rate against false positive rate, at every threshold.

    .. math:: \mathrm{CCR}(\theta) = \frac{1}{N_k} \sum_{i \in K}
              [\hat y_i = y_i][s_i \ge \theta], \qquad
              \mathrm{FPR}(\theta) = \frac{1}{N_u} \sum_{j \in U} [s_j \ge \theta]

    References
    ----------
    Dhamija, Günther and Boult, "Reducing network agnostophobia", NeurIPS 2018.

    Examples
    --------
    >>> curve = oscr_curve(
    ...     Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[0.9, 0.1, 0.5])
    ... )
    >>> curve.fpr, curve.ccr
    (array([0., 0., 1., 1.]), array([0. , 0.5, 0.5, 1. ]))
    """
    return from_counts(both_sides("oscr_curve", scores))


def from_counts(table: RankingCounts) -> OSCRCurve:
    """Divide the counts."""
    return OSCRCurve(
        fpr=table.unknown / table.n_unknown,
        ccr=table.correct / table.n_known,
        thresholds=table.values,
    )


def ccr_at_fpr(scores: Scores, fpr: float = 0.1) -> float:
    r"""Largest correct classification rate with a false positive rate of at most `fpr`.

    No interpolation: at most ``floor(fpr * n_unknown)`` unknowns are accepted. If `fpr`
    is below ``1 / n_unknown``, no unknown may be accepted, however small `fpr` is.

    Examples
    --------
    >>> scores = Scores(
    ...     labels=[0, 0, -1, -1], predicted=[0] * 4, known=[0.9, 0.4, 0.6, 0.1]
    ... )
    >>> ccr_at_fpr(scores, 0.0), ccr_at_fpr(scores, 0.5)
    (0.5, 1.0)
    """
    _check.rate("ccr_at_fpr", "fpr", fpr)
    return float(ccr_kernel(both_sides("ccr_at_fpr", scores), fpr=fpr))


def ccr_kernel(table: RankingCounts, *, fpr: float = 0.1) -> Floats:
    """Compute it for every replicate."""
    allowed = floor(_check.fraction(fpr) * table.n_unknown)
    at = last_within(table.unknown, allowed)
    return pick(table.correct, at) / table.n_known


_DHAMIJA = "Dhamija et al., NeurIPS 2018"
register(
    *(
        Metric(
            ccr_at_fpr,
            key=f"ccr_at_fpr_{fpr:g}",
            label=f"CCR at FPR {fpr:g}",
            short=f"CCR@{fpr:g}",
            params={"fpr": fpr},
            better="higher",
            bounds=UNIT,
            reference=_DHAMIJA,
            kernel=ccr_kernel,
            order=order,
            counts_errors_of="both",
        )
        for fpr, order in ((0.1, 15), (0.01, 16), (0.001, 18))
    ),
    Metric(
        oscr_curve,
        label="OSCR curve",
        kind="curve",
        better="neither",
        reference=_DHAMIJA,
    ),
)
