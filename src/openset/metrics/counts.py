"""What every metric is computed from: counts of accepted samples, after one sort.

Counts may carry leading axes (bootstrap replicates); a metric of them then has one
value per replicate.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm
from typing import Any, Literal, NamedTuple, Self, TypeAlias
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check
from openset._types import UndefinedMetricError
from openset.metrics.sums import (
    Floats,
    Numbers,
    RankingSums,
    ranking_sums,
    risk_sums,
)
from openset.scores import Scores, need_scores

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


@dataclass(frozen=True, kw_only=True)
class Rates:
    """How many samples of each kind are accepted or rejected, and their shares.

    `n_correct`: known samples whose predicted class is right, accepted or not. A rate
    of a side without samples raises `UndefinedMetricError`.
    """

    n_known: int
    n_unknown: int
    n_correct: int
    n_accepted_known: int
    n_accepted_correct: int
    n_rejected_unknown: int

    @classmethod
    def of(cls, scores: Scores, accepted: NDArray[np.bool_]) -> Self:
        """Count the decisions; `accepted` has one entry per sample."""
        need_scores("Rates.of", scores)
        n_accepted_unknown = int(np.count_nonzero(accepted & scores.is_unknown))
        return cls(
            n_known=scores.n_known,
            n_unknown=scores.n_unknown,
            n_correct=int(np.count_nonzero(scores.is_correct)),
            n_accepted_known=int(np.count_nonzero(accepted)) - n_accepted_unknown,
            n_accepted_correct=int(np.count_nonzero(accepted & scores.is_correct)),
            n_rejected_unknown=scores.n_unknown - n_accepted_unknown,
        )

    @classmethod
    def at(cls, scores: Scores, threshold: float) -> Self:
        """Count the decisions of a threshold: accepted iff ``known >= threshold``."""
        need_scores("Rates.at", scores)
        return cls.of(scores, scores.known >= _check.threshold("Rates.at", threshold))

    def against(self, *, n_unknown: int, n_rejected_unknown: int) -> Self:
        """Return rates of the same known samples with another group of unknown ones."""
        return replace(self, n_unknown=n_unknown, n_rejected_unknown=n_rejected_unknown)

    @property
    def n_rejected(self) -> int:
        """Samples that are rejected, known or not."""
        return self.n_known - self.n_accepted_known + self.n_rejected_unknown

    @property
    def accuracy(self) -> float:
        """Share of known samples whose predicted class is right, without rejection."""
        return self._share("accuracy", self.n_correct, "known")

    @property
    def ccr(self) -> float:
        """Correct classification rate: known samples accepted with the right class."""
        return self._share("ccr", self.n_accepted_correct, "known")

    @property
    def tpr(self) -> float:
        """Share of known samples that are accepted."""
        return self._share("tpr", self.n_accepted_known, "known")

    @property
    def urr(self) -> float:
        """Unknown rejection rate: share of unknown samples that are rejected."""
        return self._share("urr", self.n_rejected_unknown, "unknown")

    def osa(self, alpha: float) -> float:
        """Open-set accuracy, ``alpha * ccr + (1 - alpha) * urr``."""
        return alpha * self.ccr + (1 - alpha) * self.urr

    def _share(self, rate: str, count: int, side: str) -> float:
        n = self.n_known if side == "known" else self.n_unknown
        if n == 0:
            msg = f"{rate}: undefined without {side} samples, got 0 {side}"
            raise UndefinedMetricError(msg)
        return count / n


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

    That is several times cheaper than one argsort, and exact for float64.
    """
    is_wrong = ~(scores.is_correct | scores.is_unknown)
    kinds = (scores.is_correct, is_wrong, scores.is_unknown)
    runs = np.concatenate([np.sort(scores.known[kind]) for kind in kinds])
    order = runs.argsort(kind="stable")[::-1]  # finds the runs, and only merges: O(n)
    values = np.concatenate([[np.inf], runs[order]])
    n_correct = int(np.count_nonzero(scores.is_correct))
    correct = _accumulated(order < n_correct)
    unknown = _accumulated(order >= scores.n_known)
    # Of each run of equal scores the last entry counts all; entry 0 is always kept.
    is_last = np.append(values[1:] != values[:-1], True)
    is_last[0] = True
    rank = np.arange(values.size, dtype=unknown.dtype)
    if not is_last.all():
        values, rank = values[is_last], rank[is_last]
        correct, unknown = correct[is_last], unknown[is_last]
    arrays = (values, rank - unknown, correct, unknown)
    return RankingCounts(*map(_check.frozen, arrays))


def _accumulated(flags: NDArray[np.bool_]) -> NDArray[Any]:
    out = np.zeros(flags.size + 1, np.int32 if flags.size < 2**31 - 1 else np.int64)
    np.cumsum(flags, out=out[1:])
    return out


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
    n_classes = scores.classes.size
    label, predicted = positions(scores)

    def plain(chosen: NDArray[np.bool_], place: NDArray[np.intp]) -> Floats:
        return np.bincount(place[chosen], minlength=n_classes).astype(np.float64)

    count = count or plain
    accepted = scores.known >= threshold
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


def positions(scores: Scores) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return labels and predictions as indices into `scores.classes` (unknown: C)."""
    classes = scores.classes
    label, predicted = scores.labels, scores.predicted
    if classes[-1] != classes.size - 1:  # not 0..C-1
        label, predicted = (np.searchsorted(classes, x) for x in (label, predicted))
    return np.where(scores.is_unknown, classes.size, label), predicted


def ratio(part: Numbers, whole: Numbers) -> Numbers:
    """Divide; 0/0 is 0."""
    part, whole = np.asarray(part, dtype=float), np.asarray(whole, dtype=float)
    return np.divide(part, whole, out=np.zeros_like(part + whole), where=whole > 0)
