"""OpenMax: logits revised by the distance of a sample to each class mean."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import Array
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.detectors._weibull import fit_weibull_rows, log_exponent, weibull_cdf
from openset.detectors.constraints import POSITIVE, Integer, Number, OneOf, Optional
from openset.outputs import Outputs

MIN_SAMPLES = 3
"""A class with fewer correctly classified samples is not revised."""

_ROWS = 4096  # training samples per batch
# Scored at a time: rows, class means and their difference, in float64, stay in cache.
_BLOCK_BYTES = 1 << 20

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class OpenMax(Detector):
    r"""Softmax with an additional class of unknowns.

    Fit: the mean logit vector :math:`\mu_c` of the correctly classified samples of each
    class, and a Weibull distribution :math:`F_c` of the `tail` largest of their
    distances to it. Score: the `alpha` largest logits lose a share to the unknown
    class,

    .. math:: w_i = \tfrac{\alpha + 1 - i}{\alpha} F_i(d(z, \mu_i)), \quad
              z'_i = z_i (1 - w_i), \quad z'_0 = \sum_i z_i w_i, \quad
              s(x) = \log \frac{1 - P_0}{P_0} = \log \sum_c e^{z'_c} - z'_0

    with i the rank of a class among the logits and :math:`P` the softmax of :math:`z'`.
    :meth:`Fitted.class_probabilities` gives P with the unknown class last,
    :meth:`Fitted.probability` gives :math:`1 - P_0`. The log-odds rank samples as this
    probability does, but do not saturate. The predicted class stays the argmax of the
    original logits.

    This follows the released code: the paper prints :math:`(\alpha - i)/\alpha` and a
    survival function. Also as released, a *negative* logit among the top ones lowers
    :math:`z'_0`. A class with fewer than `tail` samples uses all of them; with fewer
    than 3 it is not revised (w = 0). `alpha` is at most the number of classes. A zero
    vector has cosine distance 1 to everything.

    Parameters
    ----------
    tail
        Number of largest distances that the Weibull distributions are fitted to.
    alpha
        Number of top classes to revise.
    distance
        ``"eucos"``: ``weight * euclidean + cosine``; or one of the two alone.
    weight
        Weight of the Euclidean distance in ``"eucos"``.
    translate
        The T of libMR's tail fits (see :func:`openset.detectors.evt.fit_weibull`). The
        released code uses libMR, hence the default of 10000; None fits the distances as
        they are.

    References
    ----------
    Bendale and Boult, "Towards open set deep networks", CVPR 2016.

    Examples
    --------
    Both samples are of class 0 by their logits; the second is far from its mean.

    >>> z = [[9.0, 0.0], [10.0, 0.0], [11.0, 0.0], [0.0, 9.0], [0.0, 10.0], [0.0, 11.0]]
    >>> train = Outputs(logits=z, labels=[0, 0, 0, 1, 1, 1])
    >>> fitted = OpenMax(alpha=1).fit(train)
    >>> new = Outputs(logits=[[10.0, 0.0], [20.0, 9.0]], labels=[0, -1])
    >>> fitted.score(new).known.round(1)
    array([  8.8, -11. ])
    >>> fitted.class_probabilities(new).round(3)  # columns: class 0, class 1, unknown
    array([[1., 0., 0.],
           [0., 0., 1.]])
    """

    name = "openmax"
    fit_needs = ("logits", "labels")
    score_needs = ("logits",)
    fit_cost = "n C"
    score_cost = "alpha C"
    paper = "Bendale & Boult 2016"
    score_scale = "log-odds"
    rejects_by_argmax = True
    constraints = {
        "tail": Integer(low=1),
        "alpha": Integer(low=1),
        "distance": OneOf(("eucos", "euclidean", "cosine")),
        "weight": Number(low=0),
        "translate": Optional(POSITIVE),
    }

    tail: int = 20
    alpha: int = 10
    distance: str = "eucos"
    weight: float = 1 / 200
    translate: float | None = 10_000.0

    def fit_state(self, train: Outputs) -> State:
        means, counts = _class_means(train)
        revised = counts >= MIN_SAMPLES
        if not revised.any():
            msg = _check.must(
                f"enough: {MIN_SAMPLES} of at least one class",
                caller="OpenMax.fit",
                name="correctly classified samples",
                got=f"{counts.max()} at most",
            )
            raise ValueError(msg)
        tails, is_member = self._tails(train, means)
        shape, scale, loc = np.ones((3, counts.size))
        shape[revised], scale[revised], loc[revised] = self._laws(
            tails[revised], is_member[revised]
        )
        arrays = {
            "means": means.astype(_dtype(train)),
            "shape": shape,
            "scale": scale,
            "loc": loc,
            "revised": revised.astype(np.float64),
        }
        return {name: _xp.moved(a, train.logits) for name, a in arrays.items()}

    def _tails(self, train: Outputs, means: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the largest distances of each class, shape (C, tail), and a mask."""
        n_classes = means.shape[0]
        tails = np.full((n_classes, self.tail), -math.inf)
        for logits, labels in _correct(train):
            distances = self._distances(logits, means[labels])
            order = np.lexsort((-distances, labels))
            owner = labels[order]
            # Rank of each sample within its class, farthest first; keep `tail`.
            starts = np.searchsorted(owner, np.arange(n_classes))
            place = np.arange(owner.size) - starts[owner]
            kept = place < self.tail
            found = np.full((n_classes, self.tail), -math.inf)
            found[owner[kept], place[kept]] = distances[order][kept]
            both = np.concatenate([tails, found], axis=1)
            tails = -np.sort(-both, axis=1)[:, : self.tail]
        return tails, tails > -math.inf

    def _laws(
        self, tails: Floats, is_member: NDArray[np.bool_]
    ) -> tuple[Floats, Floats, Floats]:
        least = np.min(tails, axis=1, where=is_member, initial=math.inf)
        loc = np.zeros_like(least)
        if self.translate is not None:
            loc = least - self.translate
        # Without translation distances of 0 do not fit a Weibull distribution: leave
        # them out, unless all distances are 0, which is a step at the smallest
        # distance.
        floor = 1e-100
        z = np.where(is_member, tails - loc[:, None], 1.0)
        is_law = is_member & (z > floor)
        is_law[~is_law.any(axis=1), 0] = True
        rows = fit_weibull_rows(np.maximum(z, floor), is_member=is_law)
        return rows.shape, rows.scale, loc

    def _distances(
        self, rows: Array, centres: Array, lengths: Array | None = None
    ) -> Array:
        """Distance between corresponding rows and centres, shape (n,).

        `centres` must be a temporary array: it is overwritten. `lengths` are the
        products of their lengths, if already computed.
        """
        xp = _xp.array_namespace(rows)
        if self.distance != "euclidean":
            if lengths is None:
                lengths = _xp.row_norms(rows) * _xp.row_norms(centres)
            lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
            cosine = 1 - _row_dots(rows, centres) / lengths
        if self.distance == "cosine":
            return cosine
        euclidean = _xp.row_norms(_minus_own(rows, centres))
        if self.distance == "euclidean":
            return euclidean
        return self.weight * euclidean + cosine

    def prepare_state(self, state: State, dtype: Any) -> State:
        # In float64: the distributions are so steep that rounding of a float32 cosine
        # would change the leading digits of the revised logit.
        xp = _xp.array_namespace(state["means"])
        means = xp.astype(state["means"], xp.float64, copy=False)
        return {**state, "means": means, "lengths": _xp.row_norms(means)}

    def _revised(self, state: State, logits: Array) -> tuple[Array, Array]:
        """Return the revised logits, shape (n, C), and that of the unknown class."""
        xp = _xp.array_namespace(logits)
        alpha = min(self.alpha, logits.shape[1])
        rows = xp.astype(logits, xp.float64, copy=False)
        row_lengths = _xp.row_norms(rows)
        revised, left = (xp.asarray(logits, copy=True) for _ in range(2))
        unknown = xp.zeros_like(logits[:, 0])
        # One maximum at a time: alpha is small, ties go to the lowest class in every
        # library (which sorts do not guarantee), and only alpha distances are computed.
        for rank in range(1, alpha + 1):
            top = xp.argmax(left, axis=1)
            value = _xp.pick(left, top)
            shape, scale, loc, is_law, lengths = (
                xp.take(state[name], top, axis=0)
                for name in ("shape", "scale", "loc", "revised", "lengths")
            )
            centres = xp.take(state["means"], top, axis=0)
            distances = self._distances(rows, centres, row_lengths * lengths)
            cdf = weibull_cdf(log_exponent(distances, shape, scale, loc))
            weight = (alpha + 1 - rank) / alpha * is_law * cdf
            lost = value * xp.astype(weight, logits.dtype, copy=False)
            unknown = unknown + lost
            revised = _put(revised, top, value - lost)
            left = _xp.put(left, top, -math.inf)
        return revised, unknown

    def score_batch(self, state: State, batch: Batch) -> Array:
        def one(logits: Array) -> Array:
            known, unknown = self._revised(state, logits)
            return _xp.logsumexp(known) - unknown

        return _xp.by_rows(one, batch.logits, size=_BLOCK_BYTES)

    def probability_batch(self, state: State, batch: Batch) -> Array:
        odds = self.score_batch(state, batch)
        xp = _xp.array_namespace(odds)
        small = xp.exp(-xp.abs(odds))  # never overflows
        return xp.where(odds >= 0, 1 / (1 + small), small / (1 + small))

    def class_probabilities_batch(self, state: State, batch: Batch) -> Array:
        def one(logits: Array) -> Array:
            known, unknown = self._revised(state, logits)
            xp = _xp.array_namespace(known)
            both = xp.concat([known, unknown[:, None]], axis=1)
            return xp.exp(both - _xp.logsumexp(both)[:, None])

        return _xp.by_rows(one, batch.logits, size=_BLOCK_BYTES)


def _row_dots(a: Array, b: Array) -> Array:
    """Return the inner products of corresponding rows."""
    if _xp.is_numpy_array(a):
        return np.einsum("ij,ij->i", a, b)  # one pass, no temporary
    return _xp.array_namespace(a).sum(a * b, axis=1)


def _minus_own(rows: Array, own: Array) -> Array:
    """Subtract a temporary array, in its memory if the library can."""
    return np.subtract(rows, own, out=own) if _xp.is_numpy_array(own) else rows - own


def _put(rows: Array, columns: Array, values: Array) -> Array:
    """Set ``rows[i, columns[i]]`` to ``values[i]``, in place if the library can."""
    if _xp.is_numpy_array(rows):
        rows[np.arange(rows.shape[0]), columns] = values
        return rows
    if _xp.is_torch_array(rows):
        return rows.scatter_(1, columns[:, None], values[:, None])
    xp = _xp.array_namespace(rows)
    numbers = xp.arange(rows.shape[1], device=_xp.device(rows))[None, :]
    return xp.where(numbers == columns[:, None], values[:, None], rows)


def _dtype(train: Outputs) -> np.dtype[Any]:
    return _xp.to_numpy(Batch(train.take(slice(0, 1))).logits).dtype


def _correct(train: Outputs) -> Iterator[tuple[Floats, NDArray[Any]]]:
    """Yield logits and labels of the correctly classified samples, in batches."""
    for part in train.batches(_ROWS):
        batch = Batch(part)
        labels: NDArray[Any] = part.labels  # type: ignore[assignment]
        is_correct = _xp.to_numpy(batch.top_class) == labels
        logits = _xp.to_numpy(batch.logits)[is_correct].astype(np.float64)
        if labels[is_correct].size:
            yield logits, labels[is_correct]


def _class_means(train: Outputs) -> tuple[Floats, NDArray[np.int64]]:
    n_classes = int(train.logits.shape[1])  # type: ignore[union-attr]
    sums = np.zeros((n_classes, n_classes))
    counts = np.zeros(n_classes, dtype=np.int64)
    for logits, labels in _correct(train):
        order = np.argsort(labels, kind="stable")
        present, starts = np.unique(labels[order], return_index=True)
        sums[present] += np.add.reduceat(logits[order], starts, axis=0)
        counts += np.bincount(labels, minlength=n_classes)
    return sums / np.maximum(counts, 1)[:, None], counts
