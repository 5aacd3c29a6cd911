"""Which samples are invalid: with NaN, or of a class that is not determined."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import Array, InvalidSamplesError

Invalid = Literal["error", "keep"]
"""What `Outputs` does with invalid samples."""


def is_suspect(array: Array, *, are_logits: bool) -> bool:
    """Whether there may be an invalid row: one or two passes, no mask.

    On a device one number is fetched.
    """
    xp = _xp.array_namespace(array)
    low = xp.min(array)  # min and max propagate NaN
    if not are_logits:
        return bool(xp.isnan(low))
    return not bool(xp.isfinite(low) & (xp.max(array) < xp.inf))


def invalid_rows(array: Array, *, are_logits: bool) -> NDArray[np.bool_]:
    """Return a mask of the invalid rows.

    A row with NaN is invalid. So is a row of logits whose largest one is infinite and
    not the only one: of two that are +inf, or of all at -inf, nothing says which is the
    predicted class.
    """
    return _xp.to_numpy(_xp.by_rows(_of_logits if are_logits else _with_nan, array))


def _with_nan(rows: Array) -> Array:
    xp = _xp.array_namespace(rows)
    return xp.any(xp.isnan(rows), axis=1)


def _of_logits(rows: Array) -> Array:
    return _with_nan(rows) | is_undetermined(rows)


def is_undetermined(logits: Array) -> Array:
    """Return where the largest logit is infinite and not the only one."""
    xp = _xp.array_namespace(logits)
    top = xp.max(logits, axis=1)
    n_top = xp.sum(xp.astype(logits == top[:, None], xp.int64), axis=1)
    return xp.isinf(top) & (n_top > 1)


def need_valid(
    caller: str,
    name: str,
    array: Array,
    *,
    rows: slice | NDArray[np.int64] | None = None,
) -> None:
    """Raise if rows of logits or features are invalid.

    `rows` are the numbers of the samples, if these are a part of others.
    """
    are_logits = name == "logits"
    if not is_suspect(array, are_logits=are_logits):
        return
    bad = np.flatnonzero(invalid_rows(array, are_logits=are_logits))
    if bad.size:
        has_nan = bool(np.isnan(_xp.to_numpy(array[int(bad[0]), ...])).any())
        numbers = bad if rows is None else np.r_[rows][bad]
        what = "NaN" if has_nan else "several +inf, or -inf alone,"
        rule = "free of NaN" if has_nan else "largest for one class"
        got = f"{what} in {bad.size} rows, first in row {numbers[0]}"
        error = partial(InvalidSamplesError, rows=numbers.tolist())
        _check.fail(caller, name, rule, got, error=error)


@dataclass(frozen=True, eq=False)
class WithGaps:
    """A batch with other samples in place of those that could not be read.

    Attributes
    ----------
    batch
        Inputs, labels and ids.
    is_read
        Which samples were read.
    """

    batch: Any
    is_read: NDArray[np.bool_]

    def filled(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return outputs of the batch with NaN for the samples that were not read."""
        gaps = ~self.is_read[:, None]
        return {
            n: np.where(gaps, rows.dtype.type("nan"), rows)
            for n, rows in arrays.items()
        }
