"""`Batch`: samples whose reductions are shared, and how outputs are split."""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._progress import bar
from openset._types import Array
from openset.detectors import _fused
from openset.outputs import Outputs, need_valid, replaced

State: TypeAlias = Mapping[str, Array]
T = TypeVar("T")

# Long enough for fast matrix products and little interpreter overhead, short enough for
# the last-level cache; the reductions below split a batch further (`_xp.by_rows`).
# Accelerators need longer batches: starting the kernels of one takes half a
# millisecond. A GPU gets a share of its memory that leaves room for temporaries.
_BATCH_BYTES_CPU = 8 << 20
_BATCH_BYTES_DEVICE = 256 << 20
_MOST_BATCH_BYTES = 2 << 30
_MEMORY_SHARE = 64


class Batch:
    """A batch of samples, with every reduction computed at most once.

    Detectors read logits and features through it, so scoring several detectors on one
    batch passes over the data once. Logits and features have one dtype, at least
    float32. Memory-mapped arrays, which were not checked before, are checked for
    invalid samples here.
    """

    def __init__(
        self, outputs: Outputs, rows: Any = None, *, of: "Batch | None" = None
    ) -> None:
        self._outputs = outputs if rows is None else outputs.take(rows)
        self._whole, self._rows = outputs, rows
        self._of = of  # the batch whose samples these are, in another form
        self._made: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        return len(self._outputs)

    @cached_property
    def logits(self) -> Array:
        """Logits, shape (n, C)."""
        return self._read("logits")

    @cached_property
    def features(self) -> Array:
        """Features, shape (n, d)."""
        return self._read("features")

    def _read(self, name: str) -> Array:
        array = getattr(self._outputs, name)
        dtype = working_dtype(self._outputs)
        if not isinstance(getattr(self._whole, name), np.memmap):
            xp = _xp.array_namespace(array)
            return xp.astype(array, dtype, copy=False)
        plain = np.asarray(array).astype(dtype, copy=False)
        need_valid("Outputs", name, plain, numbers=self.numbers)
        return plain

    def numbers(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of samples in the outputs that the batch is a part of."""
        if self._of is not None:
            return self._of.numbers(places)
        if self._rows is None:
            return places
        if isinstance(self._rows, slice):
            start, _, step = self._rows.indices(len(self._whole))
            return start + step * places
        rows = np.asarray(self._rows)
        return (np.flatnonzero(rows) if rows.dtype == bool else rows)[places]

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make`, called at most once per batch and key."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def tempered(self, temperature: float) -> "Batch":
        """Return the batch with its logits divided by `temperature`."""
        if temperature == 1:
            return self

        def make() -> Batch:
            changed = replaced(self._outputs, logits=self.logits / temperature)
            return Batch(changed, of=self)

        return self.once(("tempered", temperature), make)

    @cached_property
    def _fused(self) -> Any:
        """All reductions of the logits from one GPU kernel; None elsewhere."""
        return _fused.reduce_rows(self.logits)

    @cached_property
    def top_class(self) -> Array:
        """Argmax of the logits, lowest index on ties, shape (n,)."""
        if self._fused is not None:
            return self._fused.top_class
        return _xp.array_namespace(self.logits).argmax(self.logits, axis=1)

    @cached_property
    def top_logit(self) -> Array:
        """Largest logit of each sample, shape (n,)."""
        if self._fused is not None:
            return self._fused.top_logit
        return _xp.pick(self.logits, self.top_class)

    @cached_property
    def other_mass(self) -> Array:
        r"""Sum over all classes but the top one of ``exp(logit - top_logit)``.

        The largest softmax probability is ``1 / (1 + other_mass)``. The top class is
        left out of the sum, not subtracted from it, so confident samples keep their
        precision.
        """
        if self._fused is not None:
            return self._fused.other_mass
        return _xp.by_rows(
            _xp.exp_sum_without, self.logits, self.top_logit, self.top_class
        )

    @cached_property
    def log_other_mass(self) -> Array:
        """Logarithm of `other_mass`; -inf with one class only, never by underflow."""
        if self._fused is not None:
            return self._fused.log_other_mass
        xp = _xp.array_namespace(self.logits)
        is_lost = self.other_mass < xp.finfo(self.logits.dtype).smallest_normal
        direct = _xp.log(self.other_mass)
        if self.logits.shape[1] == 1 or not _xp.some(is_lost):
            return direct
        # e^(z - top) underflowed: use the second largest logit as reference. Only in
        # those rows, so that a score does not depend on other samples.
        own = xp.asarray(self.logits, copy=True)
        others = _xp.put(own, self.top_class, -xp.inf)
        return xp.where(is_lost, _xp.logsumexp(others) - self.top_logit, direct)

    @cached_property
    def energy(self) -> Array:
        """Return ``log(sum(exp(logits)))`` of each sample, shape (n,)."""
        xp = _xp.array_namespace(self.logits)
        if self._fused is not None:
            return self.top_logit + xp.log1p(self.other_mass)
        found = _xp.logsumexp(self.logits)
        # All logits are -inf: NaN is reported, as by the other reductions.
        return xp.where(found == -xp.inf, xp.full_like(found, xp.nan), found)

    @cached_property
    def feature_norm(self) -> Array:
        """Euclidean length of each feature vector, shape (n,)."""
        return _xp.by_rows(lengths, self.features)

    @cached_property
    def unit_features(self) -> Array:
        """Features scaled to length one (a zero vector stays zero), shape (n, d)."""
        xp = _xp.array_namespace(self.features)
        norms = self.feature_norm
        units = self.features / xp.where(norms > 0, norms, xp.ones_like(norms))[:, None]
        is_lost = ~xp.isfinite(norms)
        if not _xp.some(is_lost):
            return units
        # Of a length beyond all floats. Only in those rows, so that a score does not
        # depend on other samples.
        small = self.features / _largest(self.features)[:, None]
        norms = _xp.row_norms(small)
        others = small / xp.where(norms > 0, norms, xp.ones_like(norms))[:, None]
        return xp.where(is_lost[:, None], others, units)


def lengths(rows: Array) -> Array:
    """Return the Euclidean length of each row, though its square may overflow.

    Or underflow: squares of float32 numbers below 1e-23 are 0.

    Examples
    --------
    >>> lengths(np.array([[3e300, 4e300], [3e-200, 4e-200], [0.0, 2.0]]))
    array([5.e+300, 5.e-200, 2.e+000])
    """
    xp = _xp.array_namespace(rows)
    found = _xp.row_norms(rows)
    limits = xp.finfo(rows.dtype)
    least = math.sqrt(float(limits.smallest_normal) / float(limits.eps))
    is_lost = ~xp.isfinite(found) | (found < least)
    if not _xp.some(is_lost):
        return found
    largest = _largest(rows)
    with np.errstate(over="ignore"):  # the length itself may be beyond all floats
        again = largest * _xp.row_norms(rows / largest[:, None])
    return xp.where(is_lost, again, found)


def _largest(rows: Array) -> Array:
    """Return the largest size of a number in each row; 1 if that is 0 or infinite."""
    xp = _xp.array_namespace(rows)
    found = xp.max(xp.abs(rows), axis=1)
    is_usable = xp.isfinite(found) & (found > 0)
    return xp.where(is_usable, found, xp.ones_like(found))


def working_dtype(outputs: Outputs) -> Any:
    """Return float64 if logits or features are that or wider, else float32."""
    arrays = [a for a in (outputs.logits, outputs.features) if a is not None]
    xp = _xp.array_namespace(*arrays)

    def is_wide(dtype: Any) -> bool:
        # By size: NumPy's long double and byte-swapped types do not equal float64.
        return dtype == xp.float64 or getattr(dtype, "itemsize", 0) > 4

    return xp.float64 if any(is_wide(a.dtype) for a in arrays) else xp.float32


def in_dtype(state: State, dtype: Any) -> State:
    """Cast the real arrays of a state: matrix products need one dtype."""

    def cast(array: Array) -> Array:
        xp = _xp.array_namespace(array)
        is_real = xp.isdtype(array.dtype, "real floating")
        return xp.astype(array, dtype, copy=False) if is_real else array

    return {name: cast(array) for name, array in state.items()}


def fit_batches(
    train: Outputs, chosen: NDArray[np.int64] | None = None
) -> Iterator[Batch]:
    """Split training outputs, or selected rows of them, into batches.

    `fit_state` loops over them so that its temporaries do not grow with the data.
    """
    n, size = len(train) if chosen is None else chosen.size, batch_rows(train)
    if chosen is None and n <= size:
        yield Batch(train)
        return
    for rows in _xp.runs(n, size):
        yield Batch(train, rows if chosen is None else chosen[rows])


def batches_with(
    train: Outputs, values: Any
) -> Iterator[tuple[Batch, NDArray[np.int64]]]:
    """Split training outputs into batches, each with its share of `values` (n,)."""
    start = 0
    for batch in fit_batches(train):
        yield batch, values[start : start + len(batch)]
        start += len(batch)


def draw(n: int, size: int, seed: int) -> NDArray[np.int64] | None:
    """Draw `size` of `n` rows, in order; all of them (None) if there are no more."""
    if size >= n:
        return None
    rng = np.random.default_rng(seed)
    # In order: a memory map is then read front to back.
    return np.sort(rng.choice(n, size=size, replace=False))


def batches(
    outputs: Outputs,
    size: int | None,
    *,
    progress: bool,
    chosen: NDArray[np.int64] | None = None,
) -> Iterator[tuple[slice, Batch]]:
    """Split outputs, or selected rows of them, into batches to score."""
    n = len(outputs) if chosen is None else chosen.size
    size = batch_rows(outputs) if size is None else size
    _check.positive_int("score", "batch_size", size)
    for rows in bar(_xp.runs(n, size), "scoring", total=-(-n // size), show=progress):
        yield rows, Batch(outputs, rows if chosen is None else chosen[rows])


def first(outputs: Outputs) -> Array:
    return outputs.logits if outputs.logits is not None else outputs.features


def batch_rows(outputs: Outputs) -> int:
    array = first(outputs)
    memory = _xp.gpu_memory(array)
    if memory is not None:
        budget = min(memory // _MEMORY_SHARE, _MOST_BATCH_BYTES)
    else:
        budget = _BATCH_BYTES_CPU if _xp.is_on_cpu(array) else _BATCH_BYTES_DEVICE
    return max(64, budget // max(outputs.nbytes_per_sample, 1))
