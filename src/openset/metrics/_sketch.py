"""Metrics from counts in constant memory, each with a guaranteed bracket."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from math import inf, nextafter
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _io
from openset._types import UNKNOWN, ArtefactError, UndefinedMetricError
from openset.metrics import bins
from openset.metrics._class_counts import ClassCounts, ratio
from openset.metrics._osa import optimum, osa_of
from openset.metrics._ranking_counts import RankingCounts
from openset.metrics._rates import Rates
from openset.metrics._registry import Metric, get
from openset.scores import Scores, need_scores

Ints = NDArray[np.int64]

KINDS = ("correct", "wrong", "unknown")
"""Rows of the counts: known samples classified correctly, the others, unknowns."""

_CHUNK = 1 << 15  # samples counted at a time: their temporaries stay in the cache
_SHAPES = {name: (len(KINDS), length) for name, length in bins.SHAPES.items()}
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
_ALWAYS = (
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
_AT_THRESHOLD = (
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

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


class Sketch:
    """Counts of scores in fixed bins: bounds of metrics in constant memory.

    Scores are not kept, so memory does not grow with them (82 MB at most), and nothing
    is sorted. The order of samples in different bins is known, that of samples in one
    bin is not; so each metric is given as a :class:`Bracket` that is guaranteed to
    contain the value :mod:`openset.metrics` computes from all scores. The bins are the
    same for all data (:mod:`openset.metrics.bins`): sketches of any shards can be
    added, in any order, and equal one pass over everything.

    Examples
    --------
    >>> first, second = Sketch(), Sketch()
    >>> first.update(Scores(labels=[0, -1], predicted=[0, 0], known=[0.9, 0.3]))
    >>> second.update(labels=[0, -1], predicted=[0, 0], known=[0.2, 0.1])
    >>> both = first + second
    >>> len(both), both.bracket("auroc")
    (4, Bracket(low=0.75, high=0.75))
    >>> both.bracket("osa", threshold=0.25, alpha=0.5)
    Bracket(low=0.5, high=0.5)
    """

    def __init__(self) -> None:
        # Zeros take no memory before they are written to.
        self._tables = {n: np.zeros(shape, np.int64) for n, shape in _SHAPES.items()}
        self._n = np.zeros(len(KINDS), np.int64)
        self._cells: bins.Intervals | None = None  # computed once after an update
        self._both_orders: tuple[RankingCounts, RankingCounts] | None = None

    def __len__(self) -> int:
        return int(self._n.sum())

    def __repr__(self) -> str:
        return f"Sketch(n={len(self)}, known={self.n_known}, unknown={self.n_unknown})"

    @property
    def n_correct(self) -> int:
        """Known samples that are classified correctly, without rejection."""
        return int(self._n[0])

    @property
    def n_known(self) -> int:
        """Samples of known classes."""
        return int(self._n[:2].sum())

    @property
    def n_unknown(self) -> int:
        """Samples of no known class."""
        return int(self._n[2])

    def update(
        self,
        scores: Scores | None = None,
        *,
        labels: ArrayLike | None = None,
        predicted: ArrayLike | None = None,
        known: ArrayLike | None = None,
    ) -> None:
        """Count samples: :class:`~openset.Scores`, or three arrays of one length.

        Arrays may be memory-mapped; they are read in chunks and never copied as a
        whole. Scores may be float32 or float64, and infinite, but not NaN.
        """
        arrays = (labels, predicted, known)
        n_given = sum(array is not None for array in arrays)
        if n_given != (len(arrays) if scores is None else 0):
            got = f"{'' if scores is None else 'Scores and '}{n_given} of these arrays"
            rule = "Scores, or labels, predicted and known"
            remedy = "Give one of the two"
            msg = _check.must(
                rule, caller="Sketch.update", name="samples", got=got, remedy=remedy
            )
            raise TypeError(msg)
        if scores is not None:
            need_scores("Sketch.update", scores)
            columns = [scores.labels, scores.predicted, scores.known]
        else:
            columns = [np.asanyarray(array) for array in arrays]
        names = ("labels", "predicted", "known")
        n = _check.same_length(
            "Sketch.update",
            {name: len(c) for name, c in zip(names, columns, strict=True)},
        )
        # All chunks are checked before the first is counted: an error changes nothing.
        if scores is None:
            for start in range(0, n, _CHUNK):
                _check_chunk(*(c[start : start + _CHUNK] for c in columns))
        self._forget()
        for start in range(0, n, _CHUNK):
            self._count(*(c[start : start + _CHUNK] for c in columns))

    def _count(
        self, labels: NDArray[Any], predicted: NDArray[Any], known: NDArray[Any]
    ) -> None:
        # 0 correct, 1 wrong, 2 unknown: an unknown differs from what was predicted.
        kind = (labels != predicted).astype(np.int64) + (labels == UNKNOWN)
        self._n += np.bincount(kind, minlength=len(KINDS))
        found = bins.locate_numpy(known.astype(np.float64, copy=False))
        for (name, table), at in zip(self._tables.items(), found, strict=True):
            np.add.at(table.reshape(-1), kind * bins.SHAPES[name] + at, 1)

    def merge(self, *others: "Sketch") -> None:
        """Add the counts of other sketches."""
        for other in others:
            _need_sketch("Sketch.merge", other)
            self._forget()
            self._n += other._n
            for name, table in self._tables.items():
                mine, theirs = table.reshape(-1), other._tables[name].reshape(-1)
                # Only where there is something: zeros still take no memory.
                there = np.flatnonzero(theirs)
                mine[there] += theirs[there]

    def __add__(self, other: Self) -> "Sketch":
        if not isinstance(other, Sketch):
            return NotImplemented
        result = Sketch()
        result.merge(self, other)
        return result

    def state(self) -> dict[str, Ints]:
        """Return copies of the three tables of counts, one row per kind of sample.

        Other libraries can count into arrays of these shapes and add them up; see
        :meth:`from_state`.
        """
        return {name: table.copy() for name, table in self._tables.items()}

    @classmethod
    def from_state(
        cls, *, bins: ArrayLike, coarse: ArrayLike, fine: ArrayLike
    ) -> "Sketch":
        """Make a sketch from its tables of counts."""
        result = cls()
        given = {"bins": bins, "coarse": coarse, "fine": fine}
        for name, values in given.items():
            array = np.asarray(values)
            rule = f"integers of shape {_SHAPES[name]}, none negative"
            is_good = array.shape == _SHAPES[name] and array.dtype.kind in "iu"
            if not is_good or array.min() < 0:
                got = f"shape {array.shape} of {array.dtype}"
                raise ValueError(
                    _check.must(rule, caller="Sketch.from_state", name=name, got=got)
                )
            result._tables[name] = array.astype(np.int64)
        sums = [table.sum(axis=1).tolist() for table in result._tables.values()]
        if any(one != sums[0] for one in sums):
            msg = _check.must(
                "of the same samples",
                caller="Sketch.from_state",
                name="tables",
                got=f"sums {sums}",
            )
            raise ValueError(msg)
        result._n[:] = sums[0]
        return result

    def save(self, path: str | Path) -> Path:
        """Write the occupied counts to a ``.npz`` file; it is replaced as a whole."""
        path = Path(path)
        _check.one_of(
            "Sketch.save", f"the ending of {path.name}", path.suffix, [".npz"]
        )
        arrays: dict[str, NDArray[Any]] = {"layout": np.array(bins.LAYOUT)}
        for name, table in self._tables.items():
            there = np.flatnonzero(table)
            arrays |= {f"{name}_at": there, name: table.reshape(-1)[there]}
        _io.write_npz(path, arrays)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Sketch":
        """Read what :meth:`save` wrote."""
        path = Path(path)
        names = ("layout", *(n for s in _SHAPES for n in (f"{s}_at", s)))
        found = _io.pick(
            "Sketch.load",
            path,
            _io.read_npz("Sketch.load", path),
            required=names,
            optional=(),
        )
        if found["layout"].size != 1 or int(found["layout"]) != bins.LAYOUT:
            msg = (
                f"Sketch.load: {path} must have bins of layout {bins.LAYOUT}, got "
                f"{found['layout']}. Upgrade openset to read newer files"
            )
            raise ArtefactError(msg)
        state = {}
        try:
            for name, shape in _SHAPES.items():
                full = np.zeros(shape[0] * shape[1], np.int64)
                full[found[f"{name}_at"]] = found[name]
                state[name] = full.reshape(shape)
            return cls.from_state(**state)
        except (IndexError, ValueError) as error:
            msg = f"Sketch.load: {path} is damaged ({error}). Write it again"
            raise ArtefactError(msg) from error

    def bracket(
        self,
        metric: str | Metric,
        *,
        threshold: float | Literal["best"] | None = None,
        **params: Any,
    ) -> Bracket:
        """Return a lower and an upper bound of the exact value of a metric.

        Parameters
        ----------
        metric
            ``"auroc"``, ``"openauc"``, ``"partial_openauc"``, ``"fpr_at_tpr"``,
            ``"ccr_at_fpr"``, ``"acc_times_auroc"``, ``"acc_plus_auroc"``, ``"aurc"``,
            ``"augrc"``, ``"accuracy"``, and with a threshold ``"osa"``, ``"ccr"``,
            ``"urr"``, ``"oaa"``, ``"scod_risk"``, ``"f_score"`` with
            ``average="micro"`` and ``"youden"`` with ``kind="binary"``; or a key of
            :func:`openset.metrics.table` that stands for one of them. Averages over
            classes need counts per class, which a sketch does not have.
        threshold
            A sample is accepted iff its knownness is at least this. ``"best"``: the
            largest value over all thresholds (of OSA, F and Youden's index). If all
            samples at or above the threshold are in the bin of the threshold, it is not
            known whether any is accepted; the bracket of the SCOD risk then holds if
            one is.
        **params
            Parameters of the metric, such as ``fpr=0.01``.
        """
        row = get(metric, caller="Sketch.bracket", argument="metric")
        if row.kind == "oracle":
            threshold = "best"
        options = {**row.params, **params}
        name = row.name
        variant = _VARIANT.get(name)
        is_counted = name in (*_RANKING, *_THRESHOLD, "accuracy")
        if not is_counted or (variant and options.get(variant[0]) != variant[1]):
            rule = f"one of {', '.join((*_RANKING, *_THRESHOLD, 'accuracy'))}"
            got = f"{row.key!r} {params or ''}".strip()
            remedy = (
                "F needs average='micro', Youden's index kind='binary'. Averages over "
                "classes need counts per class, and AUPR the order of the known "
                "samples within a bin: use Accumulator, which keeps all scores"
            )
            msg = _check.must(
                rule, caller="Sketch.bracket", name="metric", got=got, remedy=remedy
            )
            raise ValueError(msg)
        if options.get("over") != "known" or not self.n_known:
            caller = f"Sketch.bracket({row.key!r})"
            _check.both_sides(caller, self.n_known, self.n_unknown)
        if name not in _THRESHOLD:
            return self._ranking(row, name, options, threshold)
        if threshold is None:
            rule, got = "a number or 'best'", "none"
            raise ValueError(
                _check.must(rule, caller=f"Sketch.bracket({row.key!r})",
                            name="threshold", got=got)
            )  # fmt: skip
        row.function(_PROBE, 0.0, **options)  # checks the parameters
        if threshold == "best":
            return self._best(name, options)
        return self._at(row, _check.threshold("Sketch.bracket", threshold), options)

    def brackets(self, threshold: float | None = None) -> dict[str, Bracket]:
        """Return the brackets of the usual metrics, by key.

        With a threshold, also those at the threshold; the SCOD risk is left out where
        no sample is accepted.

        Examples
        --------
        >>> sketch = Sketch()
        >>> sketch.update(labels=[0, 1, -1], predicted=[0, 0, 0], known=[3.0, 2.0, 1.0])
        >>> sketch.brackets(1.5)["urr"]
        Bracket(low=1.0, high=1.0)
        """
        found = {key: self.bracket(key) for key in _ALWAYS}
        for key in _AT_THRESHOLD if threshold is not None else ():
            with suppress(UndefinedMetricError):
                found[key] = self.bracket(key, threshold=threshold)
        return found

    @staticmethod
    def edge(threshold: float) -> float:
        """Return the largest number up to this one where a bin begins.

        Metrics at such a threshold are exact: their brackets have width 0.

        Examples
        --------
        >>> Sketch.edge(3.00001), Sketch.edge(0.0)
        (3.0, 0.0)
        """
        number = _check.threshold("Sketch.edge", threshold)
        if number == -inf:
            return number
        at = bins.locate_numpy(np.array([number])).bins
        low, high = _ordered(-inf), _ordered(number)
        while high - low > 1:  # low is in an earlier bin, high is in this one
            middle = (low + high) // 2
            found = bins.locate_numpy(np.array([_number(middle)])).bins
            low, high = (low, middle) if found == at else (middle, high)
        return _number(high)

    def _ranking(
        self, row: Metric, name: str, options: dict[str, Any], threshold: object
    ) -> Bracket:
        if threshold is not None:
            rule, got = "left out: the metric takes none", repr(threshold)
            raise ValueError(
                _check.must(rule, caller=f"Sketch.bracket({row.key!r})",
                            name="threshold", got=got)
            )  # fmt: skip
        row.function(_PROBE, **options)  # checks the parameters
        if name == "accuracy":
            value = self.n_correct / self.n_known
            return Bracket(value, value)
        kernel: Callable[..., Any] = row.kernel  # type: ignore[assignment]
        ends = [float(kernel(table, **options)) for table in self._orders()]
        n_pairs = {
            "auroc": self.n_known * self.n_unknown,
            "openauc": self.n_known * self.n_unknown,
            "augrc": 2 * len(self) ** 2,  # ties count half
            "fpr_at_tpr": 0,
            "ccr_at_fpr": 0,
        }
        margin = _ROUNDING_AURC if name == "aurc" else _ROUNDING
        if n_pairs.get(name, _EXACT_PAIRS) < _EXACT_PAIRS:
            margin = 0.0
        return Bracket(min(ends) - margin, max(ends) + margin)

    def _best(self, name: str, options: dict[str, Any]) -> Bracket:
        low, high = (_best_of(name, table, options) for table in self._orders())
        # Sweeps take values this close for equal, and return the smallest threshold.
        return Bracket(low - _ROUNDING, high + _ROUNDING)

    def _at(self, row: Metric, threshold: float, options: dict[str, Any]) -> Bracket:
        cells = self._intervals()
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
            alpha = options.get("alpha")
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

    def _intervals(self) -> bins.Intervals:
        if self._cells is None:
            self._cells = bins.intervals(**self._tables)
        return self._cells

    def _orders(self) -> tuple[RankingCounts, RankingCounts]:
        """Return the worst and the best order that the counts allow.

        Worst: in each interval unknown samples score highest, then wrong ones, then
        correct ones. Best: the other way round. Any other order, with ties or without,
        gives every metric here a value between the two.
        """
        if self._both_orders is None:
            cells = self._intervals()
            worst, best = (_levels(cells, order) for order in ((2, 1, 0), (0, 1, 2)))
            self._both_orders = worst, best
        return self._both_orders

    def _forget(self) -> None:
        self._cells = self._both_orders = None


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
        return optimum(table, alpha=options.get("alpha")).value
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


def _check_chunk(
    labels: NDArray[Any], predicted: NDArray[Any], known: NDArray[Any]
) -> None:
    _check.labels("Sketch.update", "labels", labels, lowest=UNKNOWN)
    _check.labels("Sketch.update", "predicted", predicted, lowest=0)
    _check.vector("Sketch.update", "known", known)
    if known.dtype.kind not in "fiu":
        rule, got = "real numbers", f"dtype {known.dtype}"
        raise TypeError(
            _check.must(rule, caller="Sketch.update", name="known", got=got)
        )
    n_bad = int(np.count_nonzero(np.isnan(known)))
    if n_bad:
        got = f"{n_bad} NaN"
        raise ValueError(
            _check.must("free of NaN", caller="Sketch.update", name="known", got=got)
        )


def _need_sketch(caller: str, value: object) -> None:
    _check.instance(
        caller, "other", value, Sketch, rule="a Sketch", remedy="Use Sketch.load"
    )


def _ordered(number: float) -> int:
    """Return an integer in the order of float64 numbers."""
    bits = int(np.float64(number).view(np.int64))
    return bits if bits >= 0 else -(bits & 0x7FFFFFFFFFFFFFFF)


def _number(ordered: int) -> float:
    """Return the number of :func:`_ordered`."""
    size = float(np.int64(abs(ordered)).view(np.float64))
    return size if ordered >= 0 else -size


_INFINITY = bins.positions_numpy(np.array([inf]))[0]
_PROBE = Scores(labels=[0, -1], predicted=[0, 0], known=[1.0, 0.0])
