"""Support vector machines with an RBF kernel, kept as plain arrays."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _xp
from openset._types import Array
from openset.detectors._batch import Batch, State
from openset.detectors._distances import (
    blocks,
    centred,
    need_two_classes,
    squared_distances,
    training_rows,
)
from openset.detectors._weibull import fit_weibull_rows
from openset.outputs import Outputs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Samples on the margin all score 1 up to the solver's tolerance; a distribution fitted
# to them must not be steeper than the tolerance allows.
_TOLERANCE = 1e-6
_STEEPEST = 1e3


@dataclass(frozen=True, kw_only=True, eq=False)
class Machines:
    """SVMs that share their support vectors, and their scores on training samples."""

    arrays: dict[str, NDArray[Any]]
    classes: Ints
    owner: Ints  # index in `classes` of each training sample
    scores: Floats  # one column per SVM: one-vs-rest, then one-class
    support: list[Ints]  # support vectors of each SVM, as indices of training samples


def fit_machines(
    caller: str, train: Outputs, *, cost: float, gamma: float | None, nu: float | None
) -> Machines:
    """Fit a one-vs-rest SVM per class and, if `nu` is given, a one-class SVM each."""
    centre, rows, labels = training_rows(train)
    rows = rows.astype(np.float64)
    classes, owner = np.unique(labels, return_inverse=True)
    need_two_classes(caller, labels, "Each SVM separates a class from the others")
    if gamma is None:
        spread = float(rows.var(axis=0).sum())
        gamma = 1 / spread if spread > 0 else 1.0
    from sklearn import svm  # noqa: PLC0415  # it takes half a second

    options = {"kernel": "rbf", "gamma": gamma, "tol": _TOLERANCE}
    support, duals, intercepts = [], [], []
    for place in range(classes.size):
        machine = svm.SVC(C=cost, **options).fit(rows, owner == place)
        support.append(machine.support_.astype(np.int64))
        duals.append(machine.dual_coef_[0])
        intercepts.append(machine.intercept_[0])
    for place in range(classes.size if nu is not None else 0):
        own = np.flatnonzero(owner == place)
        machine = svm.OneClassSVM(nu=nu, **options).fit(rows[own])
        support.append(own[machine.support_])
        duals.append(machine.dual_coef_[0])
        intercepts.append(machine.intercept_[0])
    used = np.unique(np.concatenate(support))
    dual = np.zeros((used.size, len(support)))
    for column, (places, values) in enumerate(zip(support, duals, strict=True)):
        dual[np.searchsorted(used, places), column] = values
    arrays = {
        "centre": centre,
        "vectors": rows[used].astype(centre.dtype),
        "dual": dual.astype(centre.dtype),
        "intercept": np.array(intercepts).astype(centre.dtype),
        "gamma": np.array(gamma),
        "classes": classes,
    }
    return Machines(
        arrays=arrays,
        classes=classes,
        owner=owner,
        scores=_decide(rows, rows[used], dual, np.array(intercepts), gamma),
        support=support,
    )


def decisions(state: State, batch: Batch) -> Array:
    """Decision value of every SVM for every sample, shape (n, number of SVMs)."""
    rows = centred(batch, state["centre"])
    xp = _xp.array_namespace(rows)
    # In float64: the distributions are steep, and float32 kernels would leave them four
    # digits.
    rows, vectors, dual, intercept = (
        xp.astype(array, xp.float64, copy=False)
        for array in (rows, *(state[n] for n in ("vectors", "dual", "intercept")))
    )
    return _decide(rows, vectors, dual, intercept, float(state["gamma"]))


def _decide(
    rows: Array, vectors: Array, dual: Array, intercept: Array, gamma: float
) -> Array:
    xp = _xp.array_namespace(rows)
    total = intercept[None, :]
    for block in blocks(rows.shape[0], vectors.shape[0]):
        kernel = xp.exp(-gamma * squared_distances(rows, vectors[block, :]))
        total = total + kernel @ dual[block, :]
    return total


@dataclass(frozen=True, kw_only=True, eq=False)
class Laws:
    """Weibull distributions of one tail per class; ``z = sign * (score - loc)``."""

    shape: Floats
    scale: Floats
    loc: Floats

    def arrays(self, name: str) -> dict[str, Floats]:
        """Return the parameters as one named array, shape (3, C)."""
        return {name: np.stack([self.shape, self.scale, self.loc])}


def fit_tails(
    values: Sequence[Floats], sizes: Sequence[int], *, translate: float, sign: int
) -> Laws:
    """Fit a Weibull distribution to the `size` values per class nearest the boundary.

    These are the smallest ones for ``sign = 1`` (scores of the class itself) and the
    largest for -1 (scores of the others); the most extreme one is moved to `translate`.
    """
    tails = [
        np.sort(sign * v)[: min(max(size, 1), v.size)]
        for v, size in zip(values, sizes, strict=True)
    ]
    longest = max(tail.size for tail in tails)
    is_member = np.arange(longest) < np.array([[tail.size] for tail in tails])
    z = np.ones(is_member.shape)
    z[is_member] = np.concatenate([tail - tail[0] + translate for tail in tails])
    laws = fit_weibull_rows(z, is_member=is_member)
    shape = np.minimum(laws.shape, _STEEPEST)
    # The best scale for this shape (the fitted one, unless the shape was limited).
    top = np.max(z, axis=1, where=is_member, initial=0.0)
    powers = np.where(is_member, (z / top[:, None]) ** shape[:, None], 0.0)
    mean = powers.sum(axis=1) / is_member.sum(axis=1)
    loc = sign * (np.array([tail[0] for tail in tails]) - translate)
    return Laws(shape=shape, scale=top * mean ** (1 / shape), loc=loc)


def positive_tail(tail: int | None, n_support: int, n_samples: int) -> int:
    """Tail size of a class: as given, or 1.5 times its support vectors.

    As in the released code: the number of support vectors if that is too large or too
    small.
    """
    if tail is not None:
        return tail
    size = int(1.5 * n_support)
    return n_support if size >= n_samples or size <= 3 else size


def negative_tail(
    tail: int | None, n_support: int, n_samples: int, n_others: int
) -> int:
    """Tail size of the other classes: the same rule for one of them on average."""
    if tail is not None:
        return tail
    size = int(1.5 * n_support / n_others)
    if size >= n_samples:
        size = n_support // n_others
    return n_support if size <= 3 else size


def log_cdf(exponent: Array) -> Array:
    """Logarithm of a Weibull cdf from its log-exponent, precise where it is small."""
    xp = _xp.array_namespace(exponent)
    low = exponent < -37  # log(1 - e^-a) equals log(a), to full precision
    inner = xp.where(low, xp.zeros_like(exponent), exponent)
    capped = xp.where(inner > 7, xp.full_like(inner, 7.0), inner)  # e^-e^7 is 0
    return xp.where(low, exponent, xp.log(-xp.expm1(-xp.exp(capped))))


def best_or_nearest(scores: Array, decided: Array, classes: Array) -> Array:
    """Class of the best score; where all are -inf, of the largest decision value."""
    xp = _xp.array_namespace(scores)
    is_none = xp.max(scores, axis=1) == -math.inf
    chosen = xp.where(is_none, xp.argmax(decided, axis=1), xp.argmax(scores, axis=1))
    return xp.take(classes, chosen, axis=0)
