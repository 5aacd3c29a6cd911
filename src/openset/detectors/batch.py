"""`Batch`: samples whose reductions are shared, and how outputs are split."""

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy  # its submodules are imported on first use
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from openset import _check, _xp
from openset._progress import bar
from openset._types import Array
from openset.detectors import kernels
from openset.outputs import Outputs, need_valid, replaced

State: TypeAlias = Mapping[str, Array]
Training: TypeAlias = Any  # `Outputs` with the arrays that the detector needs
T = TypeVar("T")

# Long enough for fast matrix products and little interpreter overhead, short enough for
# the last-level cache; the reductions below split a batch further (`_xp.by_rows`).
# Accelerators need longer batches: starting the kernels of one takes half a
# millisecond. A GPU gets a share of its memory that leaves room for temporaries.
_BATCH_BYTES_CPU = 8 << 20
_BATCH_BYTES_DEVICE = 256 << 20
_MOST_BATCH_BYTES = 2 << 30
_MEMORY_SHARE = 64


class shared(cached_property[Any]):  # noqa: N801  # a decorator, as `property`
    """A property of a batch that is computed once.

    That of Python 3.11 has one lock for all instances: the batches of several threads
    would wait for each other.
    """

    def __get__(self, batch: Any, kind: Any = None) -> Any:
        if batch is None:
            return self
        found = vars(batch)[self.attrname] = self.func(batch)
        return found


class Batch:
    """A batch of samples, with every reduction computed at most once.

    Detectors read logits and features through it, so scoring several detectors on one
    batch passes over the data once. Logits and features have one dtype, at least
    float32. Memory-mapped arrays, which were not checked before, are checked for
    invalid samples here.
    """

    def __init__(self, outputs: Outputs, rows: Any = None) -> None:
        self._outputs = outputs if rows is None else outputs.take(rows)
        self._whole, self.rows = outputs, rows
        self._made: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        return len(self._outputs)

    @shared
    def logits(self) -> Array:
        """Logits, shape (n, C)."""
        return self._read("logits")

    @shared
    def features(self) -> Array:
        """Features, shape (n, d)."""
        return self._read("features")

    def _read(self, name: str) -> Array:
        array = getattr(self._outputs, name)
        if isinstance(getattr(self._whole, name), np.memmap):
            array = np.asarray(array)
            need_valid("Outputs", name, array, rows=self.rows)
        xp = _xp.array_namespace(array)
        return xp.astype(array, working_dtype(self._outputs), copy=False)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make`, called at most once per batch and key."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def tempered(self, temperature: float) -> "Batch":
        """Return the batch with its logits divided by `temperature`."""
        if temperature == 1:
            return self
        return self.once(
            ("tempered", temperature),
            lambda: Batch(replaced(self._outputs, logits=self.logits / temperature)),
        )

    @shared
    def _fused(self) -> Any:
        """Class, logit and masses below, from one GPU kernel; None elsewhere."""
        return kernels.call("reduce_rows", self.logits)

    @shared
    def top_class(self) -> Array:
        """Argmax of the logits, lowest index on ties, shape (n,)."""
        xp = _xp.array_namespace(self.logits)
        return self._fused[0] if self._fused else xp.argmax(self.logits, axis=1)

    @shared
    def top_logit(self) -> Array:
        """Largest logit of each sample, shape (n,)."""
        fused = self._fused
        return fused[1] if fused else _xp.pick(self.logits, self.top_class)

    @shared
    def other_mass(self) -> Array:
        r"""Sum over all classes but the top one of ``exp(logit - top_logit)``.

        The largest softmax probability is ``1 / (1 + other_mass)``. The top class is
        left out of the sum, not subtracted from it, so confident samples keep their
        precision.
        """
        if self._fused:
            return self._fused[2]
        parts = self.logits, self.top_logit, self.top_class
        return _xp.by_rows(_xp.exp_sum_without, *parts)

    @shared
    def log_other_mass(self) -> Array:
        """Logarithm of `other_mass`; -inf with one class only, never by underflow."""
        if self._fused:
            return self._fused[3]
        xp = _xp.array_namespace(self.logits)
        is_lost = self.other_mass < xp.finfo(self.logits.dtype).smallest_normal
        direct = _xp.log(self.other_mass)
        # In a traced graph both cases are written.
        is_any = _xp.is_traced(is_lost) or xp.any(is_lost)
        if self.logits.shape[1] == 1 or not is_any:
            return direct
        # e^(z - top) underflowed: use the second largest logit as reference. Only in
        # those rows, so that a score does not depend on other samples.
        own = xp.asarray(self.logits, copy=True)
        others = _xp.put(own, self.top_class, -xp.inf)
        return xp.where(is_lost, _xp.logsumexp(others) - self.top_logit, direct)

    @shared
    def energy(self) -> Array:
        """Return ``log(sum(exp(logits)))`` of each sample, shape (n,)."""
        xp = _xp.array_namespace(self.logits)
        if self._fused:
            return self.top_logit + xp.log1p(self.other_mass)
        found = _xp.logsumexp(self.logits)
        # All logits are -inf: NaN is reported, as by the other reductions.
        return xp.where(found == -xp.inf, xp.nan, found)

    @shared
    def probabilities(self) -> Array:
        """Softmax of the logits, shape (n, C)."""
        return _xp.array_namespace(self.logits).exp(self.logits - self.energy[:, None])

    @shared
    def feature_norm(self) -> Array:
        """Euclidean length of each feature vector, shape (n,)."""
        norms = _xp.row_norms(self.features)
        # Beyond all floats: NaN is reported. (A number over inf would be 0.)
        xp = _xp.array_namespace(norms)
        return xp.where(norms < xp.inf, norms, xp.nan)

    @shared
    def unit_features(self) -> Array:
        """Features scaled to length one (a zero vector stays zero), shape (n, d)."""
        return self.features / _xp.or_one(self.feature_norm)[:, None]


def working_dtype(outputs: Outputs) -> Any:
    """Return float64 if logits or features are that or wider, else float32."""
    arrays = [a for a in (outputs.logits, outputs.features) if a is not None]
    xp = _xp.array_namespace(*arrays)
    is_wide = any(xp.finfo(array.dtype).bits > 32 for array in arrays)
    return xp.float64 if is_wide else xp.float32


def in_dtype(state: State, dtype: Any) -> dict[str, Array]:
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

    `fit_state` loops over them so that its temporaries do not grow with the data; the
    `rows` of a batch select its share of other arrays.
    """
    n = len(train) if chosen is None else chosen.size
    for rows in _xp.runs(n, batch_rows(train)):
        yield Batch(train, rows if chosen is None else chosen[rows])


def draw(n: int, size: int, seed: int) -> NDArray[np.int64] | None:
    """Draw `size` of `n` rows, in order; all of them (None) if there are no more."""
    if size >= n:
        return None
    rng = np.random.default_rng(seed)
    # In order: a memory map is then read front to back.
    return np.sort(rng.choice(n, size=size, replace=False))


def first(outputs: Outputs) -> Array:
    """Return the logits, or the features if there are none."""
    return outputs.logits if outputs.logits is not None else outputs.features


def batch_rows(outputs: Outputs) -> int:
    """Return how many samples a batch has by default."""
    array = first(outputs)
    memory = _xp.gpu_memory(array)
    if memory is not None:
        budget = min(memory // _MEMORY_SHARE, _MOST_BATCH_BYTES)
    else:
        budget = _BATCH_BYTES_CPU if _xp.is_on_cpu(array) else _BATCH_BYTES_DEVICE
    return max(64, budget // max(outputs.nbytes_per_sample, 1))


def column(parts: Sequence[Array], dtype: type) -> NDArray[Any]:
    """Concatenate the parts of all batches, then convert them to NumPy at once."""
    # A transfer from a device per batch can cost more than the scores.
    whole = parts[0] if len(parts) == 1 else _xp.array_namespace(*parts).concat(parts)
    return _xp.to_numpy(whole).astype(dtype, copy=False)


_busy = threading.Lock()


@cache
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")


def in_batches(
    function: Callable[[Batch], T],
    outputs: Outputs,
    size: int | None,
    *,
    rows: NDArray[np.int64] | None = None,
    progress: bool = False,
) -> list[T]:
    """Apply a function to batches: of NumPy arrays to several at once.

    As many as BLAS would use threads, which it then does not: so a limit on its threads
    (``OPENBLAS_NUM_THREADS=1``, a worker of joblib) is a limit here, too.
    """
    n = len(outputs) if rows is None else rows.size
    size = batch_rows(outputs) if size is None else size
    _check.positive_int("score", "batch_size", size)
    cuts = list(_xp.runs(n, size))

    def one(cut: slice) -> T:
        return function(Batch(outputs, cut if rows is None else rows[cut]))

    shown: Any = {"total": len(cuts), "show": progress}
    n_threads = 1
    if len(cuts) > 1 and _xp.is_numpy_array(first(outputs)):
        n_threads = min(len(cuts), *(lib["num_threads"] for lib in _blas().info()))
    # One pool at a time: the limit on BLAS holds for the whole process.
    if n_threads == 1 or not _busy.acquire(blocking=False):
        return list(bar(map(one, cuts), "scoring", **shown))
    try:
        with _blas().limit(limits=1), ThreadPoolExecutor(n_threads) as pool:
            # In the caller's context: `np.errstate` is a part of it.
            made = [pool.submit(copy_context().run, one, cut) for cut in cuts]
            return [part.result() for part in bar(made, "scoring", **shown)]
    finally:
        _busy.release()


def add_by_group(
    sums: NDArray[np.float64], rows: NDArray[Any], groups: NDArray[np.int64]
) -> None:
    """Add the rows of each group to its row of `sums`."""
    present, place = np.unique(groups, return_inverse=True)
    # A product with zeros and ones: `np.add.reduceat` takes four times as long.
    ones, columns = np.ones(place.size), np.arange(place.size)
    shape = present.size, place.size
    sums[present] += scipy.sparse.csr_array((ones, (place, columns)), shape) @ rows
