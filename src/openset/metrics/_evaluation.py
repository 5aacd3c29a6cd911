"""`evaluate`: every metric of one set of scores, from one sort."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from openset import _check, _io
from openset.metrics import (
    _at_rate,
    _aupr,
    _auroc,
    _fscore,
    _imbalance,
    _nacc,
    _openauc,
    _osa,
    _oscr,
    _youden,
)
from openset.metrics._class_counts import ClassCounts, class_counts
from openset.metrics._confusion import Confusion, confusion
from openset.metrics._intervals import (
    Interval,
    need_spread,
    on_logit_scale,
    percentile,
    replicates,
)
from openset.metrics._intervals import wilson as _wilson
from openset.metrics._osa import OSACurve, osa_curve
from openset.metrics._oscr import OSCRCurve
from openset.metrics._ranking_counts import (
    Moments,
    RankingCounts,
    moments,
    ranking_counts,
)
from openset.metrics._sweep import Sweep, sweep
from openset.metrics._variance import pair_variance, partial_variance
from openset.scores import Scores, need_both_sides

CCR_AT = (0.1, 0.01, 0.001)
"""False positive rates at which `evaluate` reports the correct classification rate."""

PARTIAL = 0.1
"""The bound β of the partial OpenAUC that `evaluate` reports."""

# Best over all thresholds: oracles, computed when first asked for (they need the
# samples in score order, several times the price of everything else together).
_SWEPT: dict[str, tuple[str, Callable[[ClassCounts], Any]]] = {
    "f_score_best": ("f_macro", _fscore.kernel),
    "f_score_micro_best": ("f_micro", partial(_fscore.kernel, average="micro")),
    "youden_best": ("youden", _youden.kernel),
    "normalized_accuracy_best": ("nacc_precision", _nacc.kernel),
    "halfpoint_score_best": ("halfpoint", _imbalance.halfpoint_kernel),
    "overall_score_best": ("overall", _imbalance.overall_kernel),
}

# How the bootstrap computes an entry: metric name, parameters.
_BOOTSTRAPPED: dict[str, tuple[str, dict[str, Any]]] = {
    "fpr_at_tpr": ("fpr_at_tpr", {}),
    "fpr_at_tpr_unknown": ("fpr_at_tpr", {"positive": "unknown"}),
    "error_at_tpr": ("error_at_tpr", {}),
    "aupr": ("aupr", {}),
    "aupr_unknown": ("aupr", {"positive": "unknown"}),
    **{f"ccr_at_fpr_{rate:g}": ("ccr_at_fpr", {"fpr": rate}) for rate in CCR_AT},
    "acc_times_auroc": ("acc_times_auroc", {}),
    "acc_plus_auroc": ("acc_plus_auroc", {}),
    "inner_score": ("inner_score", {}),
}
_BOOTSTRAPPED_AT_THRESHOLD: dict[str, tuple[str, dict[str, Any]]] = {
    "osa": ("osa", {}),
    "f_score": ("f_score", {}),
    "f_score_micro": ("f_score", {"average": "micro"}),
    "youden": ("youden", {}),
    "youden_binary": ("youden", {"kind": "binary"}),
    "normalized_accuracy": ("normalized_accuracy", {}),
    "normalized_accuracy_recall": ("normalized_accuracy", {"aus": "recall"}),
    "outer_score": ("outer_score", {}),
    "halfpoint_score": ("halfpoint_score", {}),
    "overall_score": ("overall_score", {}),
}


@dataclass(frozen=True, eq=False)
class Evaluation(Mapping[str, float]):
    """All metrics of one set of scores: a mapping from name to value.

    `intervals` holds those that have one; `oscr_curve`, `osa_curve`, `sweep` and
    `confusion` give the curves behind the numbers. Entries ending in ``_best`` are
    oracles: the largest value over all thresholds *of these very data*.
    """

    scores: Scores = field(repr=False)
    values_: Mapping[str, float] = field(repr=False)
    intervals: Mapping[str, Interval] = field(repr=False)
    threshold: float | None
    level: float
    n_known: int
    n_unknown: int
    notes: tuple[str, ...]
    ranking_counts_: RankingCounts = field(repr=False)

    def __getitem__(self, name: str) -> float:
        if name in _SWEPT:
            column, kernel = _SWEPT[name]
            # The sweep adds up; counting anew at its threshold gives the exact value.
            threshold = self.sweep.best(column).threshold
            return float(
                kernel(class_counts(self.scores, threshold, caller="evaluate"))
            )
        try:
            return self.values_[name]
        except KeyError:
            hint = ", ".join(self)
            msg = f"Evaluation: name must be one of {hint}, got {name!r}"
            raise KeyError(msg) from None

    def __iter__(self) -> Iterator[str]:
        yield from self.values_
        yield from _SWEPT

    def __len__(self) -> int:
        return len(self.values_) + len(_SWEPT)

    def __repr__(self) -> str:
        return (
            f"Evaluation(n_known={self.n_known}, n_unknown={self.n_unknown}, "
            f"openauc={self['openauc']:.4f}, auroc={self['auroc']:.4f}, "
            f"accuracy={self['accuracy']:.4f}, ...{len(self)} metrics)"
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
        pd = _io.optional("Evaluation.to_frame", "pandas", name="tables")
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
            _io.write(Path(path), lambda stream: stream.write(text.encode()))
        return text


@runtime_checkable
class Chosen(Protocol):
    """A threshold that knows where it comes from: `openset.thresholds.Threshold`."""

    @property
    def value(self) -> float: ...

    @property
    def per_class(self) -> tuple[float, ...]: ...

    def check_disjoint(self, scores: Scores, *, caller: str) -> None:
        """Refuse the samples it was chosen on."""


def evaluate(
    scores: Scores,
    threshold: float | Chosen | None = None,
    level: float = 0.95,
    *,
    bootstrap: int = 0,
    clusters: Literal["groups"] | None = None,
    rng: np.random.Generator | int = 0,
) -> Evaluation:
    """Compute every metric of the scores from one sort.

    Parameters
    ----------
    scores
        Labelled scores with knowns and unknowns.
    threshold
        Also evaluate decisions at this threshold (chosen on *other* data): a number,
        or what a function of :mod:`openset.thresholds` chose, which refuses the very
        samples it was chosen on.
    level
        Confidence level of the intervals: U-statistic variance for AUROC, OpenAUC and
        partial OpenAUC; Wilson's for plain shares.
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
    _check.number(
        "evaluate", "level", level, low=0, high=1, open_low=True, open_high=True
    )
    if bootstrap:
        remedy = "It is a number of resampled data sets; 0 is for no resampling"
        _check.integer("evaluate", "bootstrap", bootstrap, low=2, remedy=remedy)
    inner = _imbalance.inner_score(scores)
    table = ranking_counts(scores)
    sums = moments(table)
    values = {"accuracy": float(table.accuracy), "inner_score": inner}
    values |= _ranking_values(table, sums)
    intervals = _ranking_intervals(values, table, sums, level)
    if threshold is not None:
        threshold = _number(threshold, scores)
        at_threshold, at_threshold_intervals = _at_threshold(scores, threshold, level)
        values |= at_threshold
        intervals |= at_threshold_intervals
    if clusters is not None and not bootstrap:
        msg = _check.must(
            "given with clusters", caller="evaluate", name="bootstrap", got=bootstrap
        )
        raise ValueError(msg)
    if clusters is not None:
        need_spread("evaluate", scores, clusters)
    # One sample a side has no spread to draw from, as it has no variance above.
    if bootstrap and (clusters is not None or min(table.n_known, table.n_unknown) > 1):
        wanted = _wanted(threshold, everything=clusters is not None)
        drawn = replicates(
            scores,
            wanted,
            threshold=threshold,
            resamples=bootstrap,
            clusters=clusters,
            rng=rng,
        )
        intervals |= {name: percentile(drawn[name], level) for name in wanted}
    kept = {name: interval for name, interval in intervals.items() if interval}
    return Evaluation(
        scores=scores,
        values_=values,
        intervals=kept,
        threshold=threshold,
        level=level,
        n_known=table.n_known,
        n_unknown=table.n_unknown,
        notes=_notes(table, sums),
        ranking_counts_=table,
    )


def _number(threshold: float | Chosen, scores: Scores) -> float:
    if not isinstance(threshold, Chosen):
        return _check.threshold("evaluate", threshold)
    threshold.check_disjoint(scores, caller="evaluate")
    if threshold.per_class:
        msg = _check.must(
            "one number",
            caller="evaluate",
            name="threshold",
            got="one for each class",
            remedy="Use thresholds.operate(threshold, scores), or evaluate what "
            "threshold.cut(scores) returns: scores that are margins, and 0",
        )
        raise ValueError(msg)
    return threshold.value


def by_group(
    scores: Scores,
    threshold: float | Chosen | None = None,
    level: float = 0.95,
    *,
    bootstrap: int = 0,
    rng: np.random.Generator | int = 0,
) -> dict[str, Evaluation]:
    """Evaluate all knowns against the unknowns of each group.

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
            bootstrap=bootstrap,
            rng=rng,
        )
        for name in found
    }


def _ranking_values(table: RankingCounts, sums: Moments) -> dict[str, float]:
    accuracy, auroc = float(table.accuracy), float(_auroc.from_moments(table, sums))
    return {
        "accuracy": accuracy,
        "auroc": auroc,
        "openauc": float(_openauc.from_moments(table, sums)),
        "openauc_strict": float(_openauc.from_moments(table, sums, ties="strict")),
        "openauc_optimistic": float(
            _openauc.from_moments(table, sums, ties="optimistic")
        ),
        "partial_openauc": float(_openauc.partial_kernel(table, max_fpr=PARTIAL)),
        "fpr_at_tpr": float(_at_rate.fpr_kernel(table)),
        "fpr_at_tpr_unknown": float(_at_rate.fpr_kernel(table, positive="unknown")),
        "error_at_tpr": float(_at_rate.error_kernel(table)),
        "aupr": float(_aupr.from_moments(table, sums)),
        "aupr_unknown": float(_aupr.from_moments(table, sums, positive="unknown")),
        **{
            f"ccr_at_fpr_{rate:g}": float(_oscr.ccr_kernel(table, fpr=rate))
            for rate in CCR_AT
        },
        "acc_times_auroc": accuracy * auroc,
        "acc_plus_auroc": accuracy + auroc,
        "osa_best": _osa.optimum(table).value,
        "imbalance_ratio": table.n_known / table.n_unknown,
    }


def _ranking_intervals(
    values: Mapping[str, float], table: RankingCounts, sums: Moments, level: float
) -> dict[str, Interval | None]:
    n_known, n_unknown = table.n_known, table.n_unknown
    variances = {
        "auroc": pair_variance(sums.known, n_known, n_unknown),
        "openauc": pair_variance(sums.correct, n_known, n_unknown),
    }
    intervals: dict[str, Interval | None] = {
        name: on_logit_scale(values[name], variance, level)
        for name, variance in variances.items()
    }
    variance, freedom = partial_variance(table, PARTIAL)
    intervals["partial_openauc"] = on_logit_scale(
        values["partial_openauc"], variance, level, freedom=freedom
    )
    intervals["accuracy"] = _wilson(int(table.n_correct), n_known, level)
    return intervals


def _at_threshold(
    scores: Scores, threshold: float, level: float
) -> tuple[dict[str, float], dict[str, Interval | None]]:
    counts = class_counts(scores, threshold, caller="evaluate")
    hits, rejected = counts.hits.sum(), counts.rejected_unknown
    n_known, n_unknown = scores.n_known, scores.n_unknown
    values = {
        "ccr": hits / n_known,
        "urr": rejected / n_unknown,
        "osa": (hits + rejected) / len(scores),
        "f_score": _fscore.kernel(counts),
        "f_score_micro": _fscore.kernel(counts, average="micro"),
        "youden": _youden.kernel(counts),
        "youden_binary": _youden.kernel(counts, kind="binary"),
        "normalized_accuracy": _nacc.kernel(counts),
        "normalized_accuracy_recall": _nacc.kernel(counts, aus="recall"),
        "outer_score": _imbalance.outer_kernel(counts),
        "halfpoint_score": _imbalance.halfpoint_kernel(counts),
        "overall_score": _imbalance.overall_kernel(counts),
    }
    intervals: dict[str, Interval | None] = {
        "ccr": _wilson(int(hits), n_known, level),
        "urr": _wilson(int(rejected), n_unknown, level),
    }
    return {name: float(value) for name, value in values.items()}, intervals


def _wanted(
    threshold: float | None, *, everything: bool
) -> dict[str, tuple[str, dict[str, Any]]]:
    """Name what to bootstrap: what has no formula, or everything."""
    wanted = dict(_BOOTSTRAPPED)
    formulas = ["accuracy", "auroc", "openauc", "partial_openauc"]
    if threshold is not None:
        wanted |= _BOOTSTRAPPED_AT_THRESHOLD
        formulas += ["ccr", "urr"]
    if everything:
        wanted |= {name: (name, {}) for name in formulas}
    return wanted


def _notes(table: RankingCounts, sums: Moments) -> tuple[str, ...]:
    notes = []
    pairs = table.n_known * table.n_unknown
    tied = float(sums.known.tied)
    if tied:
        notes.append(
            f"{100 * tied / pairs:.3g}% of the known-unknown pairs are tied: OpenAUC "
            f"is between openauc_strict and openauc_optimistic"
        )
    coarse = [rate for rate in CCR_AT if rate * table.n_unknown < 1]
    if coarse:
        rates = ", ".join(f"{rate:g}" for rate in coarse)
        notes.append(
            f"with {table.n_unknown} unknowns, ccr_at_fpr at {rates} is the rate with "
            f"no unknown accepted"
        )
    return tuple(notes)


def _finite(value: Any) -> Any:
    """Replace ±inf, which JSON lacks, by strings."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value
