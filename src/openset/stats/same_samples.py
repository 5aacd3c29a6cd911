"""Two detectors on the same samples."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy  # its submodules are imported on first use
from numpy.typing import NDArray

from openset import _check
from openset._types import PairingWarning
from openset.metrics import Interval, intervals
from openset.scores import Scores, in_order_of, need_scores, seems_reordered

_BY_PLACEMENTS = ("auroc", "openauc")


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

    For AUROC and OpenAUC the variance of the difference is computed from the placement
    values of both detectors, whose covariance accounts for the shared samples (DeLong's
    method, with misclassified known samples placed last); the difference is tested as
    normally distributed. Other metrics use a paired bootstrap: both detectors are
    evaluated on the same resampled data.

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
    row = intervals.numeric_metric(metric, caller="compare", params=params)
    _check.open_unit("compare", "level", level)
    if row.kind == "threshold" and np.shape(np.array(threshold)) != (2,):
        rule = "a pair (threshold of a, threshold of b)"
        remedy = f"{row.key} is a metric at a threshold"
        _check.fail("compare", "threshold", rule, repr(threshold), remedy)
    # A generator would draw different samples for a and b.
    remedy = "A seed, so that both are evaluated on the same resampled data"
    _check.integer("compare", "rng", rng, low=0, remedy=remedy)
    at_each = (None, None) if threshold is None else threshold
    both = list(zip((a, b), at_each, strict=True))
    of_a, of_b = (row.value(scores, at) for scores, at in both)
    difference = of_a - of_b
    if row.key in _BY_PLACEMENTS and not params:
        interval, p_value = _by_placements(a, b, row.key, difference, level)
    else:
        one, other = (
            intervals.replicates(
                scores, {"": row}, threshold=at, resamples=resamples, rng=rng
            )[""]
            for scores, at in both
        )
        spread = one - other
        interval = intervals.percentile(spread, level)
        interval = replace(interval, method=f"paired {interval.method}")
        tail = min(np.count_nonzero(spread <= 0), np.count_nonzero(spread >= 0))
        p_value = min(1.0, float(2 * (tail + 1) / (resamples + 1)))
    return Comparison(row.key, of_a, of_b, difference, interval, p_value)


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
    intervals.need_spread("compare", a)
    return b


def _by_placements(
    a: Scores, b: Scores, metric: str, difference: float, level: float
) -> tuple[Interval, float]:
    """Return the interval of a difference and its p-value, as normally distributed."""
    placed = [_placements(scores, metric) for scores in (a, b)]
    # Of known samples, then of unknown ones.
    spreads = [of_a - of_b for of_a, of_b in zip(*placed, strict=True)]
    error = sum(float(one.var(ddof=1)) / one.size for one in spreads) ** 0.5
    half = float(scipy.stats.norm.ppf((1 + level) / 2)) * error
    p_value = 1.0 if difference == 0 else 0.0
    if error > 0:
        p_value = float(2 * scipy.stats.norm.sf(abs(difference) / error))
    ends = difference - half, difference + half
    return Interval(*ends, level, "placement values"), p_value


def _placements(
    scores: Scores, metric: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Influence of each known and each unknown sample on the metric."""
    known = scores.known[~scores.is_unknown]
    unknown = scores.known[scores.is_unknown]
    of_known = _share_below(unknown, known)
    if metric == "auroc":
        return of_known, 1 - _share_below(known, unknown)
    is_correct = scores.is_correct[~scores.is_unknown]
    right = known[is_correct]
    of_unknown = (1 - _share_below(right, unknown)) * right.size / known.size
    return of_known * is_correct, of_unknown


def _share_below(
    values: NDArray[np.float64], at: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share of `values` below each entry of `at`, equal ones counted half."""
    ordered, rows = np.sort(values), np.argsort(at)
    sought = at[rows]  # five times as fast in this order: memory is read in turn
    below = np.searchsorted(ordered, sought, side="left")
    upto = np.searchsorted(ordered, sought, side="right")
    shares = np.empty(at.size)
    shares[rows] = (below + upto) / (2 * max(values.size, 1))
    return shares
