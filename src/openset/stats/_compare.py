"""Two detectors on the same samples."""

import warnings
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
import scipy  # its submodules are imported on first use
from numpy.typing import NDArray

from openset import _check
from openset._types import PairingWarning
from openset.metrics import Interval, Metric
from openset.metrics.intervals import (
    need_spread,
    numeric_metric,
    percentile,
    replicates,
)
from openset.scores import Scores, in_order_of, need_scores, seems_reordered

_BY_PLACEMENTS = ("auroc", "openauc", "partial_openauc")


@dataclass(frozen=True)
class Comparison:
    """Difference a - b of a metric, with confidence interval and two-sided p-value."""

    metric: str
    a: float
    b: float
    difference: float
    interval: Interval
    p_value: float

    def __str__(self) -> str:
        return (
            f"{self.metric}: {self.a:.4f} - {self.b:.4f} = {self.difference:+.4f}, "
            f"interval {self.interval}, p = {self.p_value:.2g}"
        )


def compare(
    a: Scores,
    b: Scores,
    metric: str = "openauc",
    *,
    level: float = 0.95,
    threshold: tuple[float, float] | None = None,
    resamples: int = 2000,
    rng: int = 0,
    **params: Any,
) -> Comparison:
    r"""Compare two detectors (or two networks) on the same samples.

    For AUROC, OpenAUC and partial OpenAUC the variance of the difference is computed
    from the placement values of both detectors, whose covariance accounts for the
    shared samples (DeLong's method, with misclassified known samples placed last); the
    difference is tested as normally distributed. Other metrics use a paired bootstrap:
    both detectors are evaluated on the same resampled data.

    Parameters
    ----------
    a, b
        Scores of the same samples. If both have ids they may be in any order: those of
        `b` are brought into the order of `a`. Else they must be in the same order;
        scores that seem not to be get a warning.
    metric
        Key of a metric, e.g. ``"fpr_at_tpr"``, or ``package.module:Name``.
    level
        Confidence level of the interval.
    threshold
        For metrics at a threshold: the thresholds of `a` and of `b`.
    resamples, rng
        Number of resamples and seed of the bootstrap, if it is used.
    **params
        Passed to the metric, e.g. ``max_fpr=0.05``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels, predicted = np.repeat([0, -1], 300), np.zeros(600, int)
    >>> signal = np.repeat([1.5, 0.0], 300) + rng.normal(size=600)
    >>> good = Scores(labels=labels, predicted=predicted, known=signal)
    >>> worse = good.with_known(signal + rng.normal(size=600))
    >>> result = compare(good, worse)
    >>> print(result)
    openauc: 0.8528 - 0.7700 = +0.0829, interval 0.0553 to 0.1104 (95 %), p = 3.7e-09
    >>> result.p_value < 0.001
    True
    """
    b = _paired(a, b)
    row = numeric_metric(metric, caller="compare", params=params)
    _check.open_unit("compare", "level", level)
    if row.key in _BY_PLACEMENTS and set(params) <= {"max_fpr"}:
        return _by_placements(a, b, row, level)
    if row.kind == "threshold":
        _check_pair(threshold, row.key)
    # A generator would draw different samples for a and b.
    remedy = "A seed, so that both are evaluated on the same resampled data"
    _check.integer("compare", "rng", rng, low=0, remedy=remedy)
    pair = [
        _bootstrapped(
            scores,
            row,
            None if threshold is None else threshold[i],
            resamples=resamples,
            rng=rng,  # the same seed draws the same samples for both
        )
        for i, scores in enumerate((a, b))
    ]
    (value_a, of_a), (value_b, of_b) = pair
    spread = of_a - of_b
    tail = min(np.count_nonzero(spread <= 0), np.count_nonzero(spread >= 0))
    found = percentile(spread, level)
    return Comparison(
        metric=row.key,
        a=value_a,
        b=value_b,
        difference=value_a - value_b,
        interval=replace(found, method=f"paired {found.method}"),
        p_value=min(1.0, float(2 * (tail + 1) / (resamples + 1))),
    )


def _check_pair(threshold: Any, metric: str) -> None:
    if np.shape(threshold) != (2,):
        msg = _check.must(
            "a pair (threshold of a, threshold of b)",
            caller="compare",
            name="threshold",
            got=repr(threshold),
            remedy=f"{metric} is a metric at a threshold",
        )
        raise ValueError(msg)


def _paired(a: Scores, b: Scores) -> Scores:
    """Return `b` in the order of `a`; raise if there is nothing to compare."""
    for scores in (a, b):
        need_scores("compare", scores)
    b = in_order_of(b, a, caller="compare", names=("a", "b"))
    if seems_reordered(b, a):
        msg = (
            "compare: a and b have the same numbers of labels and predicted classes, "
            "but in other rows: are their samples in different orders? They are "
            "compared row by row. With ids they are paired by these: Scores(ids=...)"
        )
        warnings.warn(msg, PairingWarning, stacklevel=3)
    _check.both_sides("compare", a.n_known, a.n_unknown)
    need_spread("compare", a)
    return b


def _by_placements(a: Scores, b: Scores, row: Metric, level: float) -> Comparison:
    value_a, value_b = (row.value(scores) for scores in (a, b))
    placed = [_placements(scores, row.key, **row.params) for scores in (a, b)]
    variance = 0.0
    for of_a, of_b in zip(*placed, strict=True):  # knowns, then unknowns
        spread = of_a - of_b
        variance += float(spread.var(ddof=1)) / spread.size
    difference = value_a - value_b
    error = sqrt(variance)
    half = float(scipy.stats.norm.ppf((1 + level) / 2)) * error
    if error > 0:
        p_value = float(2 * scipy.stats.norm.sf(abs(difference) / error))
    else:
        p_value = 1.0 if difference == 0 else 0.0
    interval = Interval(difference - half, difference + half, level, "placement values")
    return Comparison(
        metric=row.key,
        a=value_a,
        b=value_b,
        difference=difference,
        interval=interval,
        p_value=p_value,
    )


def _placements(
    scores: Scores, metric: str, *, max_fpr: float = 0.1
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Influence of each known and each unknown sample on the metric."""
    known = scores.known[~scores.is_unknown]
    unknown = scores.known[scores.is_unknown]
    counts = np.ones(known.size)
    if metric != "auroc":
        counts = scores.is_correct[~scores.is_unknown].astype(float)
    of_known = _share_below(unknown, known) * counts
    of_unknown = 1 - _share_below(known, unknown)
    if metric != "auroc":
        right = known[counts > 0]
        of_unknown = (1 - _share_below(right, unknown)) * right.size / known.size
    if metric != "partial_openauc":
        return of_known, of_unknown
    bound = float(max_fpr)
    fpr_at_known = 1 - _share_below(unknown, known)
    of_known = counts * np.maximum(bound - fpr_at_known, 0)
    allowed = int(_check.fraction(bound) * unknown.size)
    if allowed < unknown.size:
        # Several unknowns may score exactly `limit`, and only part of this step of the
        # curve is inside the bound. These are the derivatives by its height and width.
        limit = np.sort(unknown)[::-1][allowed]
        width = np.count_nonzero(unknown == limit) / unknown.size
        part = bound - np.count_nonzero(unknown > limit) / unknown.size
        height = float(counts @ (known == limit)) / known.size
        at_limit = float(counts @ (known > limit)) / known.size + height * part / width
        of_known[known == limit] = counts[known == limit] * part**2 / (2 * width)
        of_unknown = np.where(unknown > limit, of_unknown - at_limit, 0.0)
        of_unknown[unknown == limit] = -height * (part / width) ** 2 / 2
    return of_known / bound, of_unknown / bound


def _share_below(
    values: NDArray[np.float64], at: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share of `values` below each entry of `at`, equal ones counted half."""
    if values.size == 0:
        return np.ones(at.size)
    ordered, rows = np.sort(values), np.argsort(at)
    sought = at[rows]  # five times as fast in this order: memory is read in turn
    below = np.searchsorted(ordered, sought, side="left")
    upto = np.searchsorted(ordered, sought, side="right")
    shares = np.empty(at.size)
    shares[rows] = (below + upto) / (2 * values.size)
    return shares


def _bootstrapped(
    scores: Scores,
    row: Metric,
    threshold: float | None,
    *,
    resamples: int,
    rng: int,
) -> tuple[float, NDArray[np.float64]]:
    """Value on the data, and on resampled data."""
    values = replicates(
        scores, {row.key: row}, threshold=threshold, resamples=resamples, rng=rng
    )[row.key]
    return row.value(scores, threshold), values
