"""Extreme value machine: a Weibull distribution of margins per extreme vector."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset.detectors.base import Array, Batch, Detector, State, Training
from openset.detectors.constraints import COUNT, POSITIVE, Number
from openset.detectors.distances import (
    centred,
    in_blocks,
    need_two_classes,
    squared_distances,
)
from openset.detectors.weibull import exp, fit_weibull_rows

Floats = NDArray[np.float64]

# A step (all margins equal) as a very steep distribution, so that samples are ranked.
_STEEPEST = 1e6


@dataclass(frozen=True, kw_only=True)
class EVM(Detector):
    r"""Largest probability of inclusion under the extreme vectors of all classes.

    .. math:: \Psi_i(x) = e^{-(\lVert x - x_i \rVert / \lambda_i)^{\kappa_i}}, \qquad
              s(x) = \max_i \, -\log(-\log \Psi_i(x))
                   = \max_i \, \kappa_i \log \frac{\lambda_i}{\lVert x - x_i \rVert}

    Each training sample :math:`x_i` has a Weibull distribution of `margin` times the
    distances to its `tail` nearest samples of other classes. Of each class only enough
    samples (extreme vectors) are kept for every sample of the class to have :math:`\Psi
    \ge` `cover` under one of them (greedy set cover). The score ranks samples as
    :math:`\max \Psi` does, which :meth:`Fitted.probability` returns, but does not round
    to 0 and 1; the class is that of the largest :math:`\Psi`.

    A sample on an extreme vector has s = inf. A training sample that coincides with
    one of another class has no margin, hence :math:`\Psi = 0` everywhere, and is never
    an extreme vector; if that is all of them, fit raises, as it does with one class.

    Parameters
    ----------
    tail
        Number of nearest samples of other classes; all, if there are fewer.
    margin
        Factor of the distances.
    cover
        :math:`\Psi` from which a sample counts as covered, in (0, 1].

    References
    ----------
    Rudd, Jain, Scheirer and Boult, "The extreme value machine", TPAMI 40(3), 2018.

    Examples
    --------
    >>> from openset import Outputs
    >>> train = Outputs(features=[[0.0], [1.0], [8.0], [9.0]], labels=[0, 0, 1, 1])
    >>> fitted = EVM(tail=2).fit(train)
    >>> new = Outputs(features=[[0.5], [4.0], [90.0]], labels=[0, -1, -1])
    >>> fitted.state["vectors"].shape  # one sample covers each class
    (2, 1)
    >>> fitted.probability(new).round(2), fitted.score(new).predicted
    (array([1.  , 0.85, 0.  ]), array([0, 0, 1]))
    """

    fit_needs = ("features", "labels")
    score_needs = ("features",)
    costs = ("n^2 d", "n_ev d")
    paper = "Rudd et al. 2018"
    score_scale = "-log(-log p)"
    constraints = {
        "tail": COUNT,
        "margin": POSITIVE,
        "cover": Number(low=0, high=1, open_low=True),
    }

    tail: int = 75
    margin: float = 0.5
    cover: float = 0.5

    def fit_state(self, train: Training) -> dict[str, Any]:
        need_two_classes("EVM", train, "Margins are measured to other classes")
        centre, rows = centred(train)
        rows, labels = rows.astype(float), np.array(train.labels)
        margins = self.margin * _nearest_others(rows, labels, self.tail)
        # Margins must be positive; a sample without one is no extreme vector.
        usable = margins.min(axis=1) > 0
        if not usable.any():
            rule = "different for different classes"
            got = "every sample equal to one of another class"
            _check.fail("EVM.fit", "features", rule, got)
        margins, rows, labels = margins[usable], rows[usable], labels[usable]
        is_member = np.isfinite(margins)
        z = np.where(is_member, margins, 1.0)
        shape, scale = fit_weibull_rows(z, is_member=is_member)
        shape = np.minimum(shape, _STEEPEST)
        # Psi_i >= cover inside this radius around sample i.
        radius = scale * (-math.log(self.cover)) ** (1 / shape)
        members = (np.flatnonzero(labels == c) for c in np.unique(labels))
        kept = np.concatenate([m[_greedy_cover(rows[m], radius[m])] for m in members])
        of_samples = {"vectors": rows, "shape": shape, "scale": scale, "labels": labels}
        return {"centre": centre, **{n: one[kept] for n, one in of_samples.items()}}

    def _winner(self, state: State, batch: Batch) -> tuple[Array, Array]:
        """Return centred features and the index of the vector with the largest Psi."""
        rows, vectors = batch.features - state["centre"], state["vectors"]
        xp = _xp.array_namespace(rows)
        log_scale = xp.log(state["scale"])

        def place(rows: Array) -> Array:
            half_logs = _xp.log(squared_distances(rows, vectors)) / 2
            return xp.argmax(state["shape"] * (log_scale - half_logs), axis=1)

        return rows, in_blocks(place, rows, vectors)

    def score_batch(self, state: State, batch: Batch) -> Array:
        rows, winner = self._winner(state, batch)
        xp = _xp.array_namespace(rows)
        vectors, shape, scale = (
            xp.take(state[name], winner, axis=0)
            for name in ("vectors", "shape", "scale")
        )
        return shape * (xp.log(scale) - _xp.log(_xp.row_norms(rows - vectors)))

    def probability_batch(self, state: State, batch: Batch) -> Array:
        exponent = -self.score_batch(state, batch)
        return _xp.array_namespace(exponent).exp(-exp(exponent))

    def predict_batch(self, state: State, batch: Batch) -> Array:
        winner = self._winner(state, batch)[1]
        return _xp.array_namespace(winner).take(state["labels"], winner, axis=0)


def _nearest_others(rows: Floats, labels: NDArray[np.int64], tail: int) -> Floats:
    """Return distances to the nearest samples of other classes, inf where too few."""
    n = labels.size
    tail = min(tail, n - int(np.unique(labels, return_counts=True)[1].min()))

    def distances(block: Floats, own: NDArray[np.int64]) -> Floats:
        squared = squared_distances(block, rows)
        squared[own[:, None] == labels] = np.inf
        few = np.sort(np.partition(squared, tail - 1, axis=1)[:, :tail], axis=1)
        # Exact, so that coinciding samples have distance 0.
        exact = _xp.row_norms(block - rows[squared.argmin(axis=1)])[:, None]
        return np.hstack([exact, np.maximum(np.sqrt(few[:, 1:]), exact)])

    return in_blocks(distances, rows, rows, labels)


def _greedy_cover(rows: Floats, radius: Floats) -> NDArray[np.intp]:
    """Choose samples until every one lies within the radius of a chosen one.

    The one that covers most uncovered samples comes first; of equal ones that with the
    largest radius, so that the order of the samples does not matter.
    """
    widest = np.argsort(-radius, kind="stable")
    rows, radius = rows[widest], radius[widest]

    def covered(block: Floats, radius: Floats) -> NDArray[np.bool_]:
        return squared_distances(block, rows) <= (radius**2)[:, None]

    covers = in_blocks(covered, rows, rows, radius)
    np.fill_diagonal(covers, val=True)
    gain = np.count_nonzero(covers, axis=1)
    left = np.ones(radius.size, dtype=bool)
    chosen = []
    while left.any():
        chosen.append(int(gain.argmax()))
        new = np.flatnonzero(covers[chosen[-1]] & left)
        left[new] = False
        # Every column is removed once: all rounds together cost one pass.
        gain -= np.count_nonzero(covers[:, new], axis=1)
    return widest[chosen]
