"""Metrics from counts in constant memory, each with a guaranteed bracket."""

from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _npz
from openset._types import UNKNOWN, ArtefactError, UndefinedMetricError
from openset.metrics import bins
from openset.metrics._brackets import (
    ALWAYS,
    AT_THRESHOLD,
    KINDS,
    Bounds,
    Bracket,
    Ints,
)
from openset.metrics._registry import Metric, get
from openset.scores import Scores, need_scores

_CHUNK = 1 << 15  # samples counted at a time: their temporaries stay in the cache
_SHAPES = {name: (len(KINDS), length) for name, length in bins.SHAPES.items()}


class Sketch:
    """Counts of scores in fixed bins: bounds of metrics in constant memory.

    Scores are not kept, so memory does not grow with them (88 MB at most), and nothing
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
    >>> both.bracket("osa", threshold=0.25)
    Bracket(low=0.5, high=0.5)
    """

    def __init__(self) -> None:
        # Zeros take no memory before they are written to.
        self._tables = {n: np.zeros(shape, np.int64) for n, shape in _SHAPES.items()}
        self._n = np.zeros(len(KINDS), np.int64)
        self._bounds: Bounds | None = None  # made once after an update

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
        names, arrays = ("labels", "predicted", "known"), (labels, predicted, known)
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
            given = dict(zip(names, arrays, strict=True))
            for name, array in given.items():
                _check.unmasked("Sketch.update", name, array)
            _check.same_order("Sketch.update", given)
            remedy = "If it is a class, give labels of a type with a sign"
            _check.no_lost_sign("Sketch.update", labels, remedy)
            columns = [np.asanyarray(array) for array in arrays]
        n = _check.same_length(
            "Sketch.update",
            {name: len(c) for name, c in zip(names, columns, strict=True)},
        )
        # All chunks are checked before the first is counted: an error changes nothing.
        if scores is None:
            for start in range(0, n, _CHUNK):
                _check_chunk(*(c[start : start + _CHUNK] for c in columns))
        self._bounds = None
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
            self._bounds = None
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
        _check.ending("Sketch.save", path, [".npz"])
        arrays: dict[str, NDArray[Any]] = {"layout": np.array(bins.LAYOUT)}
        for name, table in self._tables.items():
            there = np.flatnonzero(table)
            arrays |= {f"{name}_at": there, name: table.reshape(-1)[there]}
        _npz.write(path, arrays)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Sketch":
        """Read what :meth:`save` wrote."""
        path = Path(path)
        names = ("layout", *(n for s in _SHAPES for n in (f"{s}_at", s)))
        found = _npz.pick(
            "Sketch.load",
            path,
            _npz.read("Sketch.load", path),
            required=names,
            optional=(),
        )
        if found["layout"].size != 1 or int(found["layout"]) != bins.LAYOUT:
            msg = (
                f"Sketch.load: {path} must have bins of layout {bins.LAYOUT}, got "
                f"{found['layout']}. Read it with the version that wrote it, or count "
                "the scores again"
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
        if self._bounds is None:
            n = self.n_correct, self.n_known, self.n_unknown
            self._bounds = Bounds(self._tables, *n)
        return self._bounds.bracket(row, threshold, params)

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
        found = {key: self.bracket(key) for key in ALWAYS}
        for key in AT_THRESHOLD if threshold is not None else ():
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
        at = bins.locate_numpy(np.array([number])).bins
        low, high = _ordered(-inf), _ordered(number)
        while high - low > 1:  # low is in an earlier bin, high is in this one
            middle = (low + high) // 2
            found = bins.locate_numpy(np.array([_number(middle)])).bins
            low, high = (low, middle) if found == at else (middle, high)
        return _number(high)


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
