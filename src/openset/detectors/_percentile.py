"""Percentiles of many numbers, without sorting or copying all of them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _xp
from openset._types import Array

_SAMPLE = 1 << 16  # numbers that say where the percentile is about
_BLOCK = 1 << 17  # numbers that are compared at a time: they stay in the cache
_MARGIN = 4.0  # standard deviations of a rank in the sample


def percentile(parts: Sequence[Array], percent: float) -> NDArray[Any]:
    """Return ``np.percentile`` of the numbers in all parts, shapes (n, d), bit for bit.

    Examples
    --------
    >>> percentile([np.array([[4.0, 1.0]]), np.array([[2.0, 3.0]])], 50)
    np.float64(2.5)
    """
    n = sum(math.prod(part.shape) for part in parts)
    rank, beyond = _place(n, percent)
    if _xp.is_on_cpu(parts[0]):
        pair = _at_rank([_xp.to_numpy(part) for part in parts], n, rank)
    else:
        xp = _xp.array_namespace(*parts)
        flat = xp.concat([xp.reshape(part, (-1,)) for part in parts])
        pair = _xp.to_numpy(xp.sort(flat)[rank : min(rank + 2, n)])
    return np.quantile(pair, beyond)


def by_column(parts: Sequence[Array], percents: Sequence[float]) -> NDArray[Any]:
    """Return ``np.percentile`` of each column of all parts, bit for bit.

    Shape (len(percents), d).

    Examples
    --------
    >>> by_column([np.array([[4.0, 1.0]]), np.array([[2.0, 3.0]])], [50, 100])
    array([[3., 2.],
           [4., 3.]])
    """
    if _xp.is_on_cpu(parts[0]):
        # A row per column: sorting is faster along memory.
        rows = np.concatenate([_xp.to_numpy(part) for part in parts]).T
        return np.percentile(np.ascontiguousarray(rows), percents, axis=1)
    xp = _xp.array_namespace(*parts)
    n = sum(part.shape[0] for part in parts)
    in_order = xp.sort(xp.concat(list(parts)), axis=0)
    found = []
    for rank, beyond in (_place(n, percent) for percent in percents):
        pair = _xp.to_numpy(in_order[rank : min(rank + 2, n), :])
        found.append(np.quantile(pair, np.float64(beyond), axis=0))
    return np.stack(found)


def _place(n: int, percent: float) -> tuple[int, float]:
    """Return the rank a percentile is at, counted from 0, and how far beyond it."""
    place = percent / 100 * (n - 1)
    rank = math.floor(place)
    return rank, place - rank


def _at_rank(parts: list[NDArray[Any]], n: int, rank: int) -> NDArray[Any]:
    """Return the number of this rank, counted from 0, and the next larger one if any.

    The order of a sample says between which limits they are. Then one pass counts the
    numbers below and keeps those between: few, so that sorting them costs little.
    """
    flat = [part.reshape(-1) for part in parts]
    below, kept = 0, flat
    if n > 2 * _SAMPLE:
        low, high = _limits(flat, n, rank, width=parts[0].shape[1])
        below, kept = _between(flat, low, high)
        if not below <= rank < rank + 1 < below + sum(one.size for one in kept):
            below, kept = 0, flat  # rare: the sample misled, or the rank is the last
    ranks = sorted({rank - below, min(rank + 1, n - 1) - below})
    return np.partition(np.concatenate(kept), ranks)[ranks]


def _limits(
    flat: list[NDArray[Any]], n: int, rank: int, *, width: int
) -> tuple[float, float]:
    step = n // _SAMPLE
    while math.gcd(step, width) > 1:  # else some columns are not in the sample
        step += 1
    sample = np.sort(np.concatenate([one[::step] for one in flat]))
    share = rank / n
    middle = share * sample.size
    margin = 1 + _MARGIN * math.sqrt(share * (1 - share) * sample.size)
    first, last = math.floor(middle - margin), math.ceil(middle + margin)
    low = sample[first] if first >= 0 else -math.inf
    high = sample[last] if last < sample.size else math.inf
    return low, high


def _between(
    flat: list[NDArray[Any]], low: float, high: float
) -> tuple[int, list[NDArray[Any]]]:
    """Return how many numbers are below `low`, and those from `low` to `high`."""
    below, kept = 0, []
    for one in flat:
        for run in _xp.runs(one.size, _BLOCK):
            block = one[run]
            is_out = block < low
            below += int(np.count_nonzero(is_out))
            np.logical_or(is_out, block > high, out=is_out)
            kept.append(block[~is_out])
    return below, kept
