"""Means and covariances of training features, in float64, in batches."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import Array
from openset.detectors._batch import Batch, fit_batches
from openset.outputs import Outputs

# A variance below this share of the mean square is a rounding error.
_NO_SPREAD = 1e-24


def mean_feature(train: Outputs) -> Array:
    """Return the mean feature vector, in float64."""
    total = 0.0
    for batch in fit_batches(train):
        xp = _xp.array_namespace(batch.features)
        total = xp.sum(batch.features, axis=0, dtype=xp.float64) + total
    return total / len(train)


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
    fourth: float  # mean fourth power of the distances to the class means

    def shrunk(self) -> "Moments":
        """Return both covariances, shrunk alike towards a multiple of the identity.

        The share is that of Ledoit and Wolf (2004) for the covariance around the class
        means, and so is the multiple: its mean variance.
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

    def runs() -> Iterator[tuple[Array, NDArray[np.int64]]]:
        start = 0
        for batch in fit_batches(train):
            yield rows_of(batch), index[start : start + len(batch)]
            start += len(batch)

    sums: Any = 0.0
    for rows, groups in runs():
        sums = sums_by(rows, groups, classes.size) + sums
    xp = _xp.array_namespace(sums)
    weights = _xp.moved(counts.astype(np.float64), sums)
    means = sums / weights[:, None]
    scatter: Any = 0.0
    fourth: Any = 0.0
    for rows, groups in runs():
        away = xp.astype(rows, xp.float64)  # a copy: changed in place
        away -= xp.take(means, _xp.moved(groups, rows), axis=0)
        scatter = away.T @ away + scatter
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

    Directions whose variance is below `cutoff` times the largest are left out.
    """
    xp = _xp.array_namespace(covariance)
    variances, directions = xp.linalg.eigh(covariance)
    largest = float(xp.max(variances))
    size = float(xp.max(mean**2))
    if largest <= _NO_SPREAD * size or largest <= 0:
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


def sums_by(rows: Array, groups: NDArray[np.int64], n_groups: int) -> Array:
    """Add up the rows of each group in float64: shape (n_groups, d)."""
    xp = _xp.array_namespace(rows)
    if _xp.is_numpy_array(rows):
        order = np.argsort(groups, kind="stable")
        present, starts = np.unique(groups[order], return_index=True)
        sums = np.zeros((n_groups, rows.shape[1]), dtype=np.float64)
        parts = np.split(rows[order], starts[1:])
        # A sum for each group: `np.add.reduceat` takes four times as long.
        for group, part in zip(present, parts, strict=True):
            part.sum(axis=0, dtype=np.float64, out=sums[group])
        return sums
    index = _xp.moved(groups, rows)
    wide = xp.astype(rows, xp.float64, copy=False)
    if _xp.is_torch_array(rows):
        return wide.new_zeros((n_groups, rows.shape[1])).index_add_(0, index, wide)
    numbers = xp.arange(n_groups, device=_xp.device(rows))
    return xp.astype(numbers[:, None] == index[None, :], xp.float64) @ wide
