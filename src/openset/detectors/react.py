"""Rectified activations."""

from dataclasses import dataclass

import numpy as np

from openset import _xp
from openset._types import Array
from openset.detectors import shaping
from openset.detectors._batch import Batch, State, draw, fit_batches
from openset.detectors._detector import Detector
from openset.detectors._percentile import percentile
from openset.detectors.constraints import Integer, Number
from openset.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class ReAct(Detector):
    r"""Energy after clipping large activations.

    .. math:: s(x) = \log \sum_c \exp\bigl(w_c^\top \min(f, \kappa) + b_c\bigr)

    where :math:`\kappa` is a percentile of *all* numbers in the training features. The
    predicted class is that of the original features.

    Parameters
    ----------
    percentile
        Percentile of the activations to clip at, in [0, 100].
    max_values
        If the training features have more numbers than this, the percentile is computed
        from random rows with about this many.
    seed
        Random seed of that selection.

    References
    ----------
    Sun, Guo and Li, "ReAct: Out-of-distribution detection with rectified activations",
    NeurIPS 2021.

    Examples
    --------
    The median activation is 1, so the 5 counts as 1.

    >>> head = {"weight": [[1.0, 1.0, 1.0]], "bias": [0.5]}
    >>> train = Outputs(features=[[0.0, 1.0, 2.0]], **head)
    >>> test = Outputs(features=[[5.0, 0.0, 1.0]], labels=[-1])
    >>> ReAct(percentile=50).fit(train).score(test).known
    array([2.5])
    """

    name = "react"
    fit_needs = ("features", "head")
    score_needs = ("features",)
    fit_cost = "n d"
    score_cost = "C d"
    paper = "Sun et al. 2021"
    score_scale = "energy"
    casts_state = True
    constraints = {
        "percentile": Number(low=0, high=100),
        "max_values": Integer(low=1),
        "seed": Integer(),
    }

    percentile: float = 90.0
    max_values: int = 1 << 24
    seed: int = 0

    def fit_state(self, train: Outputs) -> State:
        n, width = train.features.shape  # type: ignore[union-attr]
        rows = draw(n, max(1, self.max_values // width), self.seed)
        parts = [batch.features for batch in fit_batches(train, rows)]
        clip = percentile(parts, self.percentile)
        head = shaping.head("ReAct", train)
        return {"clip": _xp.moved(np.asarray(clip), head["bias"]), **head}

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)

        def clipped(features: Array) -> Array:
            return xp.minimum(features, state["clip"])

        return shaping.head_energy(state, batch.features, clipped)

    def predict_batch(self, state: State, batch: Batch) -> Array:
        return shaping.head_class(state, batch.features)
