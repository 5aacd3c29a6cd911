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
from openset.metrics.counts import Count, RankingCounts, class_counts
from openset.metrics.registry import Metric, get, table, with_options
from openset.metrics.sums import Floats
from openset.scores import Scores

_AT_A_TIME = 1 << 22  # limit of replicates x samples in memory


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


def on_logit_scale(value: float, variance: float, level: float) -> Interval | None:
    """Return a normal interval on the logit scale, which stays inside (0, 1).

    None if it is undefined: at 0 or 1, or without spread.
    """
    if not (0 < value < 1) or not variance > 0:
        return None
    half = scipy.stats.norm.ppf((1 + level) / 2) * sqrt(variance)
    half, centre = half / (value * (1 - value)), scipy.special.logit(value)
    low, high = scipy.special.expit([centre - half, centre + half]).tolist()
    return Interval(low, high, level, "U-statistic, logit scale")


def wilson(hits: int, n: int, level: float) -> Interval:
    """Wilson's interval for a share of independent samples."""
    z = float(scipy.stats.norm.ppf((1 + level) / 2))
    share = hits / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At 0 and n the ends are exact, without rounding errors.
    low = 0.0 if hits == 0 else centre - half
    return Interval(low, 1.0 if hits == n else centre + half, level, "Wilson")


def percentile(values: Floats, level: float) -> Interval:
    """Interval between the outer quantiles of the replicates."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return Interval(low, high, level, f"bootstrap, {values.size}")


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

    Known and unknown samples are each resampled by themselves. `wanted` maps names of
    your own to rows of the table of metrics; a metric that takes no counts is computed
    on each data set in turn.
    """
    # The ends of an interval are quantiles, which need at least two values.
    _check.integer("bootstrap", "resamples", resamples, low=2)
    bare = replace(scores, ids=None)  # which would be copied with every draw
    at = -np.inf if threshold is None else threshold
    sides, generator = _units(scores, clusters), np.random.default_rng(rng)
    size = max(1, min(resamples, _AT_A_TIME // len(scores)))
    if clusters is not None:
        size = 1  # clusters differ in size, and so replicates in their sample counts
    in_order = _Sorted(scores)
    values: dict[str, list[Any]] = {name: [] for name in wanted}
    for start in range(0, resamples, size):
        weights = _draw(sides, min(size, resamples - start), len(scores), generator)
        counts: dict[bool, Any] = {}
        for name, row in wanted.items():
            if not row.takes_counts:
                drawn = (bare.take(np.repeat(np.arange(len(bare)), w)) for w in weights)
                values[name].append([row.value(one, threshold) for one in drawn])
                continue
            is_ranking = row.kind == "ranking"
            if is_ranking not in counts:
                counts[is_ranking] = (
                    in_order.counts(weights)
                    if is_ranking
                    else class_counts(
                        scores, at, count=_weighing(weights, scores.classes.size)
                    )
                )
            place = (at,) if row.kind == "threshold" else ()
            values[name].append(row.function(counts[is_ranking], *place, **row.params))
    return {name: np.concatenate(parts) for name, parts in values.items()}


def numeric_metric(
    name: str | Metric, *, caller: str, params: Mapping[str, Any]
) -> Metric:
    """Return the row of a metric that is one number of one set of scores."""
    row = get(name, caller=caller, argument="metric")
    if row.kind in {"curve", "operational"}:
        options = [r.key for r in table() if r.kind not in {"curve", "operational"}]
        _check.one_of(caller, "metric", name, options)
    return with_options(row, params)


Units = list[tuple[NDArray[np.intp], NDArray[np.intp]]]


def _units(scores: Scores, clusters: Literal["groups"] | None) -> Units:
    """Return the rows of each side, and the unit each is drawn with."""
    if clusters is not None:
        _check.one_of("bootstrap", "clusters", clusters, ["groups"])
        if scores.groups is None:
            msg = "bootstrap: scores must have groups for clusters, got none"
            raise ValueError(msg)
    sides = []
    for mask in (~scores.is_unknown, scores.is_unknown):
        rows = np.flatnonzero(mask)
        unit = np.arange(rows.size)
        if clusters is not None and scores.groups is not None:
            unit = np.unique(scores.groups[rows], return_inverse=True)[1]
        sides.append((rows, unit))
    return sides


def need_spread(
    caller: str, scores: Scores, clusters: Literal["groups"] | None = None
) -> None:
    """Raise if there is only one known or one unknown sample (or cluster)."""
    known, unknown = (int(u.max()) + 1 for _, u in _units(scores, clusters))
    if min(known, unknown) < 2:
        what = "sample" if clusters is None else "group"
        msg = (
            f"{caller}: an interval is undefined for a single known or unknown "
            f"{what}, got {known} known and {unknown} unknown {what}s"
        )
        if clusters is not None:
            msg += ". Give at least two groups of known samples and two of unknown ones"
        raise UndefinedMetricError(msg)


def _draw(
    sides: Units, size: int, n: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw how often each sample occurs, separately for known and unknown samples."""
    weights = np.empty((size, n), dtype=np.int32)
    for rows, unit in sides:
        n_units = int(unit.max()) + 1
        drawn = rng.integers(0, n_units, size=(size, n_units))
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
        masks = (~scores.is_unknown, scores.is_correct, scores.is_unknown)
        self.masks = [mask[self.order] for mask in masks]

    def counts(self, weights: NDArray[np.int32]) -> RankingCounts:
        ordered = weights[:, self.order]
        zero = np.zeros((len(weights), 1), np.int64)
        columns = [
            np.concatenate([zero, np.cumsum(ordered * m, axis=1)[:, self.ends]], axis=1)
            for m in self.masks
        ]
        return RankingCounts(self.values, *columns)


def _weighing(weights: NDArray[np.int32], n_classes: int) -> Count:
    """Count weighted samples by class: one sparse product for all replicates."""

    def count(chosen: NDArray[np.bool_], place: NDArray[np.intp]) -> Floats:
        rows = np.flatnonzero(chosen)
        where = (np.ones(rows.size), (place[rows], rows))
        shape = (n_classes, weights.shape[1])
        indicator = scipy.sparse.csr_array(where, shape=shape)
        return np.asarray((indicator @ weights.T).T, dtype=np.float64)

    return count
