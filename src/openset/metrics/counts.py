"""What every metric is computed from: counts of accepted samples, after one sort.

Counts may carry leading axes (bootstrap replicates); a metric of them then has one
value per replicate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm
from typing import Any, Literal, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check
from openset.metrics.rates import Rates
from openset.metrics.sums import (
    Floats,
    Numbers,
    RankingSums,
    on_all_cores,
    ranking_sums,
    risk_sums,
)
from openset.scores import Scores

_PART = 1 << 17  # scores of a kind merged at a time, at most: they stay in the cache

Prefer = Literal["smallest", "highest", "widest"]

Alpha: TypeAlias = float | Literal["counts"]
"""Weight of the known samples in [0, 1]; ``"counts"``: their share in the data."""

ALPHA = 0.5
"""The default: known and unknown samples matter equally.

Not the share of known samples in the data: how many unknowns somebody collected says
nothing about operation.
"""


def weight_of(
    caller: str, alpha: Alpha | Fraction, n_known: int, n_unknown: int
) -> Fraction:
    """Return the weight of the known samples as an exact fraction.

    Examples
    --------
    >>> [str(weight_of("example", alpha, 2, 1)) for alpha in (0.1, "counts")]
    ['1/10', '2/3']
    """
    if isinstance(alpha, Fraction):  # exact already
        return alpha
    if alpha == "counts":
        return Fraction(n_known, n_known + n_unknown)
    if isinstance(alpha, str):  # a number was meant, or another word
        _check.fail(caller, "alpha", "a number in [0, 1] or 'counts'", repr(alpha))
    return _check.rate(caller, "alpha", alpha)


@dataclass(frozen=True, eq=False)
class RankingCounts:
    """Accepted samples (``known >= value``) at each distinct score, best first.

    Entry 0 is "reject all": value +inf, all counts 0. The last entry accepts all.
    """

    values: Floats  # (m + 1,)
    known: NDArray[Any]  # (..., m + 1), integers
    correct: NDArray[Any]
    unknown: NDArray[Any]

    @property
    def n_known(self) -> int:
        """Number of known samples."""
        return int(self.known[..., -1].flat[0])

    @property
    def n_unknown(self) -> int:
        """Number of unknown samples."""
        return int(self.unknown[..., -1].flat[0])

    @property
    def accuracy(self) -> Numbers:
        """Share of known samples whose class is right."""
        return self.correct[..., -1] / self.n_known

    @cached_property
    def sums(self) -> RankingSums:
        """Sums that several metrics share, computed on first use."""
        return ranking_sums(self)

    @cached_property
    def risks(self) -> dict[str, tuple[int, Numbers, Numbers]]:
        """Per population: its size, and the sums of risk and of generalized risk."""
        return risk_sums(self)

    def level(self, threshold: float) -> int:
        """Return the entry whose samples a threshold accepts."""
        n_below = np.searchsorted(self.values[::-1], threshold, side="left")
        return self.values.size - int(n_below) - 1

    def ascending(self, side: Literal["known", "unknown"], places: ArrayLike) -> Floats:
        """Return the scores of one side at these indices, in ascending order."""
        counts = self.known if side == "known" else self.unknown
        from_above = counts[-1] - 1 - np.asarray(places).astype(counts.dtype)
        return self.values[np.searchsorted(counts, from_above, side="right")]

    def rates(self, threshold: float) -> Rates:
        """Return the counts of decisions at a threshold, without the samples."""
        at = self.level(threshold)
        return Rates(
            n_known=self.n_known,
            n_unknown=self.n_unknown,
            n_correct=int(self.correct[-1]),
            n_accepted_known=int(self.known[at]),
            n_accepted_correct=int(self.correct[at]),
            n_rejected_unknown=self.n_unknown - int(self.unknown[at]),
        )


# Scores never change, so neither do their counts; kept only while in use.
_IN_USE: "WeakKeyDictionary[Scores, ref[RankingCounts]]" = WeakKeyDictionary()


def ranking_counts(scores: Scores | RankingCounts) -> RankingCounts:
    """Count the accepted samples at every distinct score; counts are returned as is."""
    if isinstance(scores, RankingCounts):
        return scores
    in_use = _IN_USE.get(scores)
    counts = None if in_use is None else in_use()
    if counts is None:
        counts = _counted(scores)
        _IN_USE[scores] = ref(counts)
    return counts


def _counted(scores: Scores) -> RankingCounts:
    """Sort correct, wrong and unknown samples apart, then merge the three runs.

    That is several times cheaper than one argsort, and exact for float64. Runs are
    merged between cuts, by themselves: on all cores, in the cache.
    """
    is_wrong = ~(scores.is_correct | scores.is_unknown)
    kinds = (scores.is_correct, is_wrong, scores.is_unknown)
    if len(scores) < _PART:
        runs = [np.sort(scores.known[kind]) for kind in kinds]
    else:
        runs = on_all_cores(lambda kind: np.sort(scores.known[kind]), kinds)
    cuts = np.unique(np.concatenate([run[_PART::_PART] for run in runs]))
    # Equal scores are never cut apart.
    edges = [[0, *np.searchsorted(run, cuts), run.size] for run in runs]

    def merged(part: int) -> tuple[NDArray[Any], ...]:
        correct, wrong, unknown = (
            run[edge[part] : edge[part + 1]]
            for run, edge in zip(runs, edges, strict=True)
        )
        joined = np.concatenate([correct, wrong, unknown])
        order = joined.argsort(kind="stable")[::-1]  # finds the runs: O(n)
        values = joined[order]
        # Of each run of equal scores the last entry counts all.
        is_last = np.append(values[1:] != values[:-1], True)[: values.size]
        n_correct = np.cumsum(order < correct.size, dtype=kind_of_count)
        n_unknown = np.cumsum(order >= correct.size + wrong.size, dtype=kind_of_count)
        rank = np.arange(1, values.size + 1, dtype=kind_of_count)
        return tuple(one[is_last] for one in (values, n_correct, n_unknown, rank))

    kind_of_count = np.int32 if len(scores) < 2**31 - 1 else np.int64
    parts = on_all_cores(merged, range(cuts.size, -1, -1))  # the best first
    values = np.concatenate([[np.inf], *(part[0] for part in parts)])
    columns: list[NDArray[Any]] = []
    for i in (1, 2, 3):
        column, start = np.zeros(values.size, kind_of_count), 1
        for part in parts:
            stop = start + part[i].size
            np.add(part[i], column[start - 1], out=column[start:stop])
            start = stop
        columns.append(column)
    correct, unknown, rank = columns
    arrays = (values, rank - unknown, correct, unknown)
    return RankingCounts(*map(_check.frozen, arrays))


class BestLevel(NamedTuple):
    """Where a gain is largest: level `at`, in the run ``start..stop-1`` of equals."""

    at: int
    start: int
    stop: int
    n_optimal: int


def best_level(
    values: Floats, gain: NDArray[Any], *, prefer: Prefer = "smallest"
) -> BestLevel:
    """Pick the level with the largest gain; `values` fall from +inf (reject all)."""
    # With a score of +inf no threshold rejects all: entry 0 is then impossible.
    first = 1 if values.size > 1 and values[1] == np.inf else 0
    best = np.flatnonzero(gain[first:] == gain[first:].max()) + first
    runs = np.split(best, np.flatnonzero(np.diff(best) > 1) + 1)
    run = runs[0] if prefer == "highest" else runs[-1]
    if prefer == "widest":
        # Reject-all and accept-all are unbounded intervals, which do not count as wide.
        lows = np.append(values, -np.inf)[[one[-1] + 1 for one in runs]]
        with np.errstate(invalid="ignore"):  # inf - inf
            width = values[[one[0] for one in runs]] - lows
        run = runs[int(np.argmax(np.where(np.isfinite(width), width, -1.0)))]
    at = run[-1] if prefer == "smallest" else run[0]
    return BestLevel(int(at), int(run[0]), int(run[-1]) + 1, best.size)


def whole_gain(
    c: RankingCounts,
    of_correct: Fraction,
    of_unknown: Fraction,
    of_known: Fraction = Fraction(0),
) -> NDArray[Any]:
    """Weighted sum of the counts at each level, up to a factor, in whole numbers.

    There equal sums compare equal.
    """
    prices = (of_correct, of_unknown, of_known)
    scale = lcm(*(price.denominator for price in prices))
    whole = [int(price * scale) for price in prices]
    whole = [price // (gcd(*whole) or 1) for price in whole]
    fits = sum(map(abs, whole)) * max(c.n_known, c.n_unknown) < 2**62
    # Prices far apart need Python's integers, which never overflow but are slow.
    gain: NDArray[Any] = np.zeros(c.values.size, np.int64 if fits else object)
    for price, column in zip(whole, (c.correct, c.unknown, c.known), strict=True):
        if price:
            gain += price * column.astype(gain.dtype)
    return gain


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Counts per known class, shape (..., C), and of the unknowns, shape (...)."""

    support: Numbers  # known samples of the class
    closed_hits: Numbers  # of these, classified correctly, without rejection
    closed_false: Numbers  # known samples of other classes, predicted as this one
    hits: Numbers  # accepted and classified correctly
    false_known: Numbers  # accepted known samples of others, predicted as this one
    false_unknown: Numbers  # accepted unknown samples, predicted as this one
    n_unknown: Numbers

    @cached_property
    def n_known(self) -> Numbers:
        """Number of known samples."""
        return self.support.sum(axis=-1)

    @property
    def n(self) -> Numbers:
        """Number of samples."""
        return self.n_known + self.n_unknown

    @property
    def n_hits(self) -> Numbers:
        """Known samples accepted with the right class."""
        return self.hits.sum(axis=-1)

    @property
    def accepted_known(self) -> Numbers:
        """Known samples accepted, whatever the predicted class."""
        return (self.hits + self.false_known).sum(axis=-1)

    @property
    def accepted_unknown(self) -> Numbers:
        """Unknown samples accepted."""
        return self.false_unknown.sum(axis=-1)

    @property
    def rejected_unknown(self) -> Numbers:
        """Unknown samples rejected."""
        return self.n_unknown - self.accepted_unknown

    @property
    def false(self) -> Numbers:
        """Accepted samples, known or unknown, wrongly predicted as the class."""
        return self.false_known + self.false_unknown


Count = Callable[[NDArray[np.bool_], NDArray[np.intp]], Floats]


def class_counts(
    scores: Scores | ClassCounts, threshold: Any, *, count: Count | None = None
) -> ClassCounts:
    """Count samples per class; counts are returned as is.

    `threshold` is a number; `count` may weight samples (bootstrap).
    """
    if isinstance(scores, ClassCounts):
        return scores
    c = scores.classes.size
    size = 2 * c * (c + 1)
    if count is None and size <= len(scores):
        block = max(_PART, 8 * size)

        def counted(start: int) -> NDArray[np.intp]:
            rows = slice(start, start + block)
            label, predicted = positions(scores, rows)
            accepted = scores.known[rows] >= threshold
            return np.bincount((label * c + predicted) * 2 + accepted, minlength=size)

        # How many are there of each combination?
        starts = range(0, len(scores), block)
        table = sum(on_all_cores(counted, starts), np.zeros(size)).reshape(c + 1, c, 2)
        of_known, of_unknown = table[:c], table[c]
        correct = np.einsum("iij->ij", of_known)  # its diagonal
        closed_hits, hits = correct.sum(axis=1), correct[:, 1]
        return ClassCounts(
            support=of_known.sum(axis=(1, 2)),
            closed_hits=closed_hits,
            closed_false=of_known.sum(axis=(0, 2)) - closed_hits,
            hits=hits,
            false_known=of_known[..., 1].sum(axis=0) - hits,
            false_unknown=of_unknown[:, 1],
            n_unknown=of_unknown.sum(),
        )
    label, predicted = positions(scores)
    accepted = scores.known >= threshold

    def plain(chosen: NDArray[np.bool_], place: NDArray[np.intp]) -> Floats:
        return np.bincount(place[chosen], minlength=c).astype(np.float64)

    count = count or plain
    is_known, is_correct = ~scores.is_unknown, scores.is_correct
    hits = count(is_correct & accepted, label)
    closed_hits = count(is_correct, label)
    return ClassCounts(
        support=count(is_known, label),
        closed_hits=closed_hits,
        closed_false=count(is_known, predicted) - closed_hits,
        hits=hits,
        false_known=count(is_known & accepted, predicted) - hits,
        false_unknown=count(scores.is_unknown & accepted, predicted),
        n_unknown=count(scores.is_unknown, np.zeros_like(label))[..., 0],
    )


def positions(
    scores: Scores, rows: slice = slice(None)
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return labels and predictions as indices into `scores.classes` (unknown: C)."""
    classes = scores.classes
    label, predicted = scores.labels[rows], scores.predicted[rows]
    if classes[-1] != classes.size - 1:  # not 0..C-1
        label, predicted = (np.searchsorted(classes, x) for x in (label, predicted))
    return np.where(scores.is_unknown[rows], classes.size, label), predicted


def ratio(part: Numbers, whole: Numbers) -> Numbers:
    """Divide; 0/0 is 0."""
    part, whole = np.asarray(part, dtype=float), np.asarray(whole, dtype=float)
    return np.divide(part, whole, out=np.zeros_like(part + whole), where=whole > 0)
