"""Exact search for the largest inner products with a bank of training features."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _extras, _xp
from openset._types import Array
from openset.detectors._batch import Batch, State, draw, fit_batches, in_dtype
from openset.detectors.constraints import (
    Constraint,
    CountOrShare,
    Integer,
    OneOf,
    Optional,
    Text,
)
from openset.outputs import Outputs

BACKENDS = ("matmul", "faiss")

# Size of a product of queries with a block of the bank: large, since small matrix
# products are slower.
_QUERY_ROWS = 2048
_PRODUCT_BYTES_CPU = 256 << 20
_PRODUCT_BYTES_DEVICE = 1 << 30
# Products searched at once on the CPU: a few rows, so that they are in the cache for
# the second pass.
_SELECT_BYTES = 2 << 20


CONSTRAINTS: dict[str, Constraint] = {
    "k": Integer(low=1),
    "bank": Optional(CountOrShare()),
    "seed": Integer(),
    "backend": OneOf(BACKENDS),
    "index": Text(),
}
"""The parameters that neighbour methods share."""


def bank_batches(
    caller: str, train: Outputs, *, k: int, bank: float | int | None, seed: int
) -> Iterator[Batch]:
    """Yield the samples of the bank: all, or `bank` random ones."""
    n = len(train)
    size = n if bank is None else CountOrShare.size(bank, n)
    if size > n:
        msg = _check.must(
            f"at most {n}, the number of training samples",
            caller=f"{caller}.fit",
            name="bank",
            got=bank,
        )
        raise ValueError(msg)
    if size < k:
        msg = _check.must(
            f"at most {size}, the size of the bank",
            caller=f"{caller}.fit",
            name="k",
            got=k,
            remedy="Lower k, or fit on more samples",
        )
        raise ValueError(msg)
    yield from fit_batches(train, draw(n, size, seed))


def searchable(
    caller: str, state: State, dtype: Any, backend: str, index: str
) -> State:
    """Return the bank in this dtype, or a faiss index of it."""
    if backend == "faiss":
        return {"index": faiss_index(caller, state["bank"], index)}
    return in_dtype(state, dtype)


def search(caller: str, queries: Array, state: State, k: int) -> Array:
    """Return the `k` largest inner products of each query with the bank."""
    if "index" in state:
        return faiss_products(caller, queries, state["index"], k)
    return top_products(queries, state["bank"], k)


def top_products(queries: Array, bank: Array, k: int) -> Array:
    """Return the `k` largest inner products of each query with the bank, unordered.

    Exact. The products are made block by block, so memory depends neither on the number
    of queries nor on the size of the bank.
    """
    xp = _xp.array_namespace(queries)
    if _xp.is_traced(queries):
        return _xp.top_values(queries @ bank.T, k)
    if queries.shape[0] == 0:
        return queries @ bank[:k, :].T
    on_cpu = _xp.is_on_cpu(queries)
    budget = _PRODUCT_BYTES_CPU if on_cpu else _PRODUCT_BYTES_DEVICE
    n_products = budget // _xp.row_bytes(queries[:1, 0])
    n_rows = _even(queries.shape[0], _QUERY_ROWS)
    n_columns = _even(bank.shape[0], max(k, n_products // n_rows))
    # Allocating memory costs as much as searching the products: reuse it.
    numpy = _xp.is_numpy_array(queries)
    scratch = np.empty(n_rows * n_columns, dtype=queries.dtype) if numpy else None
    size = _SELECT_BYTES if numpy else budget  # others use all cores on many rows

    def select(products: Array) -> Array:
        return _largest(products, k)

    runs = []
    for rows in _xp.runs(queries.shape[0], n_rows):
        found = []
        for block in _xp.runs(bank.shape[0], n_columns):
            products = _product(queries[rows, :], bank[block, :], scratch)
            found.append(_xp.by_rows(select, products, size=size))
        together = xp.concat(found, axis=1)
        runs.append(together if len(found) == 1 else _xp.top_values(together, k))
    return xp.concat(runs, axis=0)


def _even(n: int, most: int) -> int:
    """Return a block size of at most `most` that splits `n` evenly."""
    return -(-n // -(-n // most))


def _product(queries: Array, block: Array, scratch: NDArray[Any] | None) -> Array:
    if scratch is None:
        return queries @ block.T
    shape = queries.shape[0], block.shape[0]
    out = scratch[: math.prod(shape)].reshape(shape)
    return np.matmul(queries, block.T, out=out)


def _largest(products: Array, k: int) -> Array:
    """Return the `k` largest of each row, as a copy; all, if there are fewer.

    Split a row into groups: at least k entries, and few more, are no smaller than the
    k-th largest of the groups' maxima. One pass computes the maxima, one compares with
    that bound, and only the few remaining entries are sorted.
    """
    width = products.shape[1]
    depth = math.isqrt(width // k)
    if depth < 2:
        return _xp.top_values(products, min(k, width))
    if _xp.is_numpy_array(products):
        n_groups = width // depth
        # Strided groups, so that the reduction uses whole cache lines.
        groups = products[:, : depth * n_groups].reshape(-1, depth, n_groups)
        floor = _xp.top_values(groups.max(axis=1), k).min(axis=1)
        return _at_least(products, floor, k)
    if _xp.is_torch_array(products) and not _xp.is_on_cpu(products):
        return _in_best_groups(products, k, depth)
    return _xp.top_values(products, k)


def _in_best_groups(products: Array, k: int, depth: int) -> Array:
    """Search the `k` groups with the largest maxima, which contain the `k` largest.

    For torch on an accelerator: no shape depends on the data, so nothing synchronises.
    """
    n_groups = products.shape[1] // depth
    groups = products[:, : depth * n_groups].unflatten(1, (depth, n_groups))
    winners = groups.amax(dim=1).topk(k, dim=1, sorted=False).indices
    inside = groups.gather(2, winners[:, None, :].expand(-1, depth, -1)).flatten(1)
    rest = products[:, depth * n_groups :]
    return _xp.top_values(_xp.array_namespace(rest).concat([inside, rest], axis=1), k)


def _at_least(products: NDArray[Any], floor: NDArray[Any], k: int) -> NDArray[Any]:
    n, width = products.shape
    hits = np.flatnonzero(products >= floor[:, None])
    rows = hits // width
    counts = np.bincount(rows, minlength=n)
    if counts.min() < k:  # NaN is below every bound: keep it
        return _xp.top_values(products, k)
    place = np.arange(hits.size) - np.repeat(np.cumsum(counts) - counts, counts)
    packed = np.full((n, counts.max()), -np.inf, dtype=products.dtype)
    packed[rows, place] = products.reshape(-1)[hits]
    return _xp.top_values(packed, k)


def faiss_index(caller: str, bank: Array, description: str) -> Any:
    """Build a faiss index of inner products over the bank."""
    faiss = _extras.optional(caller, "faiss", name="faiss")
    vectors = np.ascontiguousarray(_xp.to_numpy(bank), dtype=np.float32)
    index = faiss.index_factory(
        vectors.shape[1], description, faiss.METRIC_INNER_PRODUCT
    )
    if not index.is_trained:
        index.train(vectors)
    index.add(vectors)
    return index


def faiss_products(caller: str, queries: Array, index: Any, k: int) -> Array:
    """Return the `k` largest inner products of each query, as faiss finds them."""
    vectors = np.ascontiguousarray(_xp.to_numpy(queries), dtype=np.float32)
    products, found = index.search(vectors, k)
    # Infinite features have no direction, and no neighbours: their score is NaN.
    is_lost = np.isnan(vectors).any(axis=1)
    products[is_lost], found[is_lost] = np.nan, 0
    if found.min() < 0:
        msg = (
            f"{caller}.score: faiss must find {k} neighbours, got fewer for "
            f"{np.count_nonzero((found < 0).any(axis=1))} samples. Search more of the "
            f"index, or use index='Flat'"
        )
        raise ValueError(msg)
    xp = _xp.array_namespace(queries)
    return xp.astype(_xp.moved(products, queries), queries.dtype, copy=False)
