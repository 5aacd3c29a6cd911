"""Open-set accuracy: at a threshold, at all of them, at the best, and in operation."""

from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics._class_counts import ClassCounts
from openset.metrics._ranking_counts import (
    Floats,
    Prefer,
    RankingCounts,
    best_level,
    both_sides,
)
from openset.metrics._rates import Rates
from openset.metrics._registry import UNIT, Metric, best, register
from openset.metrics._weight import ALPHA, Alpha, weight_of
from openset.scores import Scores, need_both_sides, need_known, need_scores


def ccr(scores: Scores, threshold: float) -> float:
    r"""Correct classification rate: known samples accepted and classified correctly.

    .. math:: \mathrm{CCR}(\theta) = \frac{1}{N_k} \sum_{i \in K}
              [\hat y_i = y_i][s_i \ge \theta]

    Examples
    --------
    >>> ccr(Scores(labels=[0, 0, -1], predicted=[0, 1, 0], known=[3, 2, 1]), 2)
    0.5
    """
    threshold = _check.threshold("ccr", threshold)
    need_known("ccr", scores)
    return Rates.at(scores, threshold).ccr


def urr(scores: Scores, threshold: float) -> float:
    r"""Unknown rejection rate: unknown samples that score below the threshold.

    .. math:: \mathrm{URR}(\theta) = \frac{1}{N_u} \sum_{j \in U} [s_j < \theta]

    Examples
    --------
    >>> urr(Scores(labels=[0, -1, -1], predicted=[0, 1, 0], known=[3, 2, 1]), 2)
    0.5
    """
    threshold = _check.threshold("urr", threshold)
    need_scores("urr", scores)
    return Rates.at(scores, threshold).urr


def osa(scores: Scores, threshold: float, *, alpha: Alpha = ALPHA) -> float:
    r"""Open-set accuracy: weighted mean of the rates :func:`ccr` and :func:`urr`.

    .. math:: \mathrm{OSA}(\theta) = \alpha\,\mathrm{CCR}(\theta)
              + (1 - \alpha)\,\mathrm{URR}(\theta)

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    threshold
        A sample is accepted iff its knownness is at least this.
    alpha
        Weight of the known samples. ``"counts"``: their share of all samples, which
        makes OSA the accuracy over the known classes and "unknown", as in the paper.

    References
    ----------
    Cruz et al., "Operational open-set recognition and PostMax refinement", ECCV 2024.

    Examples
    --------
    >>> scores = Scores(labels=[0, 0, -1], predicted=[0, 1, 0], known=[3, 2, 1])
    >>> osa(scores, 2), round(osa(scores, 2, alpha="counts"), 4)
    (0.75, 0.6667)
    """
    threshold = _check.threshold("osa", threshold)
    need_both_sides("osa", scores)
    return osa_of(Rates.at(scores, threshold), alpha)


def osa_of(rates: Rates, alpha: Alpha) -> float:
    """Compute it from counts of decisions."""
    weight = weight_of("osa", alpha, rates.n_known, rates.n_unknown)
    if (
        alpha == "counts"
    ):  # one division, as in the kernel: the two agree in every digit
        hits = rates.n_accepted_correct + rates.n_rejected_unknown
        return hits / (rates.n_known + rates.n_unknown)
    return float(weight * rates.ccr + (1 - weight) * rates.urr)


@dataclass(frozen=True, eq=False)
class OSACurve:
    """OSA at every distinct score, strictest threshold first (+inf: reject all)."""

    thresholds: NDArray[np.float64]
    ccr: NDArray[np.float64]
    urr: NDArray[np.float64]
    osa: NDArray[np.float64]
    alpha: float

    def __repr__(self) -> str:
        best = f"best={self.osa.max():.4f}, alpha={self.alpha:.4g}"
        return f"OSACurve(points={self.osa.size}, {best})"


def osa_curve(scores: Scores, *, alpha: Alpha = ALPHA) -> OSACurve:
    r"""Open-set accuracy at every threshold: plot `osa` over `urr`.

    Examples
    --------
    >>> curve = osa_curve(
    ...     Scores(labels=[0, 0, -1], predicted=[0, 1, 0], known=[3, 1, 2])
    ... )
    >>> curve.urr, curve.osa
    (array([1., 1., 0., 0.]), array([0.5 , 0.75, 0.25, 0.25]))
    """
    table = both_sides("osa_curve", scores)
    weight = weight_of("osa_curve", alpha, table.n_known, table.n_unknown)
    hits = table.correct / table.n_known
    rejected = 1 - table.unknown / table.n_unknown
    return OSACurve(
        thresholds=table.values,
        ccr=hits,
        urr=rejected,
        osa=float(weight) * hits + float(1 - weight) * rejected,
        alpha=float(weight),
    )


@dataclass(frozen=True)
class Optimum:
    """The best open-set accuracy and the thresholds that reach it.

    Every threshold in ``(low, high]`` is optimal; `threshold` is a score of the data in
    it (or +inf: reject all). `n_optimal` counts the distinct scores that are optimal:
    above one, the best is tied and `prefer` chose among them.
    """

    value: float
    threshold: float
    low: float
    high: float
    alpha: float
    n_optimal: int


def osa_optimum(
    scores: Scores, *, alpha: Alpha = ALPHA, prefer: Prefer = "smallest"
) -> Optimum:
    r"""Return the threshold with the largest open-set accuracy.

    Candidates are all distinct scores and +inf (reject all). On a test set this is the
    *oracle*: an upper bound for comparison, not a threshold to report results at.

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    alpha
        As in :func:`osa`.
    prefer
        Which optimal score to return: the ``"smallest"`` (accepts most), the
        ``"highest"``, or the right end of the ``"widest"`` optimal interval.

    Examples
    --------
    >>> scores = Scores(labels=[0, 0, -1, -1], predicted=[0] * 4, known=[4, 2, 3, 1])
    >>> best = osa_optimum(scores)
    >>> best.value, best.threshold, best.n_optimal
    (0.75, 2.0, 2)
    """
    _check.one_of("osa_optimum", "prefer", prefer, ["smallest", "highest", "widest"])
    table = both_sides("osa_optimum", scores)
    return optimum(table, alpha=alpha, prefer=prefer)


def optimum(
    table: RankingCounts,
    *,
    alpha: Alpha | Fraction = ALPHA,
    prefer: Prefer = "smallest",
) -> Optimum:
    """Find the best level."""
    weight = weight_of("osa_optimum", alpha, table.n_known, table.n_unknown)
    at, start, stop, n_optimal = best_level(
        table.values, _gain(table, weight), prefer=prefer
    )
    correct, unknown = int(table.correct[at]), int(table.unknown[at])
    value = weight * Fraction(correct, table.n_known)
    value += (1 - weight) * (1 - Fraction(unknown, table.n_unknown))
    return Optimum(
        value=float(value),
        threshold=float(table.values[at]),
        low=float(table.values[stop]) if stop < table.values.size else -np.inf,
        high=float(table.values[start]),
        alpha=float(weight),
        n_optimal=n_optimal,
    )


def oosa(
    scores: Scores,
    calibration: Scores,
    *,
    alpha: Alpha = ALPHA,
    prefer: Prefer = "smallest",
) -> float:
    r"""Operational open-set accuracy: threshold from calibration, value on test data.

    .. math:: \mathrm{OOSA} = \mathrm{OSA}_{\text{test}}\bigl(
              \arg\max_\theta \mathrm{OSA}_{\text{calibration}}(\theta)\bigr)

    Parameters
    ----------
    scores
        The test set.
    calibration
        Known validation samples together with *surrogate* unknowns; none of them may be
        in the test set.
    alpha
        Weight of the known samples on both sets. ``"counts"``: each set uses its own
        share of known samples, as in the paper.
    prefer
        As in :func:`osa_optimum`.

    Examples
    --------
    >>> calibration = Scores(labels=[0, -1], predicted=[0, 0], known=[2.0, 1.0])
    >>> test = Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[3.0, 1.5, 1.0])
    >>> oosa(test, calibration), round(oosa(test, calibration, alpha="counts"), 4)
    (0.75, 0.6667)
    """
    if calibration is scores:
        msg = (
            "oosa: calibration must be other samples than scores, got the same object. "
            "A threshold chosen on the test set gives the oracle: use osa_optimum"
        )
        raise ValueError(msg)
    need_both_sides("oosa", scores)
    chosen = osa_optimum(calibration, alpha=alpha, prefer=prefer)
    return osa(scores, chosen.threshold, alpha=alpha)


def ccr_kernel(counts: ClassCounts) -> Floats:
    """Compute it for every replicate."""
    return counts.hits.sum(axis=-1) / counts.n_known


def urr_kernel(counts: ClassCounts) -> Floats:
    """Compute it for every replicate."""
    return counts.rejected_unknown / counts.n_unknown


def osa_kernel(counts: ClassCounts, *, alpha: Alpha = ALPHA) -> Floats:
    """Compute it for every replicate."""
    if alpha == "counts":  # one division: the value is as exact as a float can be
        return (counts.hits.sum(axis=-1) + counts.rejected_unknown) / counts.n
    return alpha * ccr_kernel(counts) + (1 - alpha) * urr_kernel(counts)


def _gain(table: RankingCounts, weight: Fraction) -> NDArray[Any]:
    """OSA at each level up to a constant, in integers where they are wide enough.

    With integers equal accuracies compare equal; with rounded floats they may not.
    """
    for_known = weight / table.n_known
    for_unknown = (1 - weight) / table.n_unknown
    scale = lcm(for_known.denominator, for_unknown.denominator)
    a, b = int(for_known * scale), int(for_unknown * scale)
    common = gcd(a, b)
    a, b = a // common, b // common
    if a == b:  # alpha is the share of knowns: plain counting
        return table.correct - table.unknown
    if max(a, b) * max(table.n_known, table.n_unknown) < 2**62:
        return a * table.correct.astype(np.int64) - b * table.unknown.astype(np.int64)
    return float(for_known) * table.correct - float(for_unknown) * table.unknown


def _best_osa(table: RankingCounts) -> float:
    return optimum(table).value


_POSTMAX = "Cruz et al., ECCV 2024"
_OSA = Metric(
    osa,
    label="Open-set accuracy (OSA, α = 0.5)",
    short="OSA (α = 0.5)",
    kind="threshold",
    better="higher",
    bounds=UNIT,
    reference=_POSTMAX,
    kernel=osa_kernel,
    order=5,
    aliases=("open_set_accuracy",),
    counts_errors_of="both",
)
register(
    Metric(
        oosa,
        label="Operational open-set accuracy (OOSA, α = 0.5)",
        short="OOSA (α = 0.5)",
        kind="operational",
        better="higher",
        bounds=UNIT,
        reference=_POSTMAX,
        order=4,
        counts_errors_of="both",
    ),
    _OSA,
    best(_OSA, kernel=_best_osa),  # needs no sweep
    Metric(
        ccr,
        label="Correct classification (CCR)",
        short="CCR",
        kind="threshold",
        better="higher",
        bounds=UNIT,
        reference="Dhamija et al., NeurIPS 2018",
        kernel=ccr_kernel,
        share_of="known",
        order=6,
        counts_errors_of="both",
    ),
    Metric(
        urr,
        label="Unknown rejection rate (URR)",
        short="URR",
        kind="threshold",
        better="higher",
        bounds=UNIT,
        reference=_POSTMAX,
        kernel=urr_kernel,
        share_of="unknown",
        order=7,
        counts_errors_of="detection",
    ),
    Metric(
        osa_curve,
        label="Open-set accuracy over all thresholds",
        kind="curve",
        better="neither",
        reference=_POSTMAX,
    ),
)
