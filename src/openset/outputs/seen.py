"""Which samples something was fitted on: hashes of them, to recognise them again.

A threshold that is chosen on training samples promises too much: a detector such as
OSNN gives each of them the score of a sample it knows by heart.
"""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import UNKNOWN, Array
from openset.outputs.checks import picked
from openset.outputs.outputs import Outputs

Hashes: TypeAlias = Mapping[str, NDArray[np.uint64]]
"""Sorted hashes of samples, by the array they were made from."""

_KEPT = 2**16  # hashes: half a megabyte. Of more samples the smallest, a fair sample
_COLUMNS = 16  # of a row are hashed
_BITS = 14  # of each number: another batch size or device changes the last digits
_ROWS = 2**16  # at a time
_FEWEST = 16  # fewer samples in common prove nothing
_SHARE = 0.05  # in common, beyond chance
_GOLDEN = 0x9E3779B97F4A7C15


def hashes_of(outputs: Outputs) -> dict[str, NDArray[np.uint64]]:
    """Hash the samples: by their logits, their features, or each of them.

    Examples
    --------
    >>> hashes_of(Outputs(logits=[[1.0, 2.0], [1.0, 2.0]]))["logits"].size
    2
    """
    arrays = {name: getattr(outputs, name) for name in ("logits", "features")}
    return {
        name: _check.frozen(np.sort(_hashed(array))[:_KEPT])
        for name, array in arrays.items()
        if array is not None
    }


def n_seen(outputs: Outputs, seen: Hashes) -> tuple[int, int]:
    """Count the known samples that are among those hashed, and all known ones.

    The first number is 0 if rounding explains it: if rows are equal within the outputs
    or among those hashed, as many are equal between them. Of more than 65,536 hashed
    samples it is an estimate.
    """
    labels = outputs.labels
    known = slice(None) if labels is None else np.flatnonzero(labels != UNKNOWN)
    for name, theirs in seen.items():
        array = getattr(outputs, name)
        if array is None or not theirs.size:
            continue
        mine = _hashed(array)[known]
        near = mine[mine <= theirs[-1]] if theirs.size == _KEPT else mine
        distinct, counts = np.unique(near, return_counts=True)
        common = np.isin(distinct, theirs)
        of_theirs = np.unique(theirs, return_counts=True)[1]
        n, chance = int(common.sum()), max(_twins(counts), _twins(of_theirs))
        expected = chance * distinct.size
        beyond = max(_SHARE * distinct.size, 4 * expected**0.5)
        if n >= _FEWEST and n - expected > beyond:
            return round(mine.size * float(counts[common].sum() / near.size)), mine.size
    return 0, len(outputs) if labels is None else known.size  # type: ignore[union-attr]


def need_unseen(caller: str, name: str, outputs: Outputs, seen: Hashes) -> None:
    """Raise if these are samples that were hashed: a detector was fitted on them."""
    n, n_known = n_seen(outputs, seen)
    if n:
        _check.fail(
            caller,
            name,
            "samples that the detector was not fitted on",
            f"{n} of {n_known} known samples that are among its training samples",
            "It knows these by heart, and promises too much. Split them first: fit on "
            "one part, choose the threshold on another, test on a third",
        )


def _hashed(array: Array) -> NDArray[np.uint64]:
    n, width = array.shape
    columns = np.unique(np.linspace(0, width - 1, min(width, _COLUMNS)).astype(int))
    # Odd factors: a change of any one number changes the sum.
    factors = np.cumprod(np.full(columns.size, _GOLDEN, np.uint64))
    found = np.empty(n, np.uint64)
    for rows in _xp.runs(n, _ROWS):
        part = picked(array[rows, ...], columns, axis=1)
        values = _xp.to_numpy(part).astype(np.float64)
        mantissa, exponent = np.frexp(values)
        with np.errstate(over="ignore"):  # the largest numbers round up to inf
            coarse = np.ldexp(np.rint(np.ldexp(mantissa, _BITS)), exponent - _BITS)
        coarse = np.where(np.isfinite(values), coarse, values) + 0.0  # no -0
        found[rows] = (coarse.view(np.uint64) >> np.uint64(32)) @ factors
    return found


def _twins(counts: NDArray[np.intp]) -> float:
    """Return the share of samples with an equal one; not of what very many share."""
    light = counts[counts <= max(counts.sum() // 100, 4)]
    return float(light[light > 1].sum() / light.sum()) if light.size else 1.0
