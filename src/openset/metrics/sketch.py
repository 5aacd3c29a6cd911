"""Metrics of any number of scores in constant memory, as guaranteed brackets."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from openset import _check, _npz
from openset._types import ArtefactError, UndefinedMetricError
from openset.metrics.counts import ClassCounts, RankingCounts, ratio
from openset.metrics.curves import optimum
from openset.metrics.registry import Metric, get, with_options
from openset.scores import Scores, need_scores

Ints = NDArray[np.int64]

_MOST = 1 << 20  # distinct scores that are all kept: 34 MB
_CELLS = 1 << 20  # bins when they are not: 25 MB
_CHUNK = 1 << 15  # samples counted at a time: their temporaries stay in the cache
_WAITING = 1 << 19
_MANTISSA = 52
_PAGE = 46  # bits of a key within a page: 64 from one power of two to the next of them
_LOW = (1 << _PAGE) - 1
_PAGES = 1 << (64 - _PAGE)
_ROUNDING = 1e-11  # of sums over the levels of large data
_COUNTED = (
    "accuracy auroc openauc partial_openauc fpr_at_tpr ccr_at_fpr acc_times_auroc "
    "acc_plus_auroc aurc augrc osa f_score youden ccr urr oaa scod_risk"
)
_VARIANT = {"f_score": ("average", "micro"), "youden": ("kind", "binary")}
_USUAL = (
    "accuracy openauc auroc fpr_at_tpr fpr_at_tpr_unknown ccr_at_fpr_0.1 "
    "ccr_at_fpr_0.01 ccr_at_fpr_0.001 partial_openauc aurc augrc aurc_known "
    "augrc_known osa_best f_score_micro_best"
)
_USUAL_AT = "osa ccr urr f_score_micro youden_binary scod_risk oaa"


class Bracket(NamedTuple):
    """A lower and an upper bound of an exact value, both included."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """Upper minus lower bound; 0 if the value is known exactly."""
        return self.high - self.low

    def __contains__(self, value: object) -> bool:
        return self.low <= value <= self.high  # type: ignore[operator]


class Sketch:
    """Counts of scores in bins: bounds of metrics in constant memory.

    Up to a million distinct scores are all kept, and every metric is exact. Beyond
    that, the numbers are divided into pages, 64 from one power of two to the next
    (between 1/2 and 1, where probabilities crowd, by the distance to 1), and each page
    that occurs into as many bins as memory allows. So the bins depend on the samples
    only, not on their order: sketches of any shards can be merged, in any order, and
    equal one pass over everything. The number at the start of a page, such as 0, 1/2
    or 1, has a bin of its own: ties there are known to be ties.

    Each metric is given as a :class:`Bracket` that is guaranteed to contain the value
    :mod:`openset.metrics` computes from all scores.

    Examples
    --------
    >>> first, second = Sketch(), Sketch()
    >>> first.update(Scores(labels=[0, -1], predicted=[0, 0], known=[0.9, 0.3]))
    >>> second.update(Scores(labels=[0, -1], predicted=[0, 0], known=[0.2, 0.1]))
    >>> first.merge(second)
    >>> len(first), first.bracket("auroc")
    (4, Bracket(low=0.75, high=0.75))
    >>> first.bracket("osa", threshold=0.25)
    Bracket(low=0.5, high=0.5)
    """

    def __init__(self) -> None:
        self._keys: Ints = np.zeros(0, np.int64)  # of distinct scores, ascending
        self._counts: Ints = np.zeros((3, 0), np.int64)  # correct, wrong, unknown
        self._waiting: list[tuple[Ints, NDArray[np.int8]]] = []
        # Once there are too many scores, only their counts per bin:
        self._pages: Ints = np.zeros(0, np.int64)
        self._row: Ints = np.zeros(0, np.int64)  # of each page, -1 if there is none
        self._table: Ints | None = None  # kind by page by bin
        self._dropped = 0  # bits of a key that its bin does not tell

    def __len__(self) -> int:
        return int(self._bins()[1].sum())

    def __repr__(self) -> str:
        return f"Sketch(n={len(self)}, known={self.n_known}, unknown={self.n_unknown})"

    @property
    def n_known(self) -> int:
        """Samples of known classes."""
        return int(self._bins()[1][:2].sum())

    @property
    def n_unknown(self) -> int:
        """Samples of no known class."""
        return int(self._bins()[1][2].sum())

    def update(self, scores: Scores) -> None:
        """Count samples; they are not kept."""
        need_scores("Sketch.update", scores)
        for start in range(0, len(scores), _CHUNK):
            rows = slice(start, start + _CHUNK)
            labels, predicted = scores.labels[rows], scores.predicted[rows]
            # 0 correct, 1 wrong, 2 unknown, which differs from what was predicted.
            kind = (labels != predicted).astype(np.int8) + (labels < 0)
            key = _ordered(scores.known[rows])
            if self._table is not None:
                self._tally(key, kind, 1)
                continue
            self._waiting.append((key, kind))
            if sum(one.size for one, _ in self._waiting) >= _WAITING:
                self._settle()

    def merge(self, *others: "Sketch") -> None:
        """Add the counts of other sketches."""
        for other in others:
            caller, remedy = "Sketch.merge", "Use Sketch.load"
            _check.instance(
                caller, "other", other, Sketch, rule="a Sketch", remedy=remedy
            )
            self._put(*other._bins(), is_exact=other._table is None)

    def save(self, path: str | Path) -> Path:
        """Write the counts to a ``.npz`` file; it is replaced as a whole."""
        path = Path(path)
        _check.ending("Sketch.save", path, [".npz"])
        keys, counts = self._bins()
        about = {"kind": "sketch", "schema": 1, "is_exact": self._table is None}
        _npz.save(path, {"keys": keys, "counts": counts}, about)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote."""
        found, about = _npz.load("Sketch.load", Path(path), kind="sketch")
        keys, counts = found.get("keys"), found.get("counts")
        if (
            keys is None
            or counts is None
            or counts.shape != (3, keys.size)
            or {keys.dtype, counts.dtype} != {np.dtype(np.int64)}
            or counts.min(initial=0) < 0
            or not (np.diff(keys) > 0).all()
        ):
            msg = f"Sketch.load: {path} is damaged. Write it again"
            raise ArtefactError(msg)
        made = cls()
        made._put(keys, counts, is_exact=about.get("is_exact") is True)
        return made

    def bracket(
        self, metric: str | Metric, *, threshold: float | None = None, **params: Any
    ) -> Bracket:
        """Return a lower and an upper bound of the exact value of a metric.

        Averages over classes need counts per class, and AUPR the order of the known
        samples: :class:`Accumulator` keeps all scores.

        Parameters
        ----------
        metric
            One of `auroc`, `openauc`, `partial_openauc`, `fpr_at_tpr`, `ccr_at_fpr`,
            `acc_times_auroc`, `acc_plus_auroc`, `aurc`, `augrc`, `accuracy`, `osa_best`
            and `f_score_micro_best`; with a threshold `osa`, `ccr`, `urr`, `oaa`,
            `scod_risk`, `f_score_micro` and `youden_binary`.
        threshold
            For metrics at one. The bracket of the SCOD risk holds if any sample is
            accepted.
        **params
            Parameters of the metric, such as ``fpr=0.01``.
        """
        row = get(metric, caller="Sketch.bracket", argument="metric")
        return self._bracketed([with_options(row, params)], threshold)[0]

    def brackets(self, threshold: float | None = None) -> dict[str, Bracket]:
        """Return the brackets of the usual metrics, by key.

        With a threshold, also those at the threshold; the SCOD risk is left out where
        no sample is accepted.
        """
        keys = _USUAL.split()
        of_all = self._bracketed([get(key) for key in keys], None)
        found = dict(zip(keys, of_all, strict=True))
        for key in _USUAL_AT.split() if threshold is not None else ():
            with suppress(UndefinedMetricError):
                found[key] = self.bracket(key, threshold=threshold)
        return found

    def _bracketed(
        self, rows: Sequence[Metric], threshold: float | None
    ) -> list[Bracket]:
        for row in rows:
            _need_counted(row, threshold)
        keys, counts = self._bins()
        n_known, n_unknown = counts[:2].sum(), counts[2].sum()
        only_known = all(row.params.get("over") == "known" for row in rows)
        if not (only_known and n_known):
            _check.both_sides("Sketch.bracket", n_known, n_unknown)
        if threshold is not None:
            return [self._at(row, float(threshold), keys, counts) for row in rows]
        orders = self._orders(keys[::-1], counts[:, ::-1])
        values = [[_value(one, row) for row in rows] for one in orders]
        return [
            _bracket(found, is_exact=self._table is None and not row.best_of)
            for found, row in zip(zip(*values, strict=True), rows, strict=True)
        ]

    def _orders(self, keys: Ints, counts: Ints) -> Iterator[RankingCounts]:
        """Yield the worst and the best order that the counts allow, best bin first.

        Worst: in each bin of several numbers unknown samples score highest, then wrong
        ones, then correct ones. Best: the other way round. Any other order, with ties
        or without, gives every metric here a value between the two.
        """
        # One number, or samples of one kind: their order is known, or does not matter.
        split = self._is_open(keys) & ((counts > 0).sum(axis=0) > 1)
        last = np.cumsum(np.where(split, 3, 1))
        dtype = np.int32 if counts.sum() < 2**31 else np.int64
        for order in ((2, 1, 0), (0, 1, 2)):
            levels = np.zeros((3, last[-1] + 1), dtype)
            for place, kind in enumerate(order):
                levels[kind, last - (2 - place) * split] = counts[kind]
            correct, wrong, unknown = np.cumsum(levels, axis=1, out=levels)
            values = -np.arange(correct.size, dtype=np.float64)
            # What scores infinity is accepted at every threshold.
            values[: 2 if keys[0] == _ordered(np.array([np.inf]))[0] else 1] = np.inf
            yield RankingCounts(values, correct + wrong, correct, unknown)
            if not split.any():
                return

    def _at(self, row: Metric, threshold: float, keys: Ints, counts: Ints) -> Bracket:
        """Bracket a metric by its values if none or all of a bin's samples are taken.

        It is a quotient of two linear functions of the accepted samples of each kind,
        so its extremes are among these.
        """
        key = self._binned(_ordered(np.array([threshold])))
        is_open = (keys == key) & self._is_open(keys)
        surely = counts[:, (keys >= key) & ~is_open].sum(axis=1)
        corners = np.array(list(product((0, 1), repeat=3)))
        taken = surely + counts[:, is_open].sum(axis=1) * corners
        if row.name == "scod_risk":
            taken = taken[taken.any(axis=1)]
            if not len(taken):
                msg = "Sketch.bracket: scod_risk is undefined if no sample is accepted"
                raise UndefinedMetricError(msg)
        correct, wrong, unknown = taken.astype(np.float64).T[:, :, None]
        one, n = np.ones_like(correct), counts.sum(axis=1)
        rates = ClassCounts(  # as of one class
            support=one * n[:2].sum(),
            closed_hits=one * n[0],
            closed_false=one * n[1],
            hits=correct,
            false_known=wrong,
            false_unknown=unknown,
            n_unknown=one[:, 0] * n[2],
        )
        values = row.function(rates, threshold, **row.params)
        return _bracket(values, is_exact=not is_open.any())

    def _settle(self) -> None:
        """Count what is waiting."""
        if not self._waiting:
            return
        key, kind = (np.concatenate(x) for x in zip(*self._waiting, strict=True))
        self._waiting = []
        for k in range(3):
            one = np.sort(key[kind == k])
            starts = np.flatnonzero(np.append(True, one[1:] != one[:-1])[: one.size])
            self._add(k, one[starts], np.diff(starts, append=one.size))

    def _put(self, keys: Ints, counts: Ints, *, is_exact: bool) -> None:
        """Add the bins of a sketch."""
        self._settle()
        if self._table is None and not is_exact:
            self._make_room(keys[:0])
        for kind, n in enumerate(counts):
            self._add(kind, keys[n > 0], n[n > 0])

    def _add(self, kind: int, keys: Ints, counts: Ints) -> None:
        """Count samples of a kind, by distinct and ascending keys."""
        if self._table is not None:
            self._tally(keys, np.full(keys.size, kind, np.int8), counts)
            return
        at = np.searchsorted(self._keys, keys)
        is_new = np.append(self._keys, 0)[at] != keys
        is_new |= at == self._keys.size
        if is_new.any():
            where = at[is_new]
            self._keys = np.insert(self._keys, where, keys[is_new])
            self._counts = np.insert(self._counts, where, 0, axis=1)
            at += np.cumsum(is_new) - is_new
        self._counts[kind, at] += counts
        # The smallest numbers have one key: they are not known to be tied.
        if self._keys.size > _MOST or (np.abs(keys) == 1).any():
            self._make_room(keys[:0])

    def _make_room(self, pages: Ints) -> None:
        """Count by bin from here on, with bins for these pages and those there are."""
        keys, counts = self._bins()
        self._pages = np.unique(np.concatenate([pages, keys >> _PAGE]))
        self._row = np.full(_PAGES, -1)
        self._row[self._pages] = np.arange(self._pages.size)  # from behind, if < 0
        room = max(_CELLS // max(self._pages.size, 1), 1).bit_length() - 1
        self._dropped = max(_PAGE - room, 1)
        n_bins = (1 << (_PAGE - self._dropped)) + 1
        self._table = np.zeros((3, self._pages.size, n_bins), np.int64)
        self._keys, self._counts = self._keys[:0], self._counts[:, :0]
        for kind, n in enumerate(counts):
            self._tally(keys, np.full(keys.size, kind, np.int8), n)

    def _tally(self, keys: Ints, kind: NDArray[np.int8], n: Ints | int) -> None:
        """Count samples in the table."""
        pages = keys >> _PAGE
        row = self._row[pages]
        if row.min(initial=0) < 0:
            self._make_room(pages)
            row = self._row[pages]
        table: Ints = self._table  # type: ignore[assignment]
        at = (kind.astype(np.int64) * table.shape[1] + row) * table.shape[2]
        at += -(-(keys & _LOW) >> self._dropped)  # rounded up: 0 is the first number
        np.add.at(table.reshape(-1), at, n)

    def _binned(self, keys: Ints) -> Ints:
        """Return a key of each bin, the same for all of its keys."""
        if self._table is None:
            return keys
        last = -(-(keys & _LOW) >> self._dropped) << self._dropped
        return keys - (keys & _LOW) + last - (last > 0)

    def _is_open(self, keys: Ints) -> NDArray[np.bool_]:
        """Whether a bin may hold several numbers."""
        return (keys & _LOW > 0) & (self._table is not None)

    def _bins(self) -> tuple[Ints, Ints]:
        """Return the keys of the occupied bins, ascending, and the counts of each."""
        self._settle()
        if self._table is None:
            return self._keys, self._counts
        page, at = np.nonzero(self._table.any(axis=0))
        last = at << self._dropped
        keys = (self._pages[page] << _PAGE) + last - (last > 0)
        return keys, self._table[:, page, at]


def _need_counted(row: Metric, threshold: float | None) -> None:
    """Raise unless the counts suffice for the metric, and the threshold suits it."""
    caller, (option, value) = "Sketch.bracket", _VARIANT.get(row.name, ("", None))
    if row.name not in _COUNTED.split() or row.params.get(option) != value:
        rule = f"one of {_COUNTED.replace(' ', ', ')} (of F micro, of Youden binary)"
        remedy = "For others use Accumulator, which keeps all scores"
        _check.fail(caller, "metric", rule, repr(row.key), remedy)
    if row.kind == "threshold":
        _check.threshold(caller, threshold)
    elif threshold is not None:
        rule = "left out: the metric takes none"
        _check.fail(caller, "threshold", rule, repr(threshold))


def _value(c: RankingCounts, row: Metric) -> Any:
    if row.name == "accuracy":
        return c.accuracy
    if row.name == "osa":
        return optimum(c, **row.params).value
    if row.name == "f_score":
        return ratio(2 * c.correct, c.known + c.unknown + c.n_known).max()
    return row.function(c, **row.params)


def _bracket(values: Any, *, is_exact: bool) -> Bracket:
    margin = 0.0 if is_exact else _ROUNDING
    return Bracket(float(np.min(values)) - margin, float(np.max(values)) + margin)


def _ordered(known: NDArray[np.float64]) -> Ints:
    """Return integers in the order of the scores.

    They are the bits of a float64, but between 1/2 and 1 those of the distance to 1
    decide, as probabilities crowd there. The room for these is taken from the smallest
    numbers: those up to 1e-292 become one.
    """
    size = np.abs(known)
    is_close = (size > 0.5) & (size < 1)
    bits = np.where(is_close, 1 - size, size).view(np.int64)  # 1 - size is exact
    small = np.maximum(bits - (52 << _MANTISSA), bits > 0)
    key = np.where(is_close, (1992 << _MANTISSA) - bits, bits)
    key = np.where(size <= 0.5, small, key)
    return np.where(known < 0, -key, key)
