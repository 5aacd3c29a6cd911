"""Universal bins of scores: the same for every data set, so counts always add up.

A score has a *position*: an integer made of the leading bits of its float64
representation, such that larger scores never have a smaller position. Nobody has to
agree on a range first. A factor of two has 2**24 positions. Between 1/2 and 1 the
distance to 1 decides, as probabilities crowd there; so it is between -1 and -1/2. The
numbers 0, 1/2, 1 and infinity, and their negatives, have a row of positions each: ties
there are known to be ties.

Samples are counted in three tables:

- by bin: within ``2**-12 <= |score| < 2**20`` a factor of two has 2**14 bins; farther
  out the number halves with every factor of two, down to 128 within the range of
  float32 and 4 beyond it.
- by position, without its last five bits, modulo 2**20.
- by position, modulo 2**20.

The bins alone are precise where scores spread widely. Where they differ little compared
with their size, few bins are occupied; then their positions are different modulo 2**20
and the other tables tell how the samples lie within the bins (:func:`intervals`).

:func:`locate` is written for NumPy arrays and torch tensors alike.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LAYOUT",
    "SHAPES",
    "Intervals",
    "Rows",
    "Tables",
    "intervals",
    "locate",
    "rows",
    "single",
]

LAYOUT = 2
"""Number of this layout; counts of different layouts cannot be added."""

Ints = NDArray[np.int64]

_MANTISSA = 52
_MASK = (1 << _MANTISSA) - 1
_EXPONENTS = 2048
_HALF, _ONE = 1022, 1023  # exponents of numbers from 1/2 and from 1 on
_WIDTH = 24  # bits of a position within its row
# Of bins in a factor of two: in the middle, farther out, and beyond float32. Entropies
# of a confident network spread over a hundred factors of two below the middle.
_BITS, _FEW_BITS, _FEWEST_BITS = 14, 7, 2
_LOW, _HIGH = -12, 20  # the middle: 2**_LOW <= |score| < 2**_HIGH
_FLOAT32 = -149, 128
_RESIDUES = 1 << 20
_DROPPED = (5, 0)  # last bits of a position that the second and third table leave out


class Rows(NamedTuple):
    """Lookup tables of the layout, as arrays of any library.

    `row` has an entry per exponent, and one more per exponent of the distance to 1.
    `first_bin` and `shift` have an entry per row of positions, negative ones first.
    """

    row: Any
    first_bin: Any
    shift: Any


def _made() -> tuple[Rows, int, Ints]:
    """Lay out the rows: 0, exponents, 1/2, numbers close to 1, 1, and the rest."""
    row = np.zeros(2 * _EXPONENTS, np.int64)
    exponent = np.arange(_EXPONENTS) - _ONE
    beyond = np.maximum(np.maximum(_LOW - exponent, exponent - _HIGH + 1), 0)
    bits = np.maximum(_BITS - beyond, _FEW_BITS)
    bits[(exponent < _FLOAT32[0]) | (exponent >= _FLOAT32[1])] = _FEWEST_BITS
    close = np.arange(_HALF - 1, _ONE - 54, -1)  # the closer to 1, the later
    row[:_ONE] = np.arange(_ONE)
    row[_EXPONENTS + close] = _ONE + np.arange(close.size)
    row[_ONE:_EXPONENTS] = _ONE + close.size + np.arange(_EXPONENTS - _ONE)
    # Positive numbers are one row later than 0, numbers above 1 one later than 1.
    in_row = np.concatenate([[0], bits[:_ONE], bits[close], [0], bits[_ONE:]])
    in_row[1 + _HALF] = in_row[-1] = 0  # 1/2 and infinity
    both = np.concatenate([in_row[::-1], in_row])
    first_bin = np.concatenate([[0], np.cumsum(1 << both)])
    made = Rows(row=row, first_bin=first_bin[:-1], shift=_WIDTH - both)
    return made, int(first_bin[-1]), np.flatnonzero(both == 0)


_LAYOUT_ROWS, _N_BINS, _SINGLE_ROWS = _made()
_N_ROWS = _LAYOUT_ROWS.shift.size // 2

SHAPES = {"bins": _N_BINS, "coarse": _RESIDUES, "fine": _RESIDUES}
"""Length of each table of counts."""


class Tables(NamedTuple):
    """Where each sample is counted in the three tables."""

    bins: Any
    coarse: Any
    fine: Any


def rows() -> Rows:
    """Return the lookup tables, for :func:`locate`."""
    return _LAYOUT_ROWS


def positions(known: Any, layout: Rows, where: Any) -> Any:
    """Return the position of each score."""
    size = abs(known)
    is_close = (size > 0.5) & (size < 1)
    number = where(is_close, 1 - size, size).view(layout.row.dtype)  # 1 - size is exact
    row = layout.row[(number >> _MANTISSA) + is_close * _EXPONENTS]
    row = row + (size > 0) + (size > 1)
    # Distances to 1 grow as scores fall: count them from the other end.
    mantissa = (number & _MASK) ^ (is_close * _MASK)
    position = (row << _WIDTH) + (mantissa >> (_MANTISSA - _WIDTH))
    return where(known < 0, ~position, position)


def locate(known: Any, layout: Rows, where: Any) -> Tables:
    """Return the entry of each table in which each score is counted.

    Parameters
    ----------
    known
        Scores as float64, without NaN.
    layout
        :func:`rows`, as arrays of the library and on the device of `known`.
    where
        ``numpy.where`` or ``torch.where``.

    Examples
    --------
    >>> found = locate(np.array([-1.0, 0.0, 3.0, 3.00001]), rows(), np.where)
    >>> (np.diff(found.bins) > 0).tolist(), (np.diff(found.fine)[-1] > 0).item()
    ([True, True, False], True)
    """
    position = positions(known, layout, where)
    row = (position >> _WIDTH) + _N_ROWS
    within = (position & ((1 << _WIDTH) - 1)) >> layout.shift[row]
    return Tables(
        layout.first_bin[row] + within,
        *((position >> drop) & (_RESIDUES - 1) for drop in _DROPPED),
    )


def single(position: Ints) -> NDArray[np.bool_]:
    """Whether positions are of a row with one number, so that samples there are tied.

    Examples
    --------
    >>> single(positions(np.array([1.0, 1.5]), rows(), np.where)).tolist()
    [True, False]
    """
    return np.isin((position >> _WIDTH) + _N_ROWS, _SINGLE_ROWS)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Disjoint intervals of positions, highest first, and the samples in each."""

    first: Ints
    last: Ints
    is_single: NDArray[np.bool_]
    counts: Ints  # (kinds, intervals)


def intervals(bins: Ints, coarse: Ints, fine: Ints) -> Intervals:
    """Divide the scores into intervals as fine as the three tables allow.

    Each table has one row per kind of sample. A bin is divided by a table of residues
    if no other occupied bin shares a residue with it: all samples there are then its
    own.
    """
    occupied = np.flatnonzero(bins.any(axis=0))
    row = np.searchsorted(_LAYOUT_ROWS.first_bin, occupied, side="right") - 1
    shift = _LAYOUT_ROWS.shift[row]
    within = (occupied - _LAYOUT_ROWS.first_bin[row]) << shift
    first = ((row - _N_ROWS) << _WIDTH) + within
    last = first + (np.int64(1) << shift) - 1
    counts = bins[:, occupied]
    for table, drop in zip((coarse, fine), _DROPPED, strict=True):
        first, last, counts = _divided(first, last, counts, table, drop)
    down = slice(None, None, -1)
    first, last, counts = first[down], last[down], counts[:, down]
    return Intervals(first=first, last=last, is_single=single(first), counts=counts)


def _divided(
    first: Ints, last: Ints, counts: Ints, table: Ints, drop: int
) -> tuple[Ints, Ints, Ints]:
    """Divide the intervals whose samples a table of residues tells apart."""
    # Lengths are powers of two, and intervals begin at multiples of them: none of them
    # wraps around, unless it is longer than the table.
    start, length = first >> drop, (last >> drop) - (first >> drop) + 1
    is_long = length > _RESIDUES
    low = start & (_RESIDUES - 1)
    high = np.where(is_long, _RESIDUES, low + np.minimum(length, _RESIDUES))
    low = np.where(is_long, 0, low)
    edges = np.bincount(low, minlength=_RESIDUES + 1)
    edges -= np.bincount(high, minlength=_RESIDUES + 1)
    n_shared = np.concatenate([[0], np.cumsum(np.cumsum(edges[:-1]) > 1)])
    is_own = (n_shared[high] == n_shared[low]) & ~is_long & ~single(first)
    own = np.flatnonzero(is_own)
    own = own[np.argsort(low[own])]
    residues = np.flatnonzero(table.any(axis=0))
    owner = np.searchsorted(low[own], residues, side="right") - 1
    if own.size:
        inside = (owner >= 0) & (residues < high[own[owner]])
        residues, owner = residues[inside], own[owner[inside]]
    else:
        residues = owner = own
    new = (start[owner] + (residues - low[owner])) << drop
    kept = ~is_own
    first = np.concatenate([first[kept], new])
    last = np.concatenate([last[kept], new + (1 << drop) - 1])
    counts = np.concatenate([counts[:, kept], table[:, residues]], axis=1)
    order = np.argsort(first)
    return first[order], last[order], counts[:, order]


def locate_numpy(known: NDArray[np.float64]) -> Tables:
    """Return where NumPy scores are counted."""
    return locate(known, _LAYOUT_ROWS, np.where)


def positions_numpy(known: NDArray[np.float64]) -> Ints:
    """Return the positions of NumPy scores."""
    return positions(known, _LAYOUT_ROWS, np.where)
