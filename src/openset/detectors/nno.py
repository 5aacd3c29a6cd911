"""Nearest non-outlier: distance to the nearest class mean within a radius."""

from dataclasses import dataclass

import numpy as np

from openset import _check, _xp
from openset._types import Array
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.detectors._distances import (
    centred,
    distances_between,
    squared_distances,
    training_rows,
)
from openset.detectors.constraints import POSITIVE, Number, Optional
from openset.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class NNO(Detector):
    r"""One minus the distance to the nearest class mean, relative to a radius.

    .. math:: s(x) = \max_c \Bigl(1 - \frac{\lVert x - \mu_c \rVert}{\tau}\Bigr)

    The class is that of the nearest mean. The paper accepts s > 0; its volume constant
    only rescales s and is omitted, and features are used as they are (its metric
    learning is a linear map to apply beforehand).

    Parameters
    ----------
    tau
        Radius of the balls. None: the `quantile` of the training samples' distances to
        their own class mean, so that s >= 0 accepts this share of them. Samples that
        all lie on their mean give no radius, and fit raises.
    quantile
        In (0, 1].

    References
    ----------
    Bendale and Boult, "Towards open world recognition", CVPR 2015.

    Examples
    --------
    >>> train = Outputs(features=[[0.0], [2.0], [9.0], [11.0]], labels=[0, 0, 1, 1])
    >>> new = Outputs(features=[[1.0], [4.0], [10.5]], labels=[0, -1, 1])
    >>> scores = NNO(tau=2.0).fit(train).score(new)  # means 1 and 10
    >>> scores.known, scores.predicted
    (array([ 1.  , -0.5 ,  0.75]), array([0, 0, 1]))
    """

    name = "nno"
    fit_needs = ("features", "labels")
    score_needs = ("features",)
    fit_cost = "n d"
    score_cost = "C d"
    paper = "Bendale & Boult 2015"
    score_scale = "1 - distance / radius"
    constraints = {
        "tau": Optional(POSITIVE),
        "quantile": Number(low=0, high=1, open_low=True),
    }

    tau: float | None = None
    quantile: float = 0.95

    def fit_state(self, train: Outputs) -> State:
        centre, rows, labels = training_rows(train)
        classes, owner, counts = np.unique(
            labels, return_inverse=True, return_counts=True
        )
        order = np.argsort(owner, kind="stable")
        starts = np.cumsum(counts) - counts
        sums = np.add.reduceat(rows[order], starts, axis=0, dtype=np.float64)
        means = sums / counts[:, None]
        tau = self.tau
        if tau is None:
            own = np.linalg.norm(rows - means[owner], axis=1)
            tau = float(np.quantile(own, self.quantile))
            if tau <= 0:
                msg = _check.must(
                    "spread around their class means",
                    caller="NNO.fit",
                    name="features",
                    got="no distance to take the radius from",
                    remedy="Give tau",
                )
                raise ValueError(msg)
        arrays = {
            "centre": centre,
            "means": means.astype(rows.dtype),
            "tau": np.array(tau),
            "classes": classes,
        }
        return {name: _xp.moved(a, train.features) for name, a in arrays.items()}

    def score_batch(self, state: State, batch: Batch) -> Array:
        rows, means, nearest = _nearest(state, batch)
        xp = _xp.array_namespace(rows)
        distances = distances_between(rows, xp.take(means, nearest, axis=0))
        return 1 - distances / float(state["tau"])

    def predict_batch(self, state: State, batch: Batch) -> Array:
        nearest = _nearest(state, batch)[2]
        return _xp.array_namespace(nearest).take(state["classes"], nearest, axis=0)


def _nearest(state: State, batch: Batch) -> tuple[Array, Array, Array]:
    """Return centred features, means, and the index of the nearest mean."""
    rows = centred(batch, state["centre"])
    xp = _xp.array_namespace(rows)
    means = xp.astype(state["means"], rows.dtype, copy=False)
    return rows, means, xp.argmin(squared_distances(rows, means), axis=1)
