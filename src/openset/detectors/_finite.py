"""Find infinite numbers in the arrays of a fit, and in the outputs it was made of."""

import math
from collections.abc import Iterable
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import Array, InvalidSamplesError
from openset.detectors._batch import batches
from openset.outputs import Outputs

_REAL = "real floating"


def are_finite(arrays: Iterable[Array]) -> bool:
    """Whether all numbers are finite. On a device one of them is fetched, once."""
    real = [a for a in arrays if _xp.array_namespace(a).isdtype(a.dtype, _REAL)]
    if not real:
        return True
    # A sum is finite only if all its terms are. Of huge terms it may be infinite.
    with np.errstate(over="ignore", invalid="ignore"):
        total = reduce(add, (_xp.array_namespace(a).sum(a) for a in real))
    return math.isfinite(float(total)) or all(map(_is_finite, real))


def _is_finite(array: Array) -> bool:
    xp = _xp.array_namespace(array)
    is_real = xp.isdtype(array.dtype, _REAL)
    return not is_real or bool(xp.all(xp.isfinite(array)))


def need_finite(caller: str, outputs: Outputs) -> None:
    """Raise and name the first infinite input, if the state is not finite."""
    for rows, batch in batches(outputs, None, progress=False):
        for name in ("logits", "features"):
            array = None if getattr(outputs, name) is None else getattr(batch, name)
            if array is None or _is_finite(array):
                continue
            is_bad = ~np.isfinite(_xp.to_numpy(array)).all(axis=1)
            msg = _check.must(
                "finite",
                caller=f"{caller}.fit",
                name=name,
                got=f"an infinite number in row {rows.start + int(is_bad.argmax())}",
                remedy="Leave such samples out; a network run in half precision "
                "overflows above 65504",
            )
            raise ValueError(msg)


def need_numbers(
    detector: object,
    values: NDArray[np.float64],
    chosen: NDArray[np.int64] | None = None,
) -> None:
    """Raise and name the detector, if there is NaN among what it computed.

    `chosen` are the numbers of the samples, if not all were scored.
    """
    if np.isnan(values.min()):  # min propagates NaN: one pass, no mask
        bad = np.unique(np.nonzero(np.isnan(values))[0])
        rows = bad if chosen is None else chosen[bad]
        msg = _check.must(
            "free of NaN",
            caller=type(detector).__name__,
            name="result",
            got=f"NaN for {bad.size} samples, first in row {rows[0]}",
            remedy="Look for infinite logits or features, and for inf - inf or 0/0 in "
            "a detector of your own",
        )
        raise InvalidSamplesError(msg, rows.tolist())
