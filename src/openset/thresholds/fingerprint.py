"""Fingerprints of samples, to find calibration samples in a test set."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from openset.scores import Scores

_KEPT = 256  # hashes kept: 4 kB as text, and shares estimated to about 3 points
_LOOKED_AT = 1 << 16  # rows among which duplicates are counted
_FEWEST = 16  # fewer rows in common prove nothing
_SHARED = 0.3  # share in common, beyond chance, that cannot be an accident
_ALL = 2**64 - 1

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Side:
    """The known, or the unknown, samples: their smallest distinct hashes.

    `limit` is the largest hash that would be kept, `twins` the share of rows that occur
    more than once, as rounded scores do. Rows that more than 1 % of the samples have
    (saturated scores) do not count in `twins`: there are few of them among the distinct
    rows. Hashes are hexadecimal texts, of 16 digits each.
    """

    hashes: str = field(repr=False)  # thousands of digits
    limit: str
    twins: float

    def __post_init__(self) -> None:
        self.kept()  # raises unless these are such texts
        int(self.limit, 16)

    def kept(self) -> Hashes:
        """Return the hashes as numbers."""
        return np.frombuffer(bytes.fromhex(self.hashes), ">u8").astype(np.uint64)

    @classmethod
    def of(cls, rows: Hashes) -> Self:
        """Keep the smallest hashes: a random sample of the rows."""
        limit = _ALL
        if rows.size > _LOOKED_AT:  # hashes are random: the smallest are a fair sample
            limit = _ALL * _LOOKED_AT // rows.size
        distinct, twins = _under(rows, limit)
        if distinct.size > _KEPT:
            distinct = distinct[:_KEPT]
            limit = int(distinct[-1])
        return cls(distinct.astype(">u8").tobytes().hex(), f"{limit:016x}", twins)

    def shared(self, rows: Hashes) -> float:
        """Estimate the share of distinct rows in common, beyond chance."""
        distinct, twins = _under(rows, int(self.limit, 16))
        mine = self.kept()
        both = np.intersect1d(mine, distinct, assume_unique=True).size
        if both < _FEWEST:
            return 0.0
        return max(0.0, both / min(mine.size, distinct.size) - max(twins, self.twins))


@dataclass(frozen=True)
class Fingerprint:
    """A sketch of the rows (label, predicted, known) of some scores.

    Each row is hashed to 64 bits. The smallest hashes are a random sample of the rows,
    so two fingerprints give an estimate of how many rows the two sets have in common.
    Known and unknown samples have a sketch each (`sides`): a test set may repeat one
    side only, and a large new other side would hide it. `total` is the sum of the
    hashes of all `n` rows: that of the very same samples, in any order, is equal.

    Scores are rounded to 20 bits (six digits) first, so that a sample is recognised
    although another batch size or device has changed the last digits.
    """

    n: int
    total: str
    sides: tuple[Side, Side]

    @classmethod
    def of(cls, scores: Scores) -> Self:
        """Compute the fingerprint of scores."""
        rows, is_unknown = _row_hashes(scores), scores.is_unknown
        sides = Side.of(rows[~is_unknown]), Side.of(rows[is_unknown])
        return cls(rows.size, _sum(rows), sides)

    def shared(self, scores: Scores) -> float:
        """Estimate the share of rows in common beyond chance, from 0 to 1.

        The share is of the distinct rows of the smaller set. The share of rows with a
        duplicate in their own set is subtracted: if scores are coarse, rows of
        different samples are equal about as often as that. Known and unknown samples
        are compared apart; the larger share counts.
        """
        rows, is_unknown = _row_hashes(scores), scores.is_unknown
        is_same = (rows.size, _sum(rows)) == (self.n, self.total)
        if is_same and self.n >= _FEWEST:  # no share of chance explains that
            return 1.0
        known, unknown = self.sides
        return max(known.shared(rows[~is_unknown]), unknown.shared(rows[is_unknown]))

    def is_of(self, scores: Scores) -> bool:
        """Whether the scores share more rows with these than chance explains."""
        return self.shared(scores) > _SHARED

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Read what `dataclasses.asdict` made."""
        known, unknown = (
            Side(one["hashes"], one["limit"], float(one["twins"]))
            for one in document["sides"]
        )
        return cls(int(document["n"]), str(document["total"]), (known, unknown))


def _sum(rows: Hashes) -> str:
    return f"{int(rows.sum(dtype=np.uint64)):016x}"


def _row_hashes(scores: Scores) -> Hashes:
    mantissa, exponent = np.frexp(scores.known)  # ±inf keep themselves as mantissa
    with np.errstate(over="ignore"):  # the largest numbers round up to inf
        coarse = np.ldexp(np.rint(np.ldexp(mantissa, 20)), exponent - 20)
    coarse = np.where(np.isfinite(scores.known), coarse, scores.known) + 0.0  # no -0
    hashed = _mixed(coarse.view(np.uint64))
    hashed = _mixed(hashed ^ scores.labels.astype(np.uint64))
    return _mixed(hashed ^ scores.predicted.astype(np.uint64))


def _mixed(values: Hashes) -> Hashes:
    """Finalise as SplitMix64 does (Steele et al. 2014): every bit moves every bit."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _under(rows: Hashes, limit: int) -> tuple[Hashes, float]:
    """Distinct hashes up to the limit, and the share of rows with a duplicate."""
    n = rows.size
    rows = rows[rows <= np.uint64(limit)]
    distinct, counts = np.unique(rows, return_counts=True)
    light = counts[counts <= max(n // 100, 4)]
    if light.size == 0:
        return distinct, 1.0
    return distinct, float(light[light > 1].sum() / light.sum())
