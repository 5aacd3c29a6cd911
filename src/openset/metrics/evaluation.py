"""`evaluate`: every metric of one set of scores, from one sort."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from openset import _check, _optional
from openset._types import UndefinedMetricError
from openset.metrics import curves
from openset.metrics.counts import RankingCounts, class_counts, ranking_counts
from openset.metrics.intervals import (
    Interval,
    need_spread,
    on_logit_scale,
    percentile,
    replicates,
    wilson,
)
from openset.metrics.registry import Metric, get
from openset.metrics.registry import table as table_of_metrics
from openset.scores import Scores, need_both_sides

_REPORTED = ("closed", "ranking", "threshold", "oracle", "data")
_WITH_INTERVALS = ("closed", "ranking", "threshold")


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Mapping[str, float]):
    """All metrics of one set of scores: a mapping from name to value.

    `intervals` holds the confidence intervals, for metrics that have one; `oscr_curve`
    and `sweep` the curves behind the numbers. Entries ending in ``_best`` are oracles:
    the largest value over all thresholds *on these data*.
    """

    scores: Scores
    counts_: RankingCounts  # kept, so that the curves need no second sort
    values_: Mapping[str, float]
    intervals: Mapping[str, Interval]
    threshold: float | None
    level: float
    notes: tuple[str, ...]
    # Oracles are computed on first access: they need the samples in score order, which
    # takes several times as long as everything else together.
    oracles_: Mapping[str, Metric]

    def __getitem__(self, name: str) -> float:
        if name in self.oracles_:
            row = self.oracles_[name]
            # The sweep accumulates rounding errors; counting at its threshold is exact.
            threshold = self.sweep.best(row.best_of).threshold
            return float(row.function(self.scores, threshold, **row.params))
        if name not in self.values_:
            msg = f"Evaluation: name must be one of {', '.join(self)}, got {name!r}"
            raise KeyError(msg)
        return self.values_[name]

    def __iter__(self) -> Iterator[str]:
        yield from (*self.values_, *self.oracles_)

    def __len__(self) -> int:
        return len(self.values_) + len(self.oracles_)

    def __repr__(self) -> str:
        first = list(self.values_.items())[:3]
        shown = ", ".join(f"{name}={value:.4f}" for name, value in first)
        return (
            f"Evaluation(n_known={self.scores.n_known}, "
            f"n_unknown={self.scores.n_unknown}, {shown}, ...{len(self)} metrics)"
        )

    @cached_property
    def oscr_curve(self) -> curves.OSCRCurve:
        """Correct classification rate over false positive rate."""
        return curves.oscr_curve(self.scores)

    @cached_property
    def sweep(self) -> curves.Sweep:
        """Every thresholded metric at every threshold."""
        return curves.sweep(self.scores)

    def rows(self) -> list[dict[str, Any]]:
        """Return one plain record per metric: name, value, low, high, method."""
        parts = ("low", "high", "method")
        return [
            {"metric": name, "value": value}
            | {part: getattr(self.intervals.get(name), part, None) for part in parts}
            for name, value in self.items()
        ]

    def to_frame(self) -> Any:
        """Return a pandas table with one row per metric."""
        pd = _optional.optional("pandas", "tables")
        return pd.DataFrame(self.rows()).set_index("metric")

    def to_json(self) -> str:
        """Return everything as JSON."""
        document = {
            "n_known": self.scores.n_known,
            "n_unknown": self.scores.n_unknown,
            "threshold": self.threshold,
            "level": self.level,
            "metrics": {
                row.pop("metric"): {k: v for k, v in row.items() if v is not None}
                for row in self.rows()
            },
            "notes": list(self.notes),
        }
        return json.dumps(without_infinity(document), indent=2, allow_nan=False)


def without_infinity(value: Any) -> Any:
    """Replace ±inf, which JSON lacks, by text."""
    if isinstance(value, dict):
        return {name: without_infinity(one) for name, one in value.items()}
    return str(value) if isinstance(value, float) and np.isinf(value) else value


@runtime_checkable
class ChosenThreshold(Protocol):
    """A threshold with its provenance: `openset.thresholds.Threshold`."""

    @property
    def value(self) -> float:
        """The threshold itself."""

    def check_disjoint(self, scores: Scores, *, caller: str) -> None:
        """Raise if these are the samples it was chosen on."""


def evaluate(
    scores: Scores,
    threshold: float | ChosenThreshold | None = None,
    level: float = 0.95,
    *,
    metrics: Sequence[str | Metric] | None = None,
    bootstrap: int = 0,
    clusters: Literal["groups"] | None = None,
    rng: np.random.Generator | int = 0,
) -> Evaluation:
    """Compute every metric of the scores from one sort.

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    threshold
        Also evaluate decisions at this threshold, chosen on *other* data: a number, or
        the result of a function of :mod:`openset.thresholds`, which raises if used on
        the samples it was chosen on.
    level
        Confidence level of the intervals: U-statistic variance for AUROC and OpenAUC,
        Wilson's interval for rates.
    metrics
        Report these only: names as :func:`openset.metrics.get` takes them. By default
        all that are built in, registered, or offered by installed packages.
    bootstrap
        Number of resampled data sets, at least 2, for intervals of the other metrics;
        0 for none.
    clusters
        ``"groups"`` resamples whole groups, and then *all* intervals come from the
        bootstrap: the formulas take samples as independent.
    rng
        Seed or generator of the bootstrap.

    Examples
    --------
    >>> result = evaluate(
    ...     Scores(
    ...         labels=[0, 1, 1, 0, -1, -1],
    ...         predicted=[0, 1, 0, 0, 1, 0],
    ...         known=[0.9, 0.8, 0.7, 0.3, 0.6, 0.1],
    ...     ),
    ...     threshold=0.5,
    ... )
    >>> result["accuracy"], result["auroc"], result["openauc"], result["ccr"]
    (0.75, 0.875, 0.625, 0.5)
    """
    need_both_sides("evaluate", scores)
    _check.open_unit("evaluate", "level", level)
    if bootstrap:
        remedy = "It is the number of resampled data sets; 0 means no resampling"
        _check.integer("evaluate", "bootstrap", bootstrap, low=2, remedy=remedy)
    rows = _rows(metrics)
    if isinstance(threshold, ChosenThreshold):
        threshold.check_disjoint(scores, caller="evaluate")
        threshold = threshold.value
    elif threshold is not None:
        threshold = _check.threshold("evaluate", threshold)
    if clusters is not None:
        if not bootstrap:
            _check.fail("evaluate", "bootstrap", "given with clusters", bootstrap)
        need_spread("evaluate", scores, clusters)
    counts = ranking_counts(scores)
    values, undefined = _values(rows, scores, counts, threshold)
    reported = {row.key: row for row in rows if row.key in values}
    intervals = {}
    for key, row in reported.items():
        found = _by_formula(row, values[key], counts, level)
        if found is not None and clusters is None:
            intervals[key] = found
    if bootstrap and min(scores.n_known, scores.n_unknown) > 1:
        wanted = {
            key: row
            for key, row in reported.items()
            if row.kind in _WITH_INTERVALS
            and (clusters or not (row.variance or row.share_of))
        }
        drawn = replicates(
            scores,
            wanted,
            threshold=threshold,
            resamples=bootstrap,
            clusters=clusters,
            rng=rng,
        )
        intervals |= {key: percentile(drawn[key], level) for key in wanted}
    return Evaluation(
        scores=scores,
        counts_=counts,
        values_=values,
        intervals=intervals,
        threshold=threshold,
        level=level,
        notes=(
            *_notes(rows, scores, counts, intervals.get("auroc"), threshold),
            *undefined,
        ),
        oracles_={row.key: row for row in rows if _is_swept(row)},
    )


def _rows(metrics: Sequence[str | Metric] | None) -> list[Metric]:
    """Return the rows to report."""
    if metrics is None:
        return [row for row in table_of_metrics() if row.kind in _REPORTED]
    rows = [get(name, caller="evaluate", argument="metrics") for name in metrics]
    for row in rows:
        if row.kind not in _REPORTED:
            rule, remedy = "one number of one set of scores", f"metrics.{row.name}"
            _check.fail("evaluate", "metrics", rule, repr(row.key), f"Call {remedy}")
    return rows


def _is_swept(row: Metric) -> bool:
    return row.best_of not in {"", "osa"}


def _values(
    rows: Sequence[Metric],
    scores: Scores,
    counts: RankingCounts,
    threshold: float | None,
) -> tuple[dict[str, float], list[str]]:
    """Compute the rows from shared counts; note those undefined on these data."""
    of_kind: dict[str, tuple[Any, ...]] = {"ranking": (counts,)}
    if any(row.kind in {"closed", "threshold"} for row in rows):
        by_class = class_counts(scores, -np.inf if threshold is None else threshold)
        of_kind |= {"closed": (by_class,), "threshold": (by_class, threshold)}
    values, undefined = {}, []
    for row in rows:
        if _is_swept(row) or (row.kind == "threshold" and threshold is None):
            continue
        try:
            if row.best_of == "osa":  # needs no sweep
                values[row.key] = curves.optimum(counts, **row.params).value
            elif row.takes_counts and row.kind in of_kind:
                values[row.key] = row.function(*of_kind[row.kind], **row.params)
            else:
                values[row.key] = row.value(scores, threshold)
        except UndefinedMetricError as error:
            undefined.append(f"{row.key} is not defined on these data ({error})")
    return values, undefined


def _by_formula(
    row: Metric, value: float, counts: RankingCounts, level: float
) -> Interval | None:
    if row.variance is not None:
        return on_logit_scale(value, row.variance(counts), level)
    if row.share_of is not None:
        n = counts.n_known if row.share_of == "known" else counts.n_unknown
        return wilson(round(value * n), n, level)
    return None


def by_group(
    scores: Scores,
    threshold: float | ChosenThreshold | None = None,
    level: float = 0.95,
    **options: Any,
) -> dict[str, Evaluation]:
    """Evaluate all known samples against the unknown samples of each group.

    Examples
    --------
    >>> scores = Scores(
    ...     labels=[0, 0, -1, -1],
    ...     predicted=[0, 0, 0, 0],
    ...     known=[4.0, 2.0, 3.0, 1.0],
    ...     groups=["", "", "near", "far"],
    ... )
    >>> {name: e["auroc"] for name, e in by_group(scores).items()}
    {'far': 1.0, 'near': 0.5}
    """
    need_both_sides("by_group", scores)
    if scores.groups is None:
        msg = "by_group: scores must have groups, got none. Give Scores(groups=...)"
        raise ValueError(msg)
    return {
        str(name): evaluate(
            scores.take(~scores.is_unknown | (scores.groups == name)),
            threshold,
            level,
            **options,
        )
        for name in np.unique(scores.groups[scores.is_unknown])
    }


def _notes(
    rows: Sequence[Metric],
    scores: Scores,
    counts: RankingCounts,
    auroc: Interval | None,
    threshold: float | None,
) -> Iterator[str]:
    low, high = counts.values[-1], counts.values[1]
    if threshold is not None and not low <= threshold <= high:
        yield (
            f"the threshold {threshold:g} is outside of the scores, {low:.3g} to "
            f"{high:.3g}: is it on their scale? (openset detectors lists scales)"
        )
    if auroc is not None and auroc.high < 0.5:
        yield (
            "AUROC is below 0.5: unknown samples score higher. Is the sign right? "
            "Higher must mean more known"
        )
    if tied := float(counts.sums.known.tied):
        yield (
            f"{100 * tied / (scores.n_known * scores.n_unknown):.3g}% of the "
            "known-unknown pairs are tied: OpenAUC is between openauc_strict and "
            "openauc_optimistic"
        )
    fprs = [row.params["fpr"] for row in rows if row.name == "ccr_at_fpr"]
    if coarse := [f"{fpr:g}" for fpr in fprs if fpr * scores.n_unknown < 1]:
        yield (
            f"with only {scores.n_unknown} unknown samples, ccr_at_fpr at "
            f"{', '.join(coarse)} accepts none of them"
        )
