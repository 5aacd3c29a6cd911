"""Lower and upper bounds of metrics, from counts of samples in bins."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import inf, nextafter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import UndefinedMetricError
from openset.metrics import bins
from openset.metrics._class_counts import ClassCounts, ratio
from openset.metrics._osa import optimum, osa_of
from openset.metrics._ranking_counts import RankingCounts
from openset.metrics._rates import Rates
from openset.metrics._registry import Metric
from openset.metrics._weight import ALPHA
from openset.scores import Scores

Ints = NDArray[np.int64]

KINDS = ("correct", "wrong", "unknown")
"""Rows of the counts: known samples classified correctly, the others, unknowns."""

# Sums that are not of integers below 2**53 depend on their order in the last digits.
_ROUNDING = 1e-12
_ROUNDING_AURC = 1e-11  # a sum of rounded quotients, one per level
_EXACT_PAIRS = 1 << 53

_RANKING = (
    "auroc",
    "openauc",
    "partial_openauc",
    "fpr_at_tpr",
    "ccr_at_fpr",
    "acc_times_auroc",
    "acc_plus_auroc",
    "aurc",
    "augrc",
)
_THRESHOLD = ("osa", "ccr", "urr", "f_score", "youden", "scod_risk", "oaa")
# Other variants need counts per class.
_VARIANT = {"f_score": ("average", "micro"), "youden": ("kind", "binary")}
ALWAYS = (
    "accuracy",
    "openauc",
    "auroc",
    "fpr_at_tpr",
    "fpr_at_tpr_unknown",
    "ccr_at_fpr_0.1",
    "ccr_at_fpr_0.01",
    "ccr_at_fpr_0.001",
    "partial_openauc",
    "aurc",
    "augrc",
    "aurc_known",
    "augrc_known",
    "osa_best",
    "f_score_micro_best",
)
AT_THRESHOLD = (
    "osa",
    "ccr",
    "urr",
    "f_score_micro",
    "youden_binary",
    "scod_risk",
    "oaa",
)
# Of each kind of sample in an interval, none or all are accepted.
_CORNERS = np.array(list(product((0, 1), repeat=len(KINDS))))


@dataclass(frozen=True)
class Bracket:
    """A lower and an upper bound of an exact value, both included.

    Examples
    --------
    >>> Bracket(0.25, 0.5).width, 0.3 in Bracket(0.25, 0.5)
    (0.25, True)
    >>> low, high = Bracket(0.25, 0.5)
    """

    low: float
    high: float

    @property
    def width(self) -> float:
        """Upper minus lower bound; 0 if the value is known exactly."""
        return self.high - self.low

    @property
    def middle(self) -> float:
        """The mean of the bounds: at most half a width from the exact value."""
        return (self.low + self.high) / 2

    def __contains__(self, value: object) -> bool:
        return self.low <= value <= self.high  # type: ignore[operator]

    def __iter__(self) -> Iterator[float]:
        yield self.low
        yield self.high


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds of metrics, from tables of counts that do not change any more."""

    tables: Mapping[str, Ints]
    n_correct: int
    n_known: int
    n_unknown: int

    def bracket(
        self,
        row: Metric,
        threshold: float | Literal["best"] | None,
        params: Mapping[str, Any],
    ) -> Bracket:
        """Return the bounds of a metric; see :meth:`Sketch.bracket`."""
        if row.kind == "oracle":
            threshold = "best"
        options = {**row.params, **params}
        _need_counted(row, options, params)
        caller = f"Sketch.bracket({row.key!r})"
        if options.get("over") != "known" or not self.n_known:
            _check.both_sides(caller, self.n_known, self.n_unknown)
        if row.name not in _THRESHOLD:
            if threshold is not None:
                rule, got = "left out: the metric takes none", repr(threshold)
                raise ValueError(
                    _check.must(rule, caller=caller, name="threshold", got=got)
                )
            return self._ranking(row, options)
        if threshold is None:
            rule = "a number or 'best'"
            raise ValueError(
                _check.must(rule, caller=caller, name="threshold", got="none")
            )
        row.function(_PROBE, 0.0, **options)  # checks the parameters
        if threshold == "best":
            return self._best(row.name, options)
        return self._at(row, _check.threshold("Sketch.bracket", threshold), options)

    def _ranking(self, row: Metric, options: dict[str, Any]) -> Bracket:
        row.function(_PROBE, **options)  # checks the parameters
        name = row.name
        if name == "accuracy":
            value = self.n_correct / self.n_known
            return Bracket(value, value)
        kernel: Callable[..., Any] = row.kernel  # type: ignore[assignment]
        ends = [float(kernel(table, **options)) for table in self._orders]
        n_pairs = {
            "auroc": self.n_known * self.n_unknown,
            "openauc": self.n_known * self.n_unknown,
            "augrc": 2 * (self.n_known + self.n_unknown) ** 2,  # ties count half
            "fpr_at_tpr": 0,
            "ccr_at_fpr": 0,
        }
        margin = _ROUNDING_AURC if name == "aurc" else _ROUNDING
        if n_pairs.get(name, _EXACT_PAIRS) < _EXACT_PAIRS:
            margin = 0.0
        return Bracket(min(ends) - margin, max(ends) + margin)

    def _best(self, name: str, options: dict[str, Any]) -> Bracket:
        low, high = (_best_of(name, table, options) for table in self._orders)
        # Sweeps take values this close for equal, and return the smallest threshold.
        return Bracket(low - _ROUNDING, high + _ROUNDING)

    def _at(self, row: Metric, threshold: float, options: dict[str, Any]) -> Bracket:
        cells = self._intervals
        numbers = np.array([threshold, nextafter(threshold, -inf)])
        at, before = bins.positions_numpy(numbers)
        # A threshold that is the first number of its interval accepts all of it.
        is_open = (cells.first <= at) & (at <= cells.last) & (before >= cells.first)
        is_open &= ~cells.is_single
        accepted = cells.counts[:, (cells.last >= at) & ~is_open].sum(axis=1)
        unsure = cells.counts[:, is_open].sum(axis=1)
        # Each metric is a quotient of two linear functions of the accepted samples of
        # each kind: it is smallest and largest at corners.
        corners = accepted + unsure * _CORNERS
        if row.name == "osa":
            alpha = options.get("alpha", ALPHA)
            values = np.array([osa_of(self._rates(*one), alpha) for one in corners])
        else:
            kernel: Callable[..., Any] = row.kernel  # type: ignore[assignment]
            values = kernel(self._pooled(corners), **options)
        margin = 0.0
        if row.name == "scod_risk":
            values = values[_has_risk(row, corners, options.get("alpha"))]
            # With weights, numerator and denominator are rounded before they divide.
            margin = _ROUNDING * max(1.0, values.max()) if unsure.any() else 0.0
        return Bracket(float(values.min()) - margin, float(values.max()) + margin)

    def _rates(self, correct: int, wrong: int, unknown: int) -> Rates:
        """Return the counts of decisions if this many of each kind are accepted."""
        return Rates(
            n_known=self.n_known,
            n_unknown=self.n_unknown,
            n_correct=self.n_correct,
            n_accepted_known=int(correct + wrong),
            n_accepted_correct=int(correct),
            n_rejected_unknown=self.n_unknown - int(unknown),
        )

    def _pooled(self, accepted: Ints) -> ClassCounts:
        """Return the same counts for rows of accepted samples, as of one class.

        Metrics that only add up classes do not see the difference.
        """
        correct, wrong, unknown = accepted.astype(np.float64).T[:, :, None]
        same = np.ones_like(correct)
        return ClassCounts(
            support=same * self.n_known,
            closed_hits=same * self.n_correct,
            closed_false=same * (self.n_known - self.n_correct),
            hits=correct,
            false_known=wrong,
            false_unknown=unknown,
            n_unknown=same[:, 0] * self.n_unknown,
        )

    @cached_property
    def _intervals(self) -> bins.Intervals:
        return bins.intervals(**self.tables)

    @cached_property
    def _orders(self) -> tuple[RankingCounts, RankingCounts]:
        """The worst and the best order that the counts allow.

        Worst: in each interval unknown samples score highest, then wrong ones, then
        correct ones. Best: the other way round. Any other order, with ties or without,
        gives every metric here a value between the two.
        """
        cells = self._intervals
        return _levels(cells, (2, 1, 0)), _levels(cells, (0, 1, 2))


def _need_counted(
    row: Metric, options: Mapping[str, Any], params: Mapping[str, Any]
) -> None:
    """Raise unless the counts suffice for the metric."""
    is_counted = row.name in (*_RANKING, *_THRESHOLD, "accuracy")
    option, value = _VARIANT.get(row.name, ("", None))
    if is_counted and options.get(option) == value:
        return
    msg = _check.must(
        f"one of {', '.join((*_RANKING, *_THRESHOLD, 'accuracy'))}",
        caller="Sketch.bracket",
        name="metric",
        got=f"{row.key!r} {params or ''}".strip(),
        remedy="F needs average='micro', Youden's index kind='binary'. Averages over "
        "classes need counts per class, and AUPR the order of the known "
        "samples within a bin: use Accumulator, which keeps all scores",
    )
    raise ValueError(msg)


def _levels(cells: bins.Intervals, order: tuple[int, int, int]) -> RankingCounts:
    m = cells.is_single.size
    added = np.zeros((len(KINDS), m, len(KINDS)), np.int64)  # kind, interval, level
    for level, kind in enumerate(order):
        added[kind, :, level] = np.where(cells.is_single, 0, cells.counts[kind])
    added[:, :, 0] += np.where(cells.is_single, cells.counts, 0)  # tied
    steps = added.reshape(len(KINDS), -1)
    correct, wrong, unknown = np.concatenate(
        [np.zeros((len(KINDS), 1), np.int64), np.cumsum(steps, axis=1)], axis=1
    )
    values = -np.arange(correct.size, dtype=np.float64)
    values[: 2 if cells.first[0] == _INFINITY else 1] = inf
    return RankingCounts(
        values=values, known=correct + wrong, correct=correct, unknown=unknown
    )


def _best_of(name: str, table: RankingCounts, options: dict[str, Any]) -> float:
    """Return the largest value over all thresholds."""
    if name == "osa":
        return optimum(table, alpha=options.get("alpha", ALPHA)).value
    if name == "f_score":
        taken = table.known + table.unknown
        values = ratio(2 * table.correct, taken + table.n_known)
    elif name == "youden":
        values = table.known / table.n_known - table.unknown / table.n_unknown
    else:
        rule = "osa, f_score or youden for threshold='best'"
        remedy = (
            "The best CCR accepts all samples, the best URR none and the best "
            "SCOD risk almost none; OAA has no best in the table of metrics"
        )
        raise ValueError(
            _check.must(
                rule, caller="Sketch.bracket", name="metric", got=name, remedy=remedy
            )
        )
    # To accept no sample is not better than to accept all: it may be among them.
    return float(values.max())


def _has_risk(row: Metric, accepted: Ints, alpha: float | None) -> NDArray[np.bool_]:
    """Whether any sample that has a weight is accepted, in each row; or raise."""
    known, unknown = accepted[:, :2].sum(axis=1), accepted[:, 2]
    found = known * (alpha != 0) + unknown * (alpha != 1) > 0
    if not found.any():
        msg = (
            f"Sketch.bracket({row.key!r}): undefined if no sample is accepted. Use a "
            "lower threshold"
        )
        raise UndefinedMetricError(msg)
    return found


_INFINITY = bins.positions_numpy(np.array([inf]))[0]
_PROBE = Scores(labels=[0, -1], predicted=[0, 0], known=[1.0, 0.0])
