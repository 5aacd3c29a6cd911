"""Random samples of rows, the same on every platform and NumPy version.

NumPy promises that the *raw* 64-bit stream of a bit generator and the way a seed is
spread over its state never change (NEP 19); it does not promise this for what
``Generator.choice``, ``shuffle`` or ``permutation`` make of that stream. So we take raw
words and nothing else: a permutation is the stable sort order of n raw words.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from openset import _check

T = TypeVar("T")

UNKNOWNS = ("dealt", "shared")
"""What happens to unknown samples where there are several test sets."""

# Bit generators whose raw words have 64 random bits; MT19937 gives 32.
_KINDS = ("PCG64", "PCG64DXSM", "Philox", "SFC64")


class Stream:
    """Random permutations from the raw words of a bit generator."""

    def __init__(self, caller: str, rng: Any) -> None:
        if isinstance(rng, np.random.Generator):
            bits = rng.bit_generator
            if type(bits).__name__ not in _KINDS:
                rule = "a Generator over one of " + ", ".join(_KINDS)
                remedy = "Use numpy.random.default_rng(seed)"
                got = type(bits).__name__
                _check.fail(caller, "rng", rule, got, remedy, TypeError)
        elif isinstance(rng, int | np.integer) and not isinstance(rng, bool):
            if rng < 0:
                _check.fail(caller, "rng", "a seed >= 0", rng)
            bits = np.random.PCG64(int(rng))
        else:
            rule = "an integer seed or a numpy.random.Generator"
            remedy = "Protocols must be reproducible"
            _check.fail(caller, "rng", rule, repr(rng), remedy, TypeError)
        self._bits = bits

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return `n` raw 64-bit words."""
        return np.asarray(self._bits.random_raw(n), dtype=np.uint64)

    def seed(self) -> int:
        """Return a seed for a later draw: 32 bits, exact in every JSON reader."""
        return int(self.words(1)[0] >> np.uint64(32))

    def permutation(self, n: int) -> NDArray[np.intp]:
        """Return 0..n-1 in a uniformly random order."""
        # Equal words (chance n² / 2⁶⁵) keep their order: not measurable.
        return np.argsort(self.words(n), kind="stable")

    def choose(self, items: Sequence[T], *sizes: int) -> list[tuple[T, ...]]:
        """Draw disjoint random samples of these sizes, each in the original order."""
        order = self.permutation(len(items))
        chosen, start = [], 0
        for size in sizes:
            rows = np.sort(order[start : start + size])
            chosen.append(tuple(items[row] for row in rows))
            start += size
        return chosen


def deal(strata: NDArray[np.int64], n_bins: int, stream: Stream) -> NDArray[np.int64]:
    """Divide samples into bins whose sizes differ by at most one, in each stratum too.

    Samples are sorted by stratum, at random inside, and dealt like cards. So strata
    with neighbouring numbers (all known classes, say) are divided equally together.

    Examples
    --------
    >>> bins = deal(np.array([0, 0, 0, 0, 1, 1]), 2, Stream("demo", 0))
    >>> np.bincount(bins), np.bincount(bins[:4])
    (array([3, 3]), array([2, 2]))
    """
    first = stream.permutation(n_bins)  # so that no bin is always the larger one
    order = np.lexsort((stream.words(strata.size), strata))
    bins = np.empty(strata.size, dtype=np.int64)
    bins[order] = first[np.arange(strata.size) % n_bins]
    return bins


def take_share(
    strata: NDArray[np.int64], share: float, stream: Stream
) -> NDArray[np.bool_]:
    """Return a mask of a random share of each stratum; counts are rounded half up.

    Examples
    --------
    >>> mask = take_share(np.array([0] * 10 + [1] * 4), 0.2, Stream("demo", 0))
    >>> mask[:10].sum(), mask[10:].sum()
    (np.int64(2), np.int64(1))
    """
    fraction = _check.rate("take_share", "share", share)
    order = np.lexsort((stream.words(strata.size), strata))
    _, first, inverse, sizes = np.unique(
        strata[order], return_index=True, return_inverse=True, return_counts=True
    )
    # Integers, not 0.2 * n: the same count on every machine.
    top, bottom = fraction.numerator, fraction.denominator
    counts = (2 * top * sizes + bottom) // (2 * bottom)
    rank = np.arange(strata.size) - first[inverse]
    mask = np.empty(strata.size, dtype=np.bool_)
    mask[order] = rank < counts[inverse]
    return mask
