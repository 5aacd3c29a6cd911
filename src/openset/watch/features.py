"""Maximum mean discrepancy: tests whether two sets have the same distribution."""

from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check

MOST_REFERENCE, MOST_NEW = 512, 1024
"""Rows that are compared; of larger sets, so many drawn at random."""

_CHUNK = 512  # permutations at a time
_MOST_PERMUTATIONS = 100_000
_PER_LIMIT = 5  # permutations per 1 / limit: the p-value of an alarm is not the least


class MMD(NamedTuple):
    """Distance of two sets, and the share of random splits that are as far apart.

    `distance` is the maximum mean discrepancy, 0 for equal sets and at most √2.
    """

    distance: float
    p_value: float
    n_permutations: int


def mmd(
    reference: ArrayLike, new: ArrayLike, *, limit: float = 0.01, seed: int = 0
) -> MMD:
    r"""Test whether two sets of rows come from one distribution.

    .. math:: \mathrm{MMD}^2 = \Bigl\| \frac1m \sum_i \varphi(x_i)
              - \frac1n \sum_j \varphi(y_j) \Bigr\|^2, \qquad
              \langle \varphi(a), \varphi(b) \rangle = e^{-\|a - b\|^2 / \sigma^2}

    where σ² is the median squared distance of all pairs of rows. The p-value is the
    share of random splits of all rows into m and n that are at least as far apart, the
    given split included. So it is at most p with probability at most p, whatever the
    distribution (a permutation test is exact).

    Parameters
    ----------
    reference, new
        Shapes (m, d) and (n, d). At most 512 and 1024 rows are used, drawn at random.
    limit
        The p-value at which to raise an alarm; a smaller one takes more permutations.
    seed
        Random seed of permutations and draws: the same rows give the same p-value.

    References
    ----------
    Gretton et al., "A kernel two-sample test", JMLR 2012.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(100, 8)), rng.normal(size=(50, 8))
    >>> mmd(x, y).p_value > 0.1, mmd(x, y + 0.5).p_value < 0.01
    (True, True)
    """
    n_permutations, rng = permutations_for(limit), np.random.default_rng(seed)
    first = _rows("reference", reference, MOST_REFERENCE, rng)
    second = _rows("new", new, MOST_NEW, rng)
    if second.shape[1] != first.shape[1]:
        rule = f"as wide as the reference, {first.shape[1]}"
        _check.fail("mmd", "new", rule, second.shape[1])
    kernel = _kernel(np.concatenate([first, second]))
    weights = np.repeat([1 / len(first), -1 / len(second)], [len(first), len(second)])
    found = float(weights @ kernel @ weights)
    n_as_far = 1  # the given split
    for start in range(0, n_permutations, _CHUNK):
        size = min(_CHUNK, n_permutations - start)
        split = rng.permuted(np.tile(weights, (size, 1)), axis=1)
        distances = np.einsum("ij,ij->i", split @ kernel, split)
        # Splits that are equally far apart differ in the last bits.
        n_as_far += int(np.count_nonzero(distances >= found - 1e-12))
    p_value = n_as_far / (n_permutations + 1)
    return MMD(max(found, 0.0) ** 0.5, p_value, n_permutations)


def permutations_for(limit: float) -> int:
    """Return how many permutations are needed for an alarm at this p-value."""
    least = _PER_LIMIT / _MOST_PERMUTATIONS
    if not least <= limit < 1:
        rule, remedy = f"in [{least:g}, 1), to compare features", "leave them out"
        remedy = f"Allow more false alarms, or {remedy}"
        _check.fail("mmd", "limit", rule, f"{limit:.2g}", remedy)
    return ceil(_PER_LIMIT / limit)


def _rows(
    name: str, values: ArrayLike, most: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    _check.unmasked("mmd", name, values)
    given = np.asarray(values)
    is_table = given.ndim == 2 and given.size and given.dtype.kind in "fiu"
    if not is_table or not np.isfinite(given).all():
        rule = "a table of finite numbers, one row per sample"
        _check.fail("mmd", name, rule, f"shape {given.shape} of {given.dtype}")
    if len(given) > most:
        given = given[np.sort(rng.choice(len(given), most, replace=False))]
    return given.astype(np.float64)


def _kernel(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Gaussian kernel of all pairs; it does not depend on their order."""
    rows = rows / (np.abs(rows).max() or 1.0)  # squares must not overflow
    rows = rows - rows.mean(axis=0)  # fewer digits cancel below
    squares = np.einsum("ij,ij->i", rows, rows)
    distances = np.maximum(squares[:, None] + squares - 2 * (rows @ rows.T), 0.0)
    np.fill_diagonal(distances, 0.0)
    pairs = distances[np.triu_indices(len(rows), 1)]
    # If most rows are equal, those that are not decide.
    scale = float(np.median(pairs)) or float(pairs.mean()) or 1.0
    return np.exp(distances / -scale)
