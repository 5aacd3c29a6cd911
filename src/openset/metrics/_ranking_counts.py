"""Counts of accepted samples at every distinct score, from one sort.

Every ranking metric is a function of these counts, so they are computed once and
shared. The counts may carry leading axes (bootstrap replicates); the metrics then
return one value per replicate.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset.metrics._rates import Rates
from openset.scores import Scores, need_both_sides

Floats: TypeAlias = NDArray[np.float64]
"""A value per replicate: shape () for plain data."""

Prefer: TypeAlias = Literal["smallest", "highest", "widest"]
"""Which of several equally good thresholds to take."""

# Levels handled at a time: a dozen float64 temporaries of this length stay in cache.
_BLOCK = 1 << 15


@dataclass(frozen=True, eq=False)
class RankingCounts:
    """Accepted samples (``known >= value``) at each distinct score, best first.

    Entry 0 is "reject all": value +inf, all counts 0. The last entry accepts all.
    """

    values: NDArray[np.float64]  # (m + 1,)
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
    def n_correct(self) -> Floats:
        """Number of known samples whose class is right (varies over replicates)."""
        return np.asarray(self.correct[..., -1], dtype=np.float64)

    @property
    def accuracy(self) -> Floats:
        """Share of known samples whose class is right."""
        return self.n_correct / self.n_known

    @cached_property
    def sums(self) -> "RankingSums":
        """Sums that several metrics share, computed on first use."""
        return _added_up(self)

    def level(self, threshold: float) -> int:
        """Return the entry whose samples a threshold accepts."""
        ascending = self.values[::-1]
        below = int(np.searchsorted(ascending, threshold, side="left"))
        return self.values.size - below - 1

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


# Scores never change, so neither do their counts. They are kept only while in use: they
# need almost as much memory as the scores themselves.
_IN_USE: "WeakKeyDictionary[Scores, ref[RankingCounts]]" = WeakKeyDictionary()


def ranking_counts(scores: Scores) -> RankingCounts:
    """Count the accepted samples at every distinct score.

    Scores are sorted once: while the counts are in use anywhere, another call for the
    same scores returns the same counts.
    """
    in_use = _IN_USE.get(scores)
    counts = None if in_use is None else in_use()
    if counts is None:
        counts = _counted(scores)
        _IN_USE[scores] = ref(counts)
    return counts


def _counted(scores: Scores) -> RankingCounts:
    """Sort correct, wrong and unknown samples apart, then merge the three runs.

    Sorting values and merging sorted runs is several times cheaper than one argsort,
    and exact for float64 (no flag bits are packed into the scores).
    """
    is_wrong = ~(scores.is_correct | scores.is_unknown)
    runs = np.empty(len(scores))
    stop = 0
    for kind in (scores.is_correct, is_wrong, scores.is_unknown):
        rows = np.flatnonzero(kind)
        start, stop = stop, stop + rows.size
        np.take(scores.known, rows, out=runs[start:stop], mode="clip")  # clip: no copy
        runs[start:stop].sort()
    del is_wrong, kind, rows
    # A stable sort finds the three runs and only merges them: O(n).
    order = runs.argsort(kind="stable")[::-1]
    values = np.empty(len(scores) + 1)
    values[0] = np.inf
    np.take(runs, order, out=values[1:], mode="clip")
    del runs
    n_correct = int(np.count_nonzero(scores.is_correct))
    count = np.int32 if len(scores) < 2**31 - 1 else np.int64
    correct = _accumulated(order < n_correct, count)
    unknown = _accumulated(order >= scores.n_known, count)
    del order
    return _distinct(values, correct, unknown)


def both_sides(caller: str, scores: Scores) -> RankingCounts:
    """Return the levels of data that have known and unknown samples, or raise."""
    need_both_sides(caller, scores)
    return ranking_counts(scores)


def _accumulated(flags: NDArray[np.bool_], count: type) -> NDArray[Any]:
    out: NDArray[Any] = np.zeros(flags.size + 1, dtype=count)
    np.cumsum(flags, out=out[1:])
    return out


def _distinct(
    values: NDArray[np.float64], correct: NDArray[Any], unknown: NDArray[Any]
) -> RankingCounts:
    """Keep the last entry of each run of equal scores, which counts all of them."""
    is_last = np.empty(values.size, dtype=bool)
    np.not_equal(values[1:], values[:-1], out=is_last[:-1])
    is_last[0] = True  # entry 0 is kept, even if the best score is +inf
    is_last[-1] = True
    rank = np.arange(values.size, dtype=unknown.dtype)
    if not is_last.all():
        rank, values = rank[is_last], values[is_last]
        correct, unknown = correct[is_last], unknown[is_last]
    rank -= unknown
    for shared in (values, rank, correct, unknown):
        shared.flags.writeable = False
    return RankingCounts(values=values, known=rank, correct=correct, unknown=unknown)


@dataclass(frozen=True, eq=False)
class Block:
    """A block of levels as float64: counts above (`*_above`) and at (`d_*`) each."""

    known: Floats
    known_above: Floats
    correct_above: Floats
    unknown: Floats
    unknown_above: Floats
    d_known: Floats
    d_correct: Floats
    d_unknown: Floats


def blocks(table: RankingCounts) -> Iterator[Block]:
    """Yield the levels, except entry 0, in blocks that fit in cache."""
    for start in range(1, table.values.size, _BLOCK):
        reach = slice(start - 1, start + _BLOCK)
        known = table.known[..., reach].astype(np.float64)
        correct = table.correct[..., reach].astype(np.float64)
        unknown = table.unknown[..., reach].astype(np.float64)
        yield Block(
            known=known[..., 1:],
            known_above=known[..., :-1],
            correct_above=correct[..., :-1],
            unknown=unknown[..., 1:],
            unknown_above=unknown[..., :-1],
            d_known=np.diff(known),
            d_correct=np.diff(correct),
            d_unknown=np.diff(unknown),
        )


def dot(a: Floats, b: Floats) -> Floats:
    """Sum of products over the levels; exact while the sum is below 2**53."""
    return np.einsum("...i,...i->...", a, b)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Counts and second moments of (positive, unknown) pairs.

    `won`, `tied`: pairs with the positive above, or at, the unknown. `squared_v` and
    `squared_w`: sums over positives and over unknowns of the squared number of pairs
    they win, ties half (placement values before division).
    """

    won: Floats
    tied: Floats
    squared_v: Floats
    squared_w: Floats


@dataclass(frozen=True, eq=False)
class RankingSums:
    """All sums the ranking metrics need, from one pass over the levels."""

    known: Pairs
    correct: Pairs
    precision_known: Floats  # sum over knowns of the precision at their score
    precision_unknown: Floats


def _added_up(table: RankingCounts) -> RankingSums:
    """Add up everything in one pass over memory."""
    n_known, n_unknown = table.n_known, table.n_unknown
    shape = table.unknown.shape[:-1]
    total = {name: np.zeros(shape) for name in ("pk", "pu")}
    sums = {side: [np.zeros(shape) for _ in range(4)] for side in ("known", "correct")}
    for block in blocks(table):
        # Unknowns below each level, those at it counted half.
        beaten = n_unknown - block.unknown + block.d_unknown / 2
        beaten_squared = beaten * beaten
        for side, d, above in (
            ("known", block.d_known, block.known_above),
            ("correct", block.d_correct, block.correct_above),
        ):
            lost_to = above + d / 2
            won, tied, squared_v, squared_w = sums[side]
            won += dot(block.d_unknown, above)
            tied += dot(block.d_unknown, d)
            squared_v += dot(d, beaten_squared)
            squared_w += dot(block.d_unknown, lost_to * lost_to)
        # (a replicate may have no samples at or above a level, and so none at it)
        accepted = np.maximum(block.known + block.unknown, 1)
        total["pk"] += dot(block.d_known, block.known / accepted)
        below_unknown = n_unknown - block.unknown_above
        below = below_unknown + (n_known - block.known_above)
        total["pu"] += dot(block.d_unknown, below_unknown / np.maximum(below, 1))
    return RankingSums(
        known=Pairs(*sums["known"]),
        correct=Pairs(*sums["correct"]),
        precision_known=total["pk"],
        precision_unknown=total["pu"],
    )


class BestLevel(NamedTuple):
    """Where a gain is largest: level `at`, in the run ``start..stop-1`` of equals.

    The run is an interval of thresholds that are all optimal; `n_optimal` counts the
    optimal levels in all runs.
    """

    at: int
    start: int
    stop: int
    n_optimal: int


def best_level(
    values: NDArray[np.float64], gain: NDArray[Any], *, prefer: Prefer = "smallest"
) -> BestLevel:
    """Pick the level with the largest gain; `values` fall from +inf (reject all)."""
    # With a score of +inf no threshold rejects all: entry 0 is then impossible.
    first = 1 if values.size > 1 and values[1] == np.inf else 0
    best = np.flatnonzero(gain[first:] == gain[first:].max()) + first
    breaks = np.flatnonzero(np.diff(best) > 1) + 1
    runs = np.split(best, breaks)
    if prefer == "highest":
        run = runs[0]
    elif prefer == "smallest":
        run = runs[-1]
    else:
        # Reject-all and accept-all are unbounded intervals, which do not count as wide.
        lows = np.append(values, -np.inf)[[run[-1] + 1 for run in runs]]
        highs = values[[run[0] for run in runs]]
        is_finite = np.isfinite(lows) & np.isfinite(highs)
        width = np.full(len(runs), -1.0)
        width[is_finite] = highs[is_finite] - lows[is_finite]
        run = runs[int(np.argmax(width))]
    at = run[-1] if prefer == "smallest" else run[0]
    return BestLevel(int(at), int(run[0]), int(run[-1]) + 1, best.size)
