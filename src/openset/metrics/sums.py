"""Sums over all levels of the counts, block by block, on all cores."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from openset.metrics.counts import RankingCounts

T = TypeVar("T")
U = TypeVar("U")
Floats = NDArray[np.float64]
Numbers: TypeAlias = Any
"""A number; of counts with leading axes, an array with one for each replicate."""

_BLOCK = 1 << 15  # levels handled at a time: their temporaries stay in cache


@dataclass(frozen=True, eq=False)
class Block:
    """A block of levels as float64: counts above (`*_above`) and at (`d_*`) each.

    Without `is_tied` no level has several samples; replicates count as tied.
    """

    is_tied: bool
    known_above: Floats
    correct_above: Floats
    unknown_above: Floats
    d_known: Floats
    d_correct: Floats
    d_unknown: Floats


def blocks(counts: "RankingCounts") -> Iterator[Block]:
    """Yield the levels, except entry 0, in blocks that fit in cache."""
    return (_block(counts, start) for start in _starts(counts))


def _starts(counts: "RankingCounts") -> range:
    return range(1, counts.values.size, _BLOCK)


def _block(counts: "RankingCounts", start: int) -> Block:
    reach = slice(start - 1, start + _BLOCK)
    columns = [
        one[..., reach] for one in (counts.known, counts.correct, counts.unknown)
    ]
    above = [one[..., :-1].astype(np.float64) for one in columns]
    known, correct, unknown = (np.diff(one) for one in columns)
    is_tied = known.ndim > 1 or int((known + unknown).max()) > 1
    at = (one.astype(np.float64) for one in (known, correct, unknown))
    return Block(is_tied, *above, *at)


def on_all_cores(
    function: Callable[[T], U], items: Sequence[T], *, n: int = _BLOCK
) -> list[U]:
    """Return what a function gives for each item; NumPy lets threads run at once.

    Two items, or fewer than a block of samples (`n` in all), are not worth a pool.
    """
    if len(items) < 3 or n < _BLOCK:
        return [function(item) for item in items]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))


def _total(counts: "RankingCounts", of_block: Callable[[Block], Floats]) -> Floats:
    """Add up what a function gives for each block, on all cores.

    The sums are added in the order of the blocks, so the number of threads changes no
    digit.
    """
    sums = on_all_cores(lambda start: of_block(_block(counts, start)), _starts(counts))
    return sum(sums, np.zeros(()))


def dot(a: Floats, b: Floats) -> Floats:
    """Sum of products over the levels; exact while the sum is below 2**53."""
    return np.einsum("...i,...i->...", a, b)


class Pairs(NamedTuple):
    """Counts and second moments of (positive, unknown) pairs.

    `won`, `tied`: pairs with the positive above, or at, the unknown. `squared_v` and
    `squared_w`: sums over positives and over unknowns of the squared number of pairs
    they win, ties half.
    """

    won: Numbers
    tied: Numbers
    squared_v: Numbers
    squared_w: Numbers

    def mean(self, n_pairs: int, tie: float = 0.5) -> Numbers:
        """Return the share of pairs won; a tied pair counts `tie`."""
        return (self.won + tie * self.tied) / n_pairs

    def variance(self, n_known: int, n_unknown: int) -> float:
        """Return the variance of the mean with ties half; NaN with one on a side.

        A two-sample U-statistic. DeLong's estimator counts the variance of a single
        pair twice; it is subtracted once, which makes the estimate unbiased.
        """
        if min(n_known, n_unknown) < 2:
            return float("nan")
        n_pairs = n_known * n_unknown
        mean = float(self.mean(n_pairs))
        squared_v = float(self.squared_v) / n_unknown**2
        squared_w = float(self.squared_w) / n_known**2
        delong = (squared_v - n_known * mean**2) / (n_known - 1) / n_known
        delong += (squared_w - n_unknown * mean**2) / (n_unknown - 1) / n_unknown
        rest = float(self.won + self.tied / 4) - n_unknown * squared_v
        rest += n_pairs * mean**2 - n_known * squared_w
        return max(delong - rest / ((n_known - 1) * (n_unknown - 1)) / n_pairs, 0.0)


class RankingSums(NamedTuple):
    """All sums the ranking metrics need, from one pass over the levels."""

    known: Pairs
    correct: Pairs
    precision_known: Numbers  # sum over knowns of the precision at their score
    precision_unknown: Numbers


def ranking_sums(counts: "RankingCounts") -> RankingSums:
    """Add up what the ranking metrics need."""
    n_unknown, n_all = counts.n_unknown, counts.n_known + counts.n_unknown

    def of_block(b: Block) -> Floats:
        below = n_unknown - b.unknown_above  # unknowns from each level down
        beaten_squared = (below - b.d_unknown / 2 if b.is_tied else below) ** 2
        added = []
        for d, above in ((b.d_known, b.known_above), (b.d_correct, b.correct_above)):
            lost_to = above + d / 2 if b.is_tied else above
            tied = dot(b.d_unknown, d) if b.is_tied else np.float64(0)
            added += [dot(b.d_unknown, above), tied]
            added += [dot(d, beaten_squared), dot(b.d_unknown, lost_to * lost_to)]
        above = b.known_above + b.unknown_above
        # (a replicate may have no samples at or above a level, and so none at it)
        accepted = np.maximum(above + (b.d_known + b.d_unknown), 1)
        added.append(dot(b.d_known, (b.known_above + b.d_known) / accepted))
        added.append(dot(b.d_unknown, below / np.maximum(n_all - above, 1)))
        return np.stack(added)

    total = _total(counts, of_block)
    return RankingSums(Pairs(*total[:4]), Pairs(*total[4:8]), total[8], total[9])


def risk_sums(counts: "RankingCounts") -> dict[str, tuple[int, Numbers, Numbers]]:
    """Add up the risks of the known samples, and of all."""

    def of_block(b: Block) -> Floats:
        wrong, wrong_above = b.d_known - b.d_correct, b.known_above - b.correct_above
        known = b.known_above, b.d_known, wrong_above, wrong
        everything = (
            b.known_above + b.unknown_above,
            b.d_known + b.d_unknown,
            wrong_above + b.unknown_above,
            wrong + b.d_unknown,
        )
        return np.stack([_risk(*of, is_tied=b.is_tied) for of in (known, everything)])

    known, everything = _total(counts, of_block)
    n = counts.n_known + counts.n_unknown
    return {"known": (counts.n_known, *known), "all": (n, *everything)}


def _risk(
    above: Floats, at: Floats, errors_above: Floats, errors: Floats, *, is_tied: bool
) -> Floats:
    r"""Add up risk and generalized risk over the samples at some levels.

    Among m samples with equal scores, e of them errors, below a samples with E errors,
    the expected number of errors is linear: with r = e/m,
    :math:`\sum_{j=1}^m \frac{E + jr}{a + j} = e + (E - ar)(H_{a+m} - H_a)`.
    """
    rate, harmonic = errors, at / (above + 1)
    if is_tied:
        rate = errors / np.maximum(at, 1)
        several = at > 1
        harmonic[several] = digamma_step(above[several] + 1, at[several])
    risk = errors.sum(axis=-1) + dot(errors_above - above * rate, harmonic)
    return np.stack([risk, dot(at, errors_above) + dot(at, errors) / 2])


def digamma_step(low: Floats, by: Floats) -> Floats:
    """Digamma function at ``low + by`` minus digamma function at `low`.

    Subtracting two values loses the digits they share, which adds up over the levels of
    large data. The asymptotic series can be subtracted term by term.
    """
    from scipy.special import digamma  # noqa: PLC0415  # imported on first use

    high = low + by
    found = np.log1p(by / low) + by / (2 * low * high) + _tail(high) - _tail(low)
    small = low < 32  # from there on the first term left out is below 1e-17
    found[small] = digamma(high[small]) - digamma(low[small])
    return found


def _tail(x: Floats) -> Floats:
    """Digamma function minus its leading terms log x - 1/2x, for large x."""
    square = 1 / (x * x)
    return -square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
