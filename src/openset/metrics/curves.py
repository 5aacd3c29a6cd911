"""All thresholds at once: curves, the best threshold, and every metric at each."""

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _optional
from openset.metrics.at_threshold import osa
from openset.metrics.counts import (
    ALPHA,
    Alpha,
    RankingCounts,
    best_level,
    positions,
    ranking_counts,
    ratio,
    weight_of,
    whole_gain,
)
from openset.metrics.registry import Metric, metric
from openset.metrics.sums import Floats
from openset.scores import Scores, need_both_sides


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Curve:
    """Points at every distinct score, strictest threshold first (+inf: reject all)."""

    thresholds: Floats

    def __repr__(self) -> str:
        return f"{type(self).__name__}(points={self.thresholds.size})"

    def to_frame(self) -> Any:
        """Return a pandas table, one row per threshold."""
        pd = _optional.optional("pandas", "tables")
        return pd.DataFrame({f.name: getattr(self, f.name) for f in fields(self)})


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class OSCRCurve(Curve):
    """Correct classification rate over false positive rate, strictest first.

    The first point is (0, 0) at threshold +inf, the last (1, accuracy). Samples with
    equal scores are accepted together; points are joined by straight lines.
    """

    fpr: Floats
    ccr: Floats

    @property
    def area(self) -> float:
        """Area by trapezoids: equals ``openauc(scores)``."""
        return float(np.diff(self.fpr) @ (self.ccr[1:] + self.ccr[:-1]) / 2)


@metric
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
    c = ranking_counts(scores)
    fpr, hits = c.unknown / c.n_unknown, c.correct / c.n_known
    return OSCRCurve(thresholds=c.values, fpr=fpr, ccr=hits)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class OSACurve(Curve):
    """Open-set accuracy at every threshold; `alpha` is the weight of known samples."""

    ccr: Floats
    urr: Floats
    osa: Floats
    alpha: float


@metric
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
    c = ranking_counts(scores)
    weight = weight_of("osa_curve", alpha, c.n_known, c.n_unknown)
    hits, rejected = c.correct / c.n_known, 1 - c.unknown / c.n_unknown
    return OSACurve(
        thresholds=c.values,
        ccr=hits,
        urr=rejected,
        osa=float(weight) * hits + float(1 - weight) * rejected,
        alpha=float(weight),
    )


@dataclass(frozen=True)
class Optimum:
    """The best open-set accuracy: every threshold in ``(low, high]`` reaches it.

    `threshold` is the smallest score of the data in it (or +inf: reject all).
    """

    value: float
    threshold: float
    low: float
    high: float
    alpha: float


def osa_optimum(scores: Scores, *, alpha: Alpha = ALPHA) -> Optimum:
    r"""Return the smallest threshold with the largest open-set accuracy.

    Candidates are all distinct scores and +inf (reject all). On a test set this is the
    *oracle*: an upper bound for comparison, not a threshold to report results at.

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    alpha
        As in :func:`osa`.

    Examples
    --------
    >>> scores = Scores(labels=[0, 0, -1, -1], predicted=[0] * 4, known=[4, 2, 3, 1])
    >>> best = osa_optimum(scores)
    >>> best.value, best.threshold, best.low, best.high
    (0.75, 2.0, 1.0, 2.0)
    """
    need_both_sides("osa_optimum", scores)
    return optimum(ranking_counts(scores), alpha=alpha)


def optimum(c: RankingCounts, *, alpha: Alpha | Fraction = ALPHA) -> Optimum:
    """Find the best level."""
    weight = weight_of("osa_optimum", alpha, c.n_known, c.n_unknown)
    gain = whole_gain(c, weight / c.n_known, -(1 - weight) / c.n_unknown)
    at, start = best_level(c.values, gain)
    value = weight * Fraction(int(c.correct[at]), c.n_known)
    value += (1 - weight) * (1 - Fraction(int(c.unknown[at]), c.n_unknown))
    return Optimum(
        value=float(value),
        threshold=float(c.values[at]),
        low=float(c.values[at + 1]) if at + 1 < c.values.size else -np.inf,
        high=float(c.values[start]),
        alpha=float(weight),
    )


@metric
def oosa(scores: Scores, calibration: Scores, *, alpha: Alpha = ALPHA) -> float:
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
    chosen = osa_optimum(calibration, alpha=alpha)
    return osa(scores, chosen.threshold, alpha=alpha)


@dataclass(frozen=True)
class Best:
    """The largest value of a metric over all thresholds, and where it is reached."""

    value: float
    threshold: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Sweep(Curve):
    """A column per metric, named by its key; row 0 rejects everything."""

    ccr: Floats
    urr: Floats
    osa: Floats
    f_score: Floats
    f_score_macro_f: Floats
    f_score_micro: Floats
    youden: Floats
    youden_binary: Floats
    normalized_accuracy: Floats
    normalized_accuracy_recall: Floats
    outer_score: Floats
    halfpoint_score: Floats
    overall_score: Floats

    def best(self, name: str) -> Best:
        """Return the largest value of a column; the smallest threshold on ties."""
        names = [field.name for field in fields(self) if field.name != "thresholds"]
        column = getattr(self, _check.one_of("Sweep.best", "name", name, names))
        # With a score of +inf no threshold rejects all: row 0 is then impossible.
        first = 1 if self.thresholds[1] == np.inf else 0
        # Cumulative sums have rounding errors of about 1e-13.
        is_best = column[first:] >= column[first:].max() - 1e-12
        at = int(np.flatnonzero(is_best)[-1]) + first
        return Best(value=float(column[at]), threshold=float(self.thresholds[at]))


def best_threshold(row: Metric, scores: Scores) -> float:
    """Return the threshold at which an oracle has its value."""
    if row.best_of == "osa":
        return osa_optimum(scores, **row.params).threshold
    return sweep(scores).best(row.best_of).threshold


def sweep(scores: Scores, *, alpha: Alpha = ALPHA) -> Sweep:
    """Compute all thresholded metrics at all thresholds in O(n log n + C).

    Rates averaged over classes change by a known amount with every sample that is
    accepted; the cumulative sum in score order gives the metric at every threshold.

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    alpha
        Weight of the known samples in open-set accuracy, as in :func:`osa`.

    Examples
    --------
    >>> table = sweep(Scores(labels=[0, 1, -1], predicted=[0, 1, 1], known=[3, 2, 1]))
    >>> table.thresholds, table.urr
    (array([inf,  3.,  2.,  1.]), array([1., 1., 1., 0.]))
    >>> table.best("f_score")
    Best(value=1.0, threshold=2.0)
    """
    need_both_sides("sweep", scores)
    n_known, n_unknown = scores.n_known, scores.n_unknown
    n, n_classes = len(scores), scores.classes.size
    order = np.argsort(-scores.known, kind="stable")
    label, predicted = (place[order] for place in positions(scores))
    correct, values = scores.is_correct[order], scores.known[order]
    ends = np.flatnonzero(np.append(values[1:] != values[:-1], True))

    def at_levels(increments: NDArray[Any]) -> Floats:
        total = np.cumsum(increments, dtype=np.float64)
        return np.concatenate([[0.0], total[ends]])

    support = np.bincount(label, minlength=n_classes + 1)[:n_classes].astype(float)
    share = np.append(ratio(1, support), 0)  # of its class's recall, per sample
    hits, taken = at_levels(correct), at_levels(np.ones(n))
    false_unknown = at_levels(scores.is_unknown[order])
    recall_sum = at_levels(np.where(correct, share[label], 0))
    fpr_sum = at_levels(np.where(correct, 0, ratio(1, n - support)[predicted]))
    precision, f_of_class = _class_increments(correct, predicted, support)
    tpr, fpr = (taken - false_unknown) / n_known, false_unknown / n_unknown
    urr, weight = 1 - fpr, float(weight_of("sweep", alpha, n_known, n_unknown))
    recall, mean_precision = recall_sum / n_classes, at_levels(precision) / n_classes
    n_true = np.count_nonzero(support)
    on_known = 1 - (n_known + taken - 2 * hits) / (n_classes * n)
    aus = ratio(n_unknown - false_unknown, n - taken)
    return Sweep(
        thresholds=np.concatenate([[np.inf], values[ends]]),
        ccr=hits / n_known,
        urr=urr,
        osa=weight * hits / n_known + (1 - weight) * urr,
        f_score=ratio(2 * mean_precision * recall, mean_precision + recall),
        f_score_macro_f=at_levels(f_of_class) / n_classes,
        f_score_micro=ratio(2 * hits, taken + n_known),
        youden=recall - fpr_sum / n_classes,
        youden_binary=tpr - fpr,
        normalized_accuracy=(on_known + aus) / 2,
        normalized_accuracy_recall=(on_known + urr) / 2,
        outer_score=(tpr + urr) / 2,
        halfpoint_score=recall_sum / n_true,
        overall_score=(recall_sum + urr) / (n_true + 1),
    )


def _class_increments(
    correct: NDArray[np.bool_], predicted: NDArray[np.intp], support: Floats
) -> tuple[Floats, Floats]:
    """Change of precision and F-score of its class when each sample is accepted."""
    by_class = np.argsort(predicted, kind="stable")  # score order within each class
    place = predicted[by_class]
    starts = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    sizes = np.diff(np.append(starts, place.size))
    rank = np.arange(place.size) - np.repeat(starts, sizes) + 1.0
    total = np.cumsum(correct[by_class])
    hits = total - np.repeat(np.where(starts > 0, total[starts - 1], 0), sizes)

    def changes(values: Floats) -> Floats:
        steps = np.diff(values, prepend=0.0)
        steps[starts] = values[starts]
        out = np.empty_like(steps)
        out[by_class] = steps
        return out

    return changes(hits / rank), changes(2 * hits / (rank + support[place]))
