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


@dataclass(frozen=True)
class Fingerprint:
    """A sketch of the rows (label, predicted, known) of some scores.

    Each row is hashed to 64 bits; `hashes` are the smallest distinct ones, up to
    `limit`. They are a random sample of the rows, so two fingerprints give an estimate
    of how many rows the two sets have in common. `twins` is the share of rows that
    occur more than once, as rounded scores do. Rows that more than 1 % of the samples
    have (saturated scores) do not count in `twins`: there are few of them among the
    distinct rows.

    Known and unknown samples have a sketch each (`sides`): a test set may
    repeat one side only, and a large new other side would hide it.

    Scores are rounded to 20 bits (six digits) first, so that a sample is recognised
    although another batch size or device has changed the last digits.
    """

    n: int
    twins: float
    limit: int
    hashes: tuple[int, ...] = field(repr=False)  # thousands of digits
    sides: "tuple[Fingerprint, ...]" = field(default=(), repr=False)
    total: int = field(default=0, repr=False)  # of the hashes of all rows

    @classmethod
    def of(cls, scores: Scores) -> Self:
        """Compute the fingerprint of scores."""
        rows = _row_hashes(scores)
        sides = tuple(cls._of_rows(rows[mask]) for mask in _sides(scores))
        total = int(rows.sum(dtype=np.uint64))
        return cls(
            n=rows.size, twins=1.0, limit=_ALL, hashes=(), sides=sides, total=total
        )

    @classmethod
    def _of_rows(cls, rows: NDArray[np.uint64]) -> Self:
        limit = _ALL
        if rows.size > _LOOKED_AT:  # hashes are random: the smallest are a fair sample
            limit = _ALL * _LOOKED_AT // rows.size
        distinct, twins = _under(rows, limit)
        if distinct.size > _KEPT:
            distinct = distinct[:_KEPT]
            limit = int(distinct[-1])
        return cls(
            n=rows.size,
            twins=twins,
            limit=limit,
            hashes=tuple(int(h) for h in distinct),
        )

    def shared(self, scores: Scores) -> float:
        """Estimate the share of rows in common beyond chance, from 0 to 1.

        The share is of the distinct rows of the smaller set. The share of rows with a
        duplicate in their own set is subtracted: if scores are coarse, rows of
        different samples are equal about as often as that. Known and unknown samples
        are compared apart; the larger share counts.
        """
        rows = _row_hashes(scores)
        # The very same samples, in any order: no share of chance explains that.
        is_same = rows.size == self.n and int(rows.sum(dtype=np.uint64)) == self.total
        if is_same and self.n >= _FEWEST:
            return 1.0
        if not self.sides:  # as it was written at first
            return self._shared_rows(rows)
        return max(
            side._shared_rows(rows[mask])
            for side, mask in zip(self.sides, _sides(scores), strict=True)
        )

    def _shared_rows(self, rows: NDArray[np.uint64]) -> float:
        distinct, twins = _under(rows, self.limit)
        mine = np.array(self.hashes, dtype=np.uint64)
        both = np.intersect1d(mine, distinct, assume_unique=True).size
        smaller = min(mine.size, distinct.size)
        chance = max(twins, self.twins)
        if both < _FEWEST:
            return 0.0
        return max(0.0, both / smaller - chance)

    def is_of(self, scores: Scores) -> bool:
        """Whether the scores share more rows with these than chance explains."""
        return self.shared(scores) > _SHARED

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, hashes as one hexadecimal text."""
        return {
            "n": self.n,
            "twins": self.twins,
            "limit": f"{self.limit:016x}",
            "hashes": "".join(f"{h:016x}" for h in self.hashes),
            "sides": [side.to_dict() for side in self.sides],
            "total": f"{self.total:016x}",
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Read what :meth:`to_dict` returned."""
        text = document["hashes"]
        return cls(
            n=int(document["n"]),
            twins=float(document["twins"]),
            limit=int(document["limit"], 16),
            hashes=tuple(int(text[i : i + 16], 16) for i in range(0, len(text), 16)),
            sides=tuple(cls.from_dict(side) for side in document.get("sides", ())),
            total=int(document.get("total", "0"), 16),
        )


def _sides(scores: Scores) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    return ~scores.is_unknown, scores.is_unknown


def _row_hashes(scores: Scores) -> NDArray[np.uint64]:
    mantissa, exponent = np.frexp(scores.known)  # ±inf keep themselves as mantissa
    with np.errstate(over="ignore"):  # the largest numbers round up to inf
        coarse = np.ldexp(np.rint(np.ldexp(mantissa, 20)), exponent - 20)
    coarse = np.where(np.isfinite(scores.known), coarse, scores.known) + 0.0  # no -0
    hashed = _mixed(coarse.view(np.uint64))
    hashed = _mixed(hashed ^ scores.labels.astype(np.uint64))
    return _mixed(hashed ^ scores.predicted.astype(np.uint64))


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Finalise as SplitMix64 does (Steele et al. 2014): every bit moves every bit."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _under(rows: NDArray[np.uint64], limit: int) -> tuple[NDArray[np.uint64], float]:
    """Distinct hashes up to the limit, and the share of rows with a duplicate."""
    n = rows.size
    rows = rows[rows <= np.uint64(limit)]
    distinct, counts = np.unique(rows, return_counts=True)
    light = counts[counts <= max(n // 100, 4)]
    if light.size == 0:
        return distinct, 1.0
    return distinct, float(light[light > 1].sum() / light.sum())
