"""`evaluate`: every metric of one set of scores, from one sort."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from openset import _check, _extras, _io
from openset._types import UndefinedMetricError
from openset.metrics import _osa, _oscr
from openset.metrics._class_counts import class_counts
from openset.metrics._confusion import Confusion, confusion
from openset.metrics._osa import OSACurve, osa_curve
from openset.metrics._oscr import OSCRCurve
from openset.metrics._ranking_counts import RankingCounts, ranking_counts
from openset.metrics._registry import Metric, get
from openset.metrics._registry import table as table_of_metrics
from openset.metrics._sweep import Sweep, sweep
from openset.metrics.intervals import (
    Interval,
    need_spread,
    on_logit_scale,
    percentile,
    replicates,
    wilson,
)
from openset.scores import Scores, need_both_sides

# The metrics of one set of scores, with or without a threshold.
_REPORTED = ("closed", "ranking", "threshold", "oracle", "data")
_WITH_INTERVALS = ("closed", "ranking", "threshold")
# Averages over Scores.classes, whether or not they have samples.
_OVER_ALL_CLASSES = frozenset({"f_score", "youden", "normalized_accuracy"})


@dataclass(frozen=True, eq=False)
class Evaluation(Mapping[str, float]):
    """All metrics of one set of scores: a mapping from name to value.

    `intervals` holds the confidence intervals, for metrics that have one; `oscr_curve`,
    `osa_curve`, `sweep` and `confusion` give the curves behind the numbers. Entries
    ending in ``_best`` are oracles: the largest value over all thresholds *on these
    data*.
    """

    scores: Scores
    values_: Mapping[str, float]
    intervals: Mapping[str, Interval]
    threshold: float | None
    level: float
    n_known: int
    n_unknown: int
    notes: tuple[str, ...]
    ranking_counts_: RankingCounts
    # Oracles are computed on first access: they need the samples in score order, which
    # takes several times as long as everything else together.
    oracles_: Mapping[str, Metric]

    def __getitem__(self, name: str) -> float:
        if name in self.oracles_:
            row = self.oracles_[name]
            # The sweep accumulates rounding errors; counting at its threshold is exact.
            threshold = self.sweep.best(row.best_of).threshold
            return float(row.function(self.scores, threshold, **row.params))
        try:
            return self.values_[name]
        except KeyError:
            hint = ", ".join(self)
            msg = f"Evaluation: name must be one of {hint}, got {name!r}"
            raise KeyError(msg) from None

    def __iter__(self) -> Iterator[str]:
        yield from self.values_
        yield from self.oracles_

    def __len__(self) -> int:
        return len(self.values_) + len(self.oracles_)

    def __repr__(self) -> str:
        first = list(self.values_.items())[:3]
        shown = ", ".join(f"{name}={value:.4f}" for name, value in first)
        return (
            f"Evaluation(n_known={self.n_known}, n_unknown={self.n_unknown}, "
            f"{shown}, ...{len(self)} metrics)"
        )

    @cached_property
    def oscr_curve(self) -> OSCRCurve:
        """Correct classification rate over false positive rate."""
        return _oscr.from_counts(self.ranking_counts_)

    @cached_property
    def osa_curve(self) -> OSACurve:
        """Open-set accuracy over all thresholds."""
        return osa_curve(self.scores)

    @cached_property
    def osa_optimum(self) -> _osa.Optimum:
        """The oracle threshold of open-set accuracy."""
        return _osa.optimum(self.ranking_counts_)

    @cached_property
    def sweep(self) -> Sweep:
        """Every thresholded metric at every threshold."""
        return sweep(self.scores)

    @cached_property
    def confusion(self) -> Confusion:
        """Counts per class at the threshold."""
        if self.threshold is None:
            msg = "Evaluation.confusion: threshold must be given to evaluate, got None"
            raise ValueError(msg)
        return confusion(self.scores, self.threshold)

    def rows(self) -> list[dict[str, Any]]:
        """Return one plain record per metric: name, value, low, high, method."""
        records = []
        for name, value in self.items():
            interval = self.intervals.get(name)
            records.append(
                {
                    "metric": name,
                    "value": value,
                    "low": None if interval is None else interval.low,
                    "high": None if interval is None else interval.high,
                    "method": None if interval is None else interval.method,
                }
            )
        return records

    def to_frame(self) -> Any:
        """Return a pandas table with one row per metric."""
        pd = _extras.optional("Evaluation.to_frame", "pandas", name="tables")
        return pd.DataFrame(self.rows()).set_index("metric")

    def to_json(self, path: str | Path | None = None) -> str:
        """Return (and, given a path, write) everything as JSON."""
        document = {
            "n_known": self.n_known,
            "n_unknown": self.n_unknown,
            "threshold": self.threshold,
            "level": self.level,
            "metrics": {
                row.pop("metric"): {k: v for k, v in row.items() if v is not None}
                for row in self.rows()
            },
            "notes": list(self.notes),
        }
        text = json.dumps(_finite(document), indent=2, allow_nan=False)
        if path is not None:
            _io.put(Path(path), text)
        return text


@runtime_checkable
class ChosenThreshold(Protocol):
    """A threshold with its provenance: `openset.thresholds.Threshold`."""

    @property
    def value(self) -> float: ...

    @property
    def per_class(self) -> tuple[float, ...]: ...

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
        Confidence level of the intervals: U-statistic variance for AUROC, OpenAUC and
        partial OpenAUC; Wilson's interval for rates.
    metrics
        Report these only: keys of the table of metrics, or ``package.module:Name``. By
        default all that are built in, registered, or offered by installed packages.
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
    if threshold is not None:
        threshold = _number(threshold, scores)
    if clusters is not None:
        if not bootstrap:
            rule = "given with clusters"
            raise ValueError(
                _check.must(rule, caller="evaluate", name="bootstrap", got=bootstrap)
            )
        need_spread("evaluate", scores, clusters)
    table = ranking_counts(scores)
    values, undefined = _values(rows, scores, table, threshold)
    reported = {row.key: row for row in rows if row.key in values}
    intervals = {
        key: _by_formula(row, values[key], table, level)
        for key, row in reported.items()
    }
    # With one sample on a side there is nothing to resample, and no variance above.
    if bootstrap and min(table.n_known, table.n_unknown) > 1:
        wanted = {
            key: row
            for key, row in reported.items()
            if _is_resampled(row, in_clusters=clusters is not None)
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
    kept = {name: interval for name, interval in intervals.items() if interval}
    return Evaluation(
        scores=scores,
        values_=values,
        intervals=kept,
        threshold=threshold,
        level=level,
        n_known=table.n_known,
        n_unknown=table.n_unknown,
        notes=(
            *_direction_note(kept.get("auroc")),
            *_notes(rows, table),
            *_absent_classes_note(rows, scores),
            *undefined,
        ),
        ranking_counts_=table,
        oracles_={row.key: row for row in rows if _is_swept(row)},
    )


def _is_resampled(row: Metric, *, in_clusters: bool) -> bool:
    """Whether the interval of a metric comes from the bootstrap."""
    has_formula = bool(row.variance or row.share_of)
    return row.kind in _WITH_INTERVALS and (in_clusters or not has_formula)


def _rows(metrics: Sequence[str | Metric] | None) -> list[Metric]:
    """Return the rows to report."""
    if metrics is None:
        return [row for row in table_of_metrics() if row.kind in _REPORTED]
    rows = [get(name, caller="evaluate", argument="metrics") for name in metrics]
    for row in rows:
        if row.kind not in _REPORTED:
            msg = _check.must(
                "one number of one set of scores",
                caller="evaluate",
                name="metrics",
                got=repr(row.key),
                remedy=f"Call metrics.{row.name}",
            )
            raise ValueError(msg)
    return rows


def _is_swept(row: Metric) -> bool:
    return row.kind == "oracle" and row.kernel is None


def _values(
    rows: Sequence[Metric],
    scores: Scores,
    table: RankingCounts,
    threshold: float | None,
) -> tuple[dict[str, float], list[str]]:
    """Compute the rows from shared counts; note those undefined on these data."""
    counts: dict[str, Any] = {"ranking": table, "oracle": table}
    if threshold is not None and any(row.kind == "threshold" for row in rows):
        counts["threshold"] = class_counts(scores, threshold, caller="evaluate")
    values, undefined = {}, []
    for row in rows:
        if _is_swept(row) or (row.kind == "threshold" and threshold is None):
            continue
        try:
            # Metrics without rejection have a cheaper function of their own.
            if row.kernel is not None and row.kind in counts:
                values[row.key] = float(row.kernel(counts[row.kind], **row.params))
            else:
                values[row.key] = row.value(scores, threshold)
        except UndefinedMetricError as error:
            undefined.append(f"{row.key} is not defined on these data ({error})")
    return values, undefined


def _by_formula(
    row: Metric, value: float, table: RankingCounts, level: float
) -> Interval | None:
    if row.variance is not None:
        variance, freedom = row.variance(table, **row.params)
        return on_logit_scale(value, variance, level, freedom=freedom)
    if row.share_of is not None:
        n = table.n_known if row.share_of == "known" else table.n_unknown
        return wilson(round(value * n), n, level)
    return None


def _number(threshold: float | ChosenThreshold, scores: Scores) -> float:
    if not isinstance(threshold, ChosenThreshold):
        return _check.threshold("evaluate", threshold)
    threshold.check_disjoint(scores, caller="evaluate")
    if threshold.per_class:
        msg = _check.must(
            "one number",
            caller="evaluate",
            name="threshold",
            got="one for each class",
            remedy="Use thresholds.operate(threshold, scores); or scores, value = "
            "threshold.cut(scores), then evaluate(scores, value)",
        )
        raise ValueError(msg)
    return threshold.value


def by_group(
    scores: Scores,
    threshold: float | ChosenThreshold | None = None,
    level: float = 0.95,
    *,
    metrics: Sequence[str | Metric] | None = None,
    bootstrap: int = 0,
    rng: np.random.Generator | int = 0,
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
    found = np.unique(scores.groups[scores.is_unknown])
    return {
        str(name): evaluate(
            scores.take(~scores.is_unknown | (scores.groups == name)),
            threshold,
            level,
            metrics=metrics,
            bootstrap=bootstrap,
            rng=rng,
        )
        for name in found
    }


def _direction_note(auroc: Interval | None) -> list[str]:
    if auroc is None or auroc.high >= 0.5:
        return []
    return [
        "AUROC is below 0.5: unknown samples score higher. Is the sign right? Higher "
        "must mean more known"
    ]


def _absent_classes_note(rows: Sequence[Metric], scores: Scores) -> list[str]:
    averaged = sorted({row.name for row in rows} & _OVER_ALL_CLASSES)
    if scores.n_classes is None or not averaged:
        return []
    n_present = np.unique(scores.labels[~scores.is_unknown]).size
    if n_present == scores.n_classes:
        return []
    return [
        f"{scores.n_classes - n_present} of the {scores.n_classes} classes have no "
        f"samples, and count in the averages of {', '.join(averaged)}. To average over "
        "the classes that occur: Scores(n_classes=None)"
    ]


def _notes(rows: Sequence[Metric], table: RankingCounts) -> list[str]:
    notes = []
    tied = float(table.sums.known.tied)
    if tied:
        share = 100 * tied / (table.n_known * table.n_unknown)
        notes.append(
            f"{share:.3g}% of the known-unknown pairs are tied: OpenAUC is between "
            "openauc_strict and openauc_optimistic"
        )
    coarse = [
        f"{row.params['fpr']:g}"
        for row in rows
        if row.name == "ccr_at_fpr" and row.params["fpr"] * table.n_unknown < 1
    ]
    if coarse:
        notes.append(
            f"with only {table.n_unknown} unknown samples, ccr_at_fpr at "
            f"{', '.join(coarse)} accepts none of them"
        )
    return notes


def _finite(value: Any) -> Any:
    """Replace ±inf, which JSON lacks, by strings."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value
