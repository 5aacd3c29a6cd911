"""Confidence intervals: by formula where one exists, else by bootstrap."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Literal

import numpy as np
import scipy  # its submodules are imported on first use
from numpy.typing import NDArray

from openset import _check
from openset._types import UndefinedMetricError
from openset.metrics._class_counts import Count, Floats, class_counts
from openset.metrics._ranking_counts import RankingCounts
from openset.metrics._registry import Metric, get, table
from openset.scores import Scores, need_both_sides

_COUNTED = ("closed", "ranking", "threshold")  # kernels take many data sets
_LEVELS_AT_A_TIME = 1 << 22  # limit of replicates x samples in memory


@dataclass(frozen=True)
class Interval:
    """A confidence interval and the method it was computed with.

    It covers the variation from drawing test samples, not that from training again.

    Examples
    --------
    >>> print(Interval(0.94, 0.9762, 0.95, "U-statistic"))
    0.9400 to 0.9762 (95 %)
    """

    low: float
    high: float
    level: float
    method: str

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:.4f} to {self.high:.4f} ({100 * self.level:g} %)"


def on_logit_scale(
    value: float, variance: float, level: float, *, freedom: float = np.inf
) -> Interval | None:
    """Return a normal interval on the logit scale, which stays inside (0, 1).

    None if it is undefined: at 0 or 1, without spread, or with a single known or
    unknown sample.
    """
    if not (0 < value < 1) or not variance > 0:
        return None
    quantile = scipy.stats.t.ppf((1 + level) / 2, freedom)  # inf: the normal one
    half = quantile * sqrt(variance) / (value * (1 - value))
    centre = scipy.special.logit(value)
    low, high = scipy.special.expit([centre - half, centre + half])
    return Interval(float(low), float(high), level, "U-statistic, logit scale")


def wilson(hits: int, n: int, level: float) -> Interval:
    """Wilson's interval for a share of independent samples."""
    z = float(scipy.stats.norm.ppf((1 + level) / 2))
    share = hits / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At 0 and n the ends are exact, without rounding errors.
    low = 0.0 if hits == 0 else centre - half
    high = 1.0 if hits == n else centre + half
    return Interval(low, high, level, "Wilson")


def bootstrap(
    scores: Scores,
    metric: str,
    *,
    threshold: float | None = None,
    resamples: int = 1000,
    level: float = 0.95,
    clusters: Literal["groups"] | None = None,
    rng: np.random.Generator | int = 0,
    **params: Any,
) -> Interval:
    """Percentile interval from known and unknown samples, each resampled by themselves.

    A metric without a kernel is computed on each resampled data set in turn.

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    metric
        Key of a metric, e.g. ``"fpr_at_tpr"``, or ``package.module:Name``.
    threshold
        For metrics at a threshold.
    resamples
        Number of resampled data sets, at least 2.
    level
        Confidence level.
    clusters
        ``"groups"`` draws whole groups instead of samples, for samples that belong
        together (frames of a video, images of a patient). Undefined if all known
        samples or all unknowns are of one group.
    rng
        Seed or generator.
    **params
        Passed to the metric, e.g. ``tpr=0.9``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> known = np.concatenate([rng.normal(1, 1, 200), rng.normal(0, 1, 200)])
    >>> labels = np.repeat([0, -1], 200)
    >>> scores = Scores(labels=labels, predicted=np.zeros(400, int), known=known)
    >>> interval = bootstrap(scores, "auroc", resamples=200)
    >>> 0.65 < interval.low < 0.76 < interval.high < 0.85
    True
    """
    need_both_sides("bootstrap", scores)
    row = numeric_metric(metric, caller="bootstrap", params=params)
    _need_threshold(row, threshold)
    row.value(scores, threshold)  # kernels do not check their options
    need_spread("bootstrap", scores, clusters)
    values = replicates(
        scores,
        {row.key: row},
        threshold=threshold,
        resamples=resamples,
        clusters=clusters,
        rng=rng,
    )[row.key]
    return percentile(values, level)


def percentile(values: Floats, level: float) -> Interval:
    """Interval between the outer quantiles of the replicates."""
    _check.open_unit("bootstrap", "level", level)
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level, f"bootstrap, {values.size}")


def replicates(
    scores: Scores,
    wanted: Mapping[str, Metric],
    *,
    threshold: float | None = None,
    resamples: int = 1000,
    clusters: Literal["groups"] | None = None,
    rng: np.random.Generator | int = 0,
) -> dict[str, Floats]:
    """Values of several metrics, each on the same resampled data sets.

    `wanted` maps names of your own to rows of the table of metrics.
    """
    # The ends of an interval are quantiles, which need at least two values.
    _check.integer("bootstrap", "resamples", resamples, low=2)
    need_both_sides("bootstrap", scores)
    for row in wanted.values():
        _need_threshold(row, threshold)
    draw = _Draw(scores, clusters, np.random.default_rng(rng))
    in_order = _Sorted(scores)
    # Ids would be copied with every draw.
    bare = scores if scores.ids is None else replace(scores, ids=None)
    every = np.arange(len(scores))
    at = -np.inf if threshold is None else threshold
    size = max(1, min(resamples, _LEVELS_AT_A_TIME // len(scores)))
    if clusters is not None:
        size = 1  # clusters differ in size, and so replicates in their sample counts
    values: dict[str, list[Floats]] = {key: [] for key in wanted}
    for start in range(0, resamples, size):
        weights = draw(min(size, resamples - start))
        weigh = _weighing(weights, scores.classes.size)
        of_kind: dict[str, Any] = {}
        for key, row in wanted.items():
            if row.kernel is None or row.kind not in _COUNTED:
                drawn = (bare.take(np.repeat(every, times)) for times in weights)
                values[key].append(np.array([row.value(s, threshold) for s in drawn]))
                continue
            if row.kind not in of_kind:
                of_kind[row.kind] = (
                    in_order.ranking_counts(weights)
                    if row.kind == "ranking"
                    else class_counts(scores, at, caller="bootstrap", count=weigh)
                )
            values[key].append(row.kernel(of_kind[row.kind], **row.params))
    return {key: np.concatenate(parts) for key, parts in values.items()}


def _need_threshold(row: Metric, threshold: float | None) -> None:
    if row.kind == "threshold" and threshold is None:
        msg = _check.must(
            "given",
            caller="bootstrap",
            name="threshold",
            got=None,
            remedy=f"{row.key} is a metric at a threshold",
        )
        raise ValueError(msg)


def numeric_metric(
    name: str | Metric, *, caller: str, params: Mapping[str, Any]
) -> Metric:
    """Return the row of a metric that is one number of one set of scores.

    `params` replace those of the row.
    """
    row = get(name, caller=caller, argument="metric")
    if row.kind in {"curve", "operational"}:
        options = [r.key for r in table() if r.kind not in {"curve", "operational"}]
        _check.one_of(caller, "metric", name, options)
    return replace(row, params={**row.params, **params}) if params else row


def need_spread(
    caller: str, scores: Scores, clusters: Literal["groups"] | None = None
) -> None:
    """Raise if there is only one known or one unknown sample (or cluster)."""
    draw = _Draw(scores, clusters, np.random.default_rng(0))
    n_known, n_unknown = (int(unit.max()) + 1 for _, unit in draw.sides)
    if min(n_known, n_unknown) < 2:
        what = "sample" if clusters is None else "group"
        msg = (
            f"{caller}: an interval is undefined for a single known or unknown "
            f"{what}, got {n_known} known and {n_unknown} unknown {what}s"
        )
        if clusters is not None:
            msg += ". Give at least two groups of known samples and two of unknown ones"
        raise UndefinedMetricError(msg)


class _Draw:
    """Draws how often each sample occurs, separately for known and unknown samples."""

    def __init__(
        self,
        scores: Scores,
        clusters: Literal["groups"] | None,
        rng: np.random.Generator,
    ) -> None:
        self.rng = rng
        self.n = len(scores)
        self.sides: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []
        if clusters is not None:
            _check.one_of("bootstrap", "clusters", clusters, ["groups"])
            if scores.groups is None:
                msg = "bootstrap: scores must have groups for clusters, got none"
                raise ValueError(msg)
        for mask in (~scores.is_unknown, scores.is_unknown):
            rows = np.flatnonzero(mask)
            if clusters is None:
                unit = np.arange(rows.size)
            else:
                unit = np.unique(scores.groups[rows], return_inverse=True)[1]  # type: ignore[index]
            self.sides.append((rows, unit))

    def __call__(self, size: int) -> NDArray[np.int32]:
        weights = np.empty((size, self.n), dtype=np.int32)
        for rows, unit in self.sides:
            n_units = int(unit.max()) + 1
            drawn = self.rng.integers(0, n_units, size=(size, n_units))
            drawn += np.arange(size)[:, None] * n_units
            times = np.bincount(drawn.ravel(), minlength=size * n_units)
            weights[:, rows] = times.reshape(size, n_units)[:, unit]
        return weights


class _Sorted:
    """Samples in score order, so that level counts are cumulative sums of weights."""

    def __init__(self, scores: Scores) -> None:
        self.order = np.argsort(-scores.known, kind="stable")
        values = scores.known[self.order]
        self.ends = np.flatnonzero(np.append(values[1:] != values[:-1], True))
        self.values = np.concatenate([[np.inf], values[self.ends]])
        self.is_correct = scores.is_correct[self.order]
        self.is_unknown = scores.is_unknown[self.order]

    def ranking_counts(self, weights: NDArray[np.int32]) -> RankingCounts:
        ordered = weights[:, self.order]

        def counts(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
            total = np.cumsum(ordered * mask, axis=1)[:, self.ends]
            return np.concatenate([np.zeros((len(total), 1), np.int64), total], axis=1)

        return RankingCounts(
            values=self.values,
            known=counts(~self.is_unknown),
            correct=counts(self.is_correct),
            unknown=counts(self.is_unknown),
        )


def _weighing(weights: NDArray[np.int32], n_classes: int) -> Count:
    """Count weighted samples by class: one sparse product for all replicates."""

    def count(chosen: NDArray[np.bool_], place: NDArray[np.intp]) -> Floats:
        rows = np.flatnonzero(chosen)
        one = np.ones(rows.size)
        shape = (n_classes, weights.shape[1])
        indicator = scipy.sparse.csr_array((one, (place[rows], rows)), shape=shape)
        return np.asarray((indicator @ weights.T).T, dtype=np.float64)

    return count
