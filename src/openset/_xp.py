"""Array helpers that run unchanged on NumPy, torch and any array-API library."""
# ruff: noqa: PLC0414  # names that are taken from here

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace as array_namespace
from array_api_compat import device as device
from array_api_compat import is_array_api_obj as is_array_api_obj
from array_api_compat import is_numpy_array as is_numpy_array
from array_api_compat import is_torch_array as is_torch_array
from array_api_compat import to_device as to_device
from numpy.typing import NDArray

from openset._types import Array

# Temporaries of this size stay in the cache and are reused by the allocator; larger
# ones are returned to the system and paged in again, which costs several times as much
# as the arithmetic. On smaller ones threads would mostly wait for the interpreter.
_CACHE_BYTES = 2 << 20
# NumPy sorts rows up to this length in registers, at a fourth of the cost per number.
_SHORT_ROW_BYTES = 2048
# `np.einsum` adds up rows at a fourth of the cost of `np.sum`, in a dozen partial sums;
# in longer rows these have more rounding errors than the sums of sums of `np.sum`.
_LONGEST_EINSUM = 2048


def to_numpy(array: Array) -> NDArray[Any]:
    """Convert an array of any library and device to NumPy."""
    if is_numpy_array(array):
        return np.asarray(array)
    if is_torch_array(array):
        array = array.detach().cpu()
        # NumPy has no bfloat16; float32 represents all of its values.
        return (array.float() if "bfloat16" in str(array.dtype) else array).numpy()
    return np.from_dlpack(array) if is_array_api_obj(array) else np.asarray(array)


def as_float(values: Any) -> Array:
    """Return an array of real floating point numbers as it is, all else as float64."""
    array = values if is_array_api_obj(values) else np.asarray(values)
    xp = array_namespace(array)
    is_float = xp.isdtype(array.dtype, "real floating")
    return array if is_float else xp.astype(array, xp.float64)


def runs(n: int, size: int) -> Iterator[slice]:
    """Split ``0..n`` into slices of at most `size`."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def is_traced(array: Array) -> bool:
    """Whether the graph of what is computed with an array is being exported."""
    return is_torch_array(array) and sys.modules["torch"].compiler.is_exporting()


def by_rows(
    function: Callable[..., Array],
    *arrays: Array,
    size: int = _CACHE_BYTES,
    step: int | None = None,
) -> Array:
    """Apply a function to blocks of rows, so that temporaries stay in the cache.

    On the CPU they have so many bytes; or, everywhere, so many rows.
    """
    n = arrays[0].shape[0]
    if step is None and is_on_cpu(arrays[0]):
        # Dtypes of the standard need not have a size attribute.
        each = (
            getattr(a.dtype, "itemsize", 8) * math.prod(a.shape[1:]) for a in arrays
        )
        step = max(1, size // sum(each))
    if step is None or is_traced(arrays[0]) or n <= step:
        return function(*arrays)
    parts = [function(*(a[rows, ...] for a in arrays)) for rows in runs(n, step)]
    return array_namespace(parts[0]).concat(parts, axis=0)


def pick(rows: Array, columns: Array) -> Array:
    """Return one entry of each row: ``rows[i, columns[i]]``."""
    if is_numpy_array(rows):
        return rows[np.arange(rows.shape[0]), columns]
    if is_torch_array(rows):  # of any number of rows, in a traced graph
        return rows.gather(1, columns[:, None])[:, 0]
    return array_namespace(rows).take_along_axis(rows, columns[:, None], axis=1)[:, 0]


def row_sums(rows: Array) -> Array:
    """Return the sum of each row."""
    if is_numpy_array(rows) and rows.shape[1] <= _LONGEST_EINSUM:
        return np.einsum("ij->i", rows)
    return array_namespace(rows).sum(rows, axis=1)


def logsumexp(logits: Array) -> Array:
    """Return ``log(sum(exp(logits)))`` of each row, without overflow.

    A row of -inf gives -inf, a row with +inf gives +inf.
    """
    if is_torch_array(logits) and not is_traced(logits):  # ONNX's underflows
        return logits.logsumexp(1)
    return by_rows(_logsumexp, logits)


def _logsumexp(logits: Array) -> Array:
    if not is_numpy_array(logits) or logits.shape[1] == 1:  # one logit is exact
        return _shifted_logsumexp(logits)
    # Finding the maximum of each row costs more than everything else. Without it, sums
    # may overflow or underflow: only those rows are computed again, so that a value
    # does not depend on other rows.
    with np.errstate(over="ignore"):
        sums = row_sums(np.exp(logits))
    is_lost = ~((sums > np.sqrt(np.finfo(sums.dtype).tiny)) & (sums < np.inf))
    found: Array = np.log(np.where(is_lost, 1, sums))
    if is_lost.any():
        found[is_lost] = _shifted_logsumexp(logits[is_lost])
    return found


def _shifted_logsumexp(logits: Array) -> Array:
    xp = array_namespace(logits)
    top = xp.max(logits, axis=1)
    # inf - inf is NaN: shift only by finite maxima.
    shift = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    return log(row_sums(xp.exp(logits - shift[:, None]))) + shift


def log(array: Array) -> Array:
    """Return the natural logarithm; log(0) is -inf, without a warning."""
    with np.errstate(divide="ignore"):  # also for libraries that are built on NumPy
        return array_namespace(array).log(array)


def row_norms(rows: Array) -> Array:
    """Return the Euclidean length of each row."""
    if is_numpy_array(rows):
        return np.sqrt(row_dots(rows, rows))
    return array_namespace(rows).linalg.vector_norm(rows, axis=1)


def row_dots(a: Array, b: Array) -> Array:
    """Return the inner products of corresponding rows."""
    if is_numpy_array(a):
        return np.einsum("ij,ij->i", a, b)  # one pass, no temporary
    return array_namespace(a).sum(a * b, axis=1)


def top_values(rows: Array, k: int) -> Array:
    """Return the `k` largest entries of each row, in no particular order, as a copy."""
    if k == rows.shape[1]:
        return array_namespace(rows).asarray(rows, copy=True)
    if is_numpy_array(rows):
        return _top_of_numpy(rows, k)
    if is_torch_array(rows):
        return rows.topk(k, dim=1, sorted=False).values
    xp = array_namespace(rows)
    return xp.sort(rows, axis=1)[:, rows.shape[1] - k :]


def _top_of_numpy(rows: NDArray[Any], k: int) -> NDArray[Any]:
    width = rows.shape[1]
    short = _SHORT_ROW_BYTES // rows.itemsize
    if width <= short:
        return np.sort(rows, axis=1)[:, width - k :]
    n_pieces = -(-width // short)
    if 2 * n_pieces * k > width:  # the row is too short to be split
        return np.partition(rows, width - k, axis=1)[:, width - k :]
    pieces = runs(width, -(-width // n_pieces))
    best = [np.sort(rows[:, piece], axis=1)[:, -k:] for piece in pieces]
    return _top_of_numpy(np.concatenate(best, axis=1), k)


def exp_sum_without(logits: Array, top: Array, left_out: Array) -> Array:
    """Return the row sums of ``exp(logits - top)`` without column `left_out`."""
    # inf - inf, in the top entry, is replaced; elsewhere NaN stays, to be reported.
    with np.errstate(invalid="ignore"):
        terms = array_namespace(logits).exp(logits - top[:, None])
    return row_sums(put(terms, left_out, 0.0))


def put(rows: Array, columns: Array, value: Any) -> Array:
    """Set ``rows[i, columns[i]]`` to a number or to ``value[i]``, in place if possible.

    `rows` must be a temporary array, never a caller's.
    """
    if is_numpy_array(rows):
        rows[np.arange(rows.shape[0]), columns] = value
        return rows
    value = value[:, None] if is_array_api_obj(value) else value
    if is_torch_array(rows):
        return rows.scatter_(1, columns[:, None], value)
    xp = array_namespace(rows)
    is_hit = xp.arange(rows.shape[1], device=device(rows))[None, :] == columns[:, None]
    return xp.where(is_hit, value, rows)


def moved(values: NDArray[Any], like: Array) -> Array:
    """Return NumPy values in the library and on the device of `like`."""
    if is_numpy_array(like):
        return values
    xp = array_namespace(like)
    # torch would share memory with NumPy, and warns if that is read-only.
    return xp.asarray(np.require(values, requirements="W"), device=device(like))


def is_on_cpu(array: Array) -> bool:
    """Whether an array is in CPU memory."""
    return "cpu" in str(device(array)).lower()


def gpu_memory(array: Array) -> int | None:
    """Return the bytes of memory of the GPU that holds a torch tensor, else None."""
    if not is_torch_array(array) or array.device.type != "cuda":
        return None
    torch = sys.modules["torch"]
    return int(torch.cuda.get_device_properties(array.device).total_memory)


def describe(array: Array) -> str:
    """Describe the library and device of an array, for messages."""
    library = array_namespace(array).__name__.rpartition(".")[2]
    return library if is_on_cpu(array) else f"{library} on {device(array)}"


def or_one(values: Array) -> Array:
    """Return the values, with 1 for 0: to divide by."""
    xp = array_namespace(values)
    return xp.where(values == 0, xp.ones_like(values), values)
