"""Fingerprints of samples, to find calibration samples in a test set."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from openset.scores import Scores

_KEPT = 256  # hashes kept: 4 kB as text, and shares estimated to about 3 points
_LOOKED_AT = 1 << 16  # rows among which duplicates are counted
_FEWEST = 16  # fewer rows in common prove nothing
_SHARED = 0.3  # share in common, beyond chance, that cannot be an accident
_ALL = 2**64 - 1

Hashes = NDArray[np.uint64]


class Side(NamedTuple):
    """The known, or the unknown, samples: their smallest distinct hashes.

    `limit` is the largest hash that would be kept, `twins` the share of rows that occur
    more than once, as rounded scores do. Rows that more than 1 % of the samples have
    (saturated scores) do not count in `twins`: there are few of them among the distinct
    rows.
    """

    hashes: tuple[int, ...]
    limit: int
    twins: float

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
        return cls(tuple(distinct.tolist()), limit, twins)

    def shared(self, rows: Hashes) -> float:
        """Estimate the share of distinct rows in common, beyond chance."""
        distinct, twins = _under(rows, self.limit)
        mine = np.array(self.hashes, dtype=np.uint64)
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
    total: int
    sides: tuple[Side, Side] = field(repr=False)  # thousands of digits

    @classmethod
    def of(cls, scores: Scores) -> Self:
        """Compute the fingerprint of scores."""
        rows = _row_hashes(scores)
        known, unknown = rows[~scores.is_unknown], rows[scores.is_unknown]
        sides = Side.of(known), Side.of(unknown)
        return cls(rows.size, int(rows.sum(dtype=np.uint64)), sides)

    def shared(self, scores: Scores) -> float:
        """Estimate the share of rows in common beyond chance, from 0 to 1.

        The share is of the distinct rows of the smaller set. The share of rows with a
        duplicate in their own set is subtracted: if scores are coarse, rows of
        different samples are equal about as often as that. Known and unknown samples
        are compared apart; the larger share counts.
        """
        rows = _row_hashes(scores)
        is_same = rows.size == self.n and int(rows.sum(dtype=np.uint64)) == self.total
        if is_same and self.n >= _FEWEST:  # no share of chance explains that
            return 1.0
        known, unknown = self.sides
        is_unknown = scores.is_unknown
        return max(known.shared(rows[~is_unknown]), unknown.shared(rows[is_unknown]))

    def is_of(self, scores: Scores) -> bool:
        """Whether the scores share more rows with these than chance explains."""
        return self.shared(scores) > _SHARED

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, hashes as one hexadecimal text."""
        sides = [
            {
                "hashes": "".join(f"{one:016x}" for one in side.hashes),
                "limit": f"{side.limit:016x}",
                "twins": side.twins,
            }
            for side in self.sides
        ]
        return {"n": self.n, "total": f"{self.total:016x}", "sides": sides}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Read what :meth:`to_dict` returned."""
        known, unknown = map(_read_side, document["sides"])
        return cls(int(document["n"]), int(document["total"], 16), (known, unknown))


def _read_side(document: dict[str, Any]) -> Side:
    text = document["hashes"]
    hashes = tuple(int(text[i : i + 16], 16) for i in range(0, len(text), 16))
    return Side(hashes, int(document["limit"], 16), float(document["twins"]))


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
