"""What every metric is computed from: counts of accepted samples, after one sort.

Counts may carry leading axes (bootstrap replicates); a metric of them then has one
value per replicate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check
from openset.metrics.levels import counts_by_level
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

_BLOCK = 1 << 17  # handled at a time: temporaries stay in the cache

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
        values, columns = counts_by_level(scores)
        counts = RankingCounts(*map(_check.frozen, (values, *columns)))
        _IN_USE[scores] = ref(counts)
    return counts


def best_level(values: Floats, gain: NDArray[Any]) -> tuple[int, int]:
    """Return the last level with the largest gain, and the first in its run of equals.

    `values` fall from +inf (reject all), so it is the smallest of the best thresholds.
    """
    # With a score of +inf no threshold rejects all: entry 0 is then impossible.
    first = 1 if values.size > 1 and values[1] == np.inf else 0
    best = np.flatnonzero(gain[first:] == gain[first:].max()) + first
    starts = best[np.append(True, np.diff(best) > 1)]
    return int(best[-1]), int(starts[-1])


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

    def add(start: int) -> None:
        rows = slice(start, start + _BLOCK)
        for price, column in zip(whole, (c.correct, c.unknown, c.known), strict=True):
            if price:
                gain[rows] += price * column[rows].astype(gain.dtype)

    on_all_cores(add, range(0, gain.size, _BLOCK))
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
    top = scores.n_classes or int(max(scores.labels.max(), scores.predicted.max())) + 1
    if count is None and 2 * top * (top + 1) <= len(scores):
        return _tabulated(scores, threshold, top)
    c = scores.classes.size
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


def _tabulated(scores: Scores, threshold: float, c: int) -> ClassCounts:
    """Count the combinations of label, prediction and decision, on all cores."""
    size = 2 * c * (c + 1)
    block = max(_BLOCK, 8 * size)

    def counted(start: int) -> NDArray[np.intp]:
        rows = slice(start, start + block)
        place = scores.labels[rows] + 1  # 0: unknown
        place *= c
        place += scores.predicted[rows]
        place *= 2
        place += scores.known[rows] >= threshold
        return np.bincount(place, minlength=size)

    parts = on_all_cores(counted, range(0, len(scores), block))
    table = sum(parts, np.zeros(size)).reshape(c + 1, c, 2)
    of_unknown, of_known = table[0], table[1:]
    if scores.n_classes is None:  # classes are those that occur
        occurs = table.sum(axis=(0, 2)) + of_known.sum(axis=(1, 2)) > 0
        of_unknown, of_known = of_unknown[occurs], of_known[np.ix_(occurs, occurs)]
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


def positions(scores: Scores) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return labels and predictions as indices into `scores.classes` (unknown: C)."""
    classes, label, predicted = scores.classes, scores.labels, scores.predicted
    if classes[-1] != classes.size - 1:  # not 0..C-1
        label, predicted = (np.searchsorted(classes, x) for x in (label, predicted))
    return np.where(scores.is_unknown, classes.size, label), predicted


def ratio(part: Numbers, whole: Numbers) -> Numbers:
    """Divide; 0/0 is 0."""
    part, whole = np.asarray(part, dtype=float), np.asarray(whole, dtype=float)
    return np.divide(part, whole, out=np.zeros_like(part + whole), where=whole > 0)
