"""Distances between samples and stored training samples, in blocks."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import Array
from openset.detectors._batch import Batch
from openset.outputs import Outputs

# Entries of one block of distances: a few arrays of this size fit the cache of a CPU.
_BLOCK = 1 << 20


def blocks(n_rows: int, n_bank: int) -> Iterator[slice]:
    """Split the bank so that the memory of a block is limited."""
    size = max(16, _BLOCK // max(n_rows, 1))
    for start in range(0, n_bank, size):
        yield slice(start, min(start + size, n_bank))


def squared_distances(rows: Array, bank: Array) -> Array:
    """Return squared Euclidean distances, shape (n, m), by one matrix product.

    Small distances lose precision (half of the digits near zero): use them to select
    neighbours and in smooth kernels. :func:`distances_between` is exact.
    """
    xp = _xp.array_namespace(rows)
    lengths = xp.sum(rows * rows, axis=1)[:, None]
    squared = lengths + xp.sum(bank * bank, axis=1)[None, :] - 2 * (rows @ bank.T)
    # In this form NaN from infinite features stays NaN instead of becoming 0.
    return xp.where(squared < 0, xp.zeros_like(squared), squared)


def distances_between(rows: Array, others: Array) -> Array:
    """Return the distances between corresponding rows, shape (n,)."""
    return _xp.row_norms(rows - others)


def centred(batch: Batch, centre: Array) -> Array:
    """Features minus the training mean: distances keep more precision."""
    xp = _xp.array_namespace(batch.features)
    return batch.features - xp.astype(centre, batch.features.dtype, copy=False)[None, :]


def need_two_classes(caller: str, labels: NDArray[np.int64], why: str) -> None:
    """Raise if all samples are of one class; `why` says what the others are for."""
    if (labels == labels[0]).all():
        msg = _check.must(
            "of at least two classes",
            caller=f"{caller}.fit",
            name="samples",
            got=f"class {labels[0]} only",
            remedy=why,
        )
        raise ValueError(msg)


def training_rows(
    train: Outputs,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Return centre, centred features (NumPy, at least float32) and labels."""
    features = _xp.to_numpy(Batch(train).features)
    centre = features.mean(axis=0, dtype=np.float64).astype(features.dtype)
    # A copy: a fitted detector must not share memory with the caller's labels.
    return centre, features - centre, np.array(train.labels, dtype=np.int64)
