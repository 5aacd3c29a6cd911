"""Means and covariances of training features, in float64, in batches."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import scipy  # its submodules are imported on first use
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import Array
from openset.detectors._batch import Batch, batches_with, fit_batches
from openset.outputs import Outputs

# A variance below this share of the mean square is a rounding error.
_NO_SPREAD = 1e-24
# Below this share of the largest variance, eigenvectors tell more than a Cholesky
# factor, which may fail.
_SMALLEST_CUTOFF = 1e-12
# Size of numbers that are made float64 at a time, for a matrix product. With less of
# them BLAS is slower.
_WIDE_BYTES = 2 << 20
# Size of numbers that are added in float32 at a time: they stay in a core's cache.
_NARROW_BYTES = 1 << 20


def mean_feature(train: Outputs, dtype: Any = None) -> Array:
    """Return the mean feature vector as float64, exact to float64.

    If `dtype`, which it will be cast to, is float32, on the CPU only to that: the error
    is at most three roundings of float32 numbers as large as the mean absolute feature,
    and far smaller if there are many samples.
    """
    space = Workspace()
    features: Any = train.features
    if type(features) is np.ndarray and features.dtype == np.float32:
        # Nothing to check or to convert, and `_column_sums` splits them anyway.
        return _column_sums(features, space, dtype) / len(train)
    sums = (_column_sums(batch.features, space, dtype) for batch in fit_batches(train))
    return reduce(add, sums) / len(train)


def _column_sums(rows: Array, space: "Workspace", dtype: Any) -> Array:
    xp = _xp.array_namespace(rows)
    if not _xp.is_on_cpu(rows):
        return xp.sum(rows, axis=0, dtype=xp.float64)
    plain = _xp.to_numpy(rows)
    if dtype == xp.float32:
        step = max(8, _NARROW_BYTES // (4 * plain.shape[1]))
        blocks = (plain[run] for run in _xp.runs(len(plain), step))
        with np.errstate(over="ignore", invalid="ignore"):
            found = reduce(add, (_sums_by_eights(block, space) for block in blocks))
        if np.isfinite(found).all():  # else a sum of eight may be beyond float32
            return _xp.moved(found, rows)
    # A product with ones takes half the time of `sum`, also with the conversion.
    step = max(1, _WIDE_BYTES // (8 * plain.shape[1]))
    blocks = (plain[run] for run in _xp.runs(len(plain), step))
    sums = (np.ones(len(block)) @ space.wide(block) for block in blocks)
    return _xp.moved(reduce(add, sums), rows)


def _sums_by_eights(
    block: NDArray[np.float32], space: "Workspace"
) -> NDArray[np.float64]:
    """Add up rows: eight at a time in float32, then in float64.

    Numbers then come from memory once and few are converted. A sum of eight has three
    rounding errors, which average out over many sums; of equal numbers it has none.
    """
    n = len(block) // 8
    sums = space.plus(block[: 4 * n], block[4 * n : 8 * n])
    for half in (2 * n, n):
        sums = np.add(sums[:half], sums[half:], out=sums[:half])
    rest = block[8 * n :].sum(axis=0, dtype=np.float64)
    return sums.astype(np.float64).sum(axis=0) + rest


@dataclass(frozen=True, eq=False)
class Moments:
    """First and second moments of labelled features, in float64.

    Both covariances are divided by the number of samples, so that distances under
    them can be compared.
    """

    classes: NDArray[np.int64]  # those that occur, ascending
    means: Array  # (classes, d)
    mean: Array  # (d,)
    within: Array  # (d, d): around the class means
    total: Array  # (d, d): around the common mean
    n: int
    # Mean fourth power of the distances to the class means; 0 if not singular.
    fourth: float

    @property
    def is_singular(self) -> bool:
        """Whether the samples are too few for an invertible covariance."""
        return is_singular(self.n, self.classes.size, self.mean.shape[0])

    def shrunk(self) -> "Moments":
        """Return both covariances, shrunk alike towards a multiple of the identity.

        The share is that of Ledoit and Wolf (2004) for the covariance around the class
        means, and so is the multiple: its mean variance. For moments that are singular.
        """
        xp = _xp.array_namespace(self.within)
        d = self.within.shape[0]
        variance = float(xp.sum(xp.linalg.diagonal(self.within))) / d
        square = float(xp.sum(self.within**2))
        noise = (self.fourth - square) / self.n
        away = square - d * variance**2
        share = noise / away if noise < away else 1.0
        target = (
            share
            * variance
            * xp.eye(d, dtype=xp.float64, device=_xp.device(self.within))
        )
        within, total = (
            (1 - share) * each + target for each in (self.within, self.total)
        )
        return replace(self, within=within, total=total)


def is_singular(n: int, n_classes: int, width: int) -> bool:
    """Whether samples around their class means span fewer directions than there are."""
    return n - n_classes < width


class Workspace:
    """Memory for differences that is used again for each batch.

    New memory of this size comes from the system page by page, which takes longer than
    the subtraction.
    """

    def __init__(self) -> None:
        self._own: NDArray[Any] | None = None

    def wide(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return the rows in float64. They are overwritten by the next call."""
        own = self._like(rows, np.float64)
        own[...] = rows
        return own

    def plus(self, rows: NDArray[Any], others: NDArray[Any]) -> NDArray[Any]:
        """Return ``rows + others``. It is overwritten by the next call."""
        return np.add(rows, others, out=self._like(rows, rows.dtype))

    def minus(self, rows: Array, vector: Array) -> Array:
        """Return ``rows - vector``, in the dtype of the vector.

        It is overwritten by the next call.
        """
        if _xp.is_numpy_array(rows):
            own = self._like(rows, vector.dtype)
            own[...] = rows  # NumPy subtracts numbers of two dtypes more slowly
            own -= vector
            return own
        return _xp.array_namespace(rows).astype(rows, vector.dtype) - vector

    def minus_means(
        self, rows: Array, means: Array, groups: NDArray[np.int64]
    ) -> Array:
        """Return ``rows - means[groups]``, in the dtype of the means.

        It is overwritten by the next call.
        """
        if _xp.is_numpy_array(rows):
            own = self._like(rows, means.dtype)
            np.take(means, groups, axis=0, out=own, mode="clip")  # clip: no copy
            return np.subtract(rows, own, out=own)
        xp = _xp.array_namespace(rows)
        own_mean = xp.take(means, _xp.moved(groups, rows), axis=0)
        return xp.astype(rows, means.dtype) - own_mean

    def _like(self, rows: NDArray[Any], dtype: Any) -> NDArray[Any]:
        own = self._own
        if own is None or own.shape[0] < rows.shape[0] or own.dtype != dtype:
            self._own = own = np.empty(rows.shape, dtype)
        return own[: rows.shape[0]]


def moments(
    train: Outputs, rows_of: Callable[[Batch], Array] = lambda batch: batch.features
) -> Moments:
    """Compute the moments of ``rows_of(batch)``, in two passes over the data.

    Means are subtracted before multiplying, which keeps small eigenvalues precise;
    classes without samples are left out.
    """
    labels: NDArray[np.int64] = train.labels  # type: ignore[assignment]
    classes, index = np.unique(labels, return_inverse=True)
    counts = np.bincount(index)

    sums: Any = 0.0
    for batch, groups in batches_with(train, index):
        sums = sums_by(rows_of(batch), groups, classes.size) + sums
    xp = _xp.array_namespace(sums)
    weights = _xp.moved(counts.astype(np.float64), sums)
    means = sums / weights[:, None]
    scatter: Any = 0.0
    fourth: Any = 0.0
    space = Workspace()
    for batch, groups in batches_with(train, index):
        rows = rows_of(batch)
        away = space.minus_means(rows, means, groups)
        scatter = away.T @ away + scatter
        if is_singular(labels.size, classes.size, rows.shape[1]):
            fourth = xp.sum(_xp.row_norms(away) ** 4) + fourth
    n = float(labels.size)
    within = scatter / n
    mean = xp.sum(sums, axis=0) / n
    apart = means - mean[None, :]
    total = within + (apart * (weights / n)[:, None]).T @ apart
    return Moments(
        classes=classes,
        means=means,
        mean=mean,
        within=within,
        total=total,
        n=labels.size,
        fourth=float(fourth) / n,
    )


def whitener(caller: str, covariance: Array, mean: Array, cutoff: float) -> Array:
    """Return A with ``A A^T`` the (pseudo-)inverse of the covariance, shape (d, r).

    Directions whose variance is below `cutoff` times the largest are left out. If there
    are surely none, A is triangular, the inverse of a Cholesky factor, in a quarter of
    the time of the eigenvectors.
    """
    xp = _xp.array_namespace(covariance)
    size = float(xp.max(mean**2))
    is_spread = (
        float(xp.sum(xp.linalg.diagonal(covariance)))
        > _NO_SPREAD * size * (covariance.shape[0])
    )
    found = _inverse_root(covariance, max(cutoff, _SMALLEST_CUTOFF))
    if found is not None and is_spread:
        return found
    variances, directions = xp.linalg.eigh(covariance)
    largest = float(xp.max(variances))
    if largest <= _NO_SPREAD * size:
        msg = _check.must(
            "spread out around their means",
            caller=f"{caller}.fit",
            name="features",
            got="no spread (constant features, or one sample per class)",
        )
        raise ValueError(msg)
    n_left_out = int(xp.count_nonzero(variances <= cutoff * largest))
    # eigh sorts ascending: the directions to leave out come first.
    return directions[:, n_left_out:] / xp.sqrt(variances[n_left_out:])[None, :]


def _inverse_root(covariance: Array, cutoff: float) -> Array | None:
    """Return a triangular A with ``A A^T`` the inverse; None if it may have none."""
    if not _xp.is_numpy_array(covariance):
        return None
    root, failed = scipy.linalg.lapack.dpotrf(covariance, lower=1)
    if failed:
        return None
    inverse = scipy.linalg.lapack.dtrtri(root, lower=1, overwrite_c=1)[0]
    # The traces of a matrix and of its inverse bound its largest eigenvalue and the
    # inverse of the smallest one.
    spread = np.trace(covariance) * np.vdot(inverse, inverse)
    return inverse.T if spread < 1 / cutoff else None


def sums_by(
    rows: Array,
    groups: NDArray[np.int64],
    n_groups: int,
    *,
    into: Array | None = None,
) -> Array:
    """Add up the rows of each group in float64: shape (n_groups, d).

    With `into`, earlier sums, they are added to these, in their memory if possible.
    """
    xp = _xp.array_namespace(rows)
    if _xp.is_numpy_array(rows):
        order = np.argsort(groups, kind="stable")
        present, starts = np.unique(groups[order], return_index=True)
        sums = into
        if sums is None:
            sums = np.zeros((n_groups, rows.shape[1]), dtype=np.float64)
        # A sum for each group: `np.add.reduceat` takes four times as long. (And
        # `np.split` as long as a sum.)
        ends = np.append(starts[1:], order.size)
        for group, start, end in zip(present, starts, ends, strict=True):
            sums[group] += rows[order[start:end]].sum(axis=0, dtype=np.float64)
        return sums
    index = _xp.moved(groups, rows)
    wide = xp.astype(rows, xp.float64, copy=False)
    if _xp.is_torch_array(rows):
        if into is None:
            into = wide.new_zeros((n_groups, rows.shape[1]))
        return into.index_add_(0, index, wide)
    numbers = xp.arange(n_groups, device=_xp.device(rows))
    sums = xp.astype(numbers[:, None] == index[None, :], xp.float64) @ wide
    return sums if into is None else sums + into
