"""Functions shared by methods that change features or weights of the last layer."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import Array, InvalidSamplesError
from openset.detectors._batch import State
from openset.outputs import Outputs

Numbers = Callable[[NDArray[np.int64]], NDArray[np.int64]]


def head(caller: str, train: Outputs) -> dict[str, Array]:
    """Return weight and bias of the last layer as state: copies, free of NaN."""
    return {name: _part(caller, train, name) for name in ("weight", "bias")}


def weight(caller: str, train: Outputs, dtype: Any) -> Array:
    """Return the weight of the last layer: a copy, free of NaN."""
    return _part(caller, train, "weight", dtype)


def _part(caller: str, train: Outputs, name: str, dtype: Any = None) -> Array:
    array: Array = getattr(train, name)
    # Memory-mapped arrays have not been checked before.
    if isinstance(array, np.memmap) and np.isnan(array).any():
        msg = _check.must("free of NaN", caller=f"{caller}.fit", name=name, got="NaN")
        raise ValueError(msg)
    xp = _xp.array_namespace(array)
    return xp.astype(array, array.dtype if dtype is None else dtype, copy=True)


def head_logits(state: State, features: Array) -> Array:
    """Apply the last layer to features."""
    logits = features @ state["weight"].T
    logits += state["bias"]
    return logits


def head_energy(
    state: State, features: Array, change: Callable[[Array], Array]
) -> Array:
    """Return the energy of the logits that the last layer gives to changed features.

    A block of rows at a time: the changed features stay in the cache.
    """

    def energy(rows: Array) -> Array:
        return _xp.logsumexp(head_logits(state, change(rows)))

    return _xp.by_rows(energy, features)


def head_class(state: State, features: Array) -> Array:
    """Return the argmax of the logits the last layer gives to these features."""
    logits = head_logits(state, features)
    return _xp.array_namespace(logits).argmax(logits, axis=1)


def n_kept(width: int, percentile: float) -> int:
    """Return the number of largest entries to keep: at least one.

    ``width - round(width * percentile / 100)``, halves rounded to even.
    """
    return max(1, width - round(width * percentile / 100))


def expansion(
    caller: str, features: Array, k: int, numbers: Numbers | None = None
) -> Array:
    """Return exp(sum of all entries / sum of the `k` largest) of each row.

    A zero row gets 1. Rows whose largest entries do not have a positive sum raise an
    error: the ratio would be meaningless. `numbers` gives the numbers of samples, for
    the error (`Batch.numbers`).
    """

    def error(msg: str, is_bad: Array) -> InvalidSamplesError:
        rows = np.flatnonzero(_xp.to_numpy(is_bad))
        found = rows if numbers is None else numbers(rows)
        return InvalidSamplesError(msg, found.tolist())

    xp = _xp.array_namespace(features)

    def largest(rows: Array) -> Array:
        return xp.sum(_xp.top_values(rows, k), axis=1)

    def is_zero_row(rows: Array) -> Array:
        return xp.all(rows == 0, axis=1)

    total, kept = xp.sum(features, axis=1), _xp.by_rows(largest, features)
    limit = math.log(xp.finfo(total.dtype).max)
    if _xp.is_traced(total):  # a graph cannot raise: invalid rows are NaN
        ratio = total / xp.where(kept > 0, kept, xp.nan)
        ratio = xp.where(ratio <= limit, ratio, xp.nan)
        return xp.exp(xp.where(is_zero_row(features), 0.0, ratio))
    if bool(xp.any(kept <= 0)):
        is_zero = _xp.by_rows(is_zero_row, features)
        is_bad = (kept <= 0) & ~is_zero
        n_bad = int(xp.count_nonzero(is_bad))
        if n_bad:
            msg = _check.must(
                "non-negative, as after a ReLU",
                caller=f"{caller}.score",
                name="features",
                got=f"{n_bad} samples whose {k} largest sum to 0 or less",
                remedy="Negative entries (as after LayerNorm) need relu=True",
            )
            raise error(msg, is_bad)
        kept = xp.where(is_zero, xp.ones_like(kept), kept)
        ratio = xp.where(is_zero, xp.zeros_like(total), total / kept)
    else:
        ratio = total / kept
    largest_ratio = float(xp.max(ratio))
    if largest_ratio > limit:
        msg = _check.must(
            f"such that sum / sum of the {k} largest is at most {limit:.0f}",
            caller=f"{caller}.score",
            name="features",
            got=f"{largest_ratio:.3g}",
            remedy="Lower percentile",
        )
        raise error(msg, ratio > limit)
    return xp.exp(ratio)
