"""Confidence and orthogonal residual."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from openset import _xp
from openset._types import Array
from openset.detectors import shaping
from openset.detectors._batch import Batch, State, batches_with, fit_batches
from openset.detectors._detector import Detector
from openset.detectors._moments import sums_by
from openset.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class CORE(Detector):
    r"""Energy, plus a cosine of the feature's part orthogonal to the class weights.

    .. math:: s(x) = \frac{E - m_E}{\sigma_E} + \frac{a - m_a}{\sigma_a}, \qquad
              E = \log \sum_c e^{z_c}, \qquad
              a = \cos(r_{\hat c}(f), \rho_{\hat c})

    .. math:: r_c(f) = f - (f^\top u_c)\, u_c, \quad u_c = w_c / \lVert w_c \rVert_2,
              \qquad \rho_c = \operatorname*{mean}_{i : y_i = c} r_c(f_i)

    The residual of a feature is what is orthogonal to the weights of a class; training
    samples of the class have residuals of similar direction. Means m and standard
    deviations :math:`\sigma` are those of the training samples, so that both terms
    weigh the same. A class without samples, or a residual of length 0, has cosine 0.

    There is no released code; the paper's text leaves open whether residuals belong to
    one class or to all. Those of all classes would be zero where there are more
    classes than features, so they belong to the predicted class here.

    References
    ----------
    Yang, Kim and Bahk, "CORE: Robust out-of-distribution detection via confidence and
    orthogonal residual scoring", arXiv:2603.18290, 2026.

    Examples
    --------
    Energies are 1 and 3 in training (mean 2, deviation 1), the weights use the first
    feature only, and both residuals point along the second: only the energy varies.

    >>> head = {"weight": [[1.0, 0.0]], "bias": [0.0]}
    >>> features = [[1.0, 2.0], [3.0, 5.0]]
    >>> train = Outputs(logits=[[1.0], [3.0]], features=features, labels=[0, 0], **head)
    >>> test = Outputs(logits=[[3.0]], features=[[3.0, -1.0]], labels=[-1])
    >>> CORE().fit(train).score(test).known  # 1, and a cosine of -1 instead of 1
    array([-1.])
    """

    name = "core"
    fit_needs = ("logits", "features", "labels", "head")
    score_needs = ("logits", "features")
    fit_cost = "n (C + d)"
    score_cost = "C + d"
    paper = "Yang et al. 2026"
    score_scale = "sum of 2 z-scores"

    def fit_state(self, train: Outputs) -> State:
        xp = _xp.array_namespace(train.weight)
        weight = shaping.weight("CORE", train, xp.float64)
        lengths = _xp.row_norms(weight)
        unit = weight / xp.where(lengths > 0, lengths, xp.ones_like(lengths))[:, None]
        sums: Any = 0.0
        for batch, labels in batches_with(train, train.labels):
            own = np.array(labels)
            rows = xp.astype(batch.features, xp.float64)
            residual = _residual(rows, xp.take(unit, _xp.moved(own, rows), axis=0))
            sums = sums_by(residual, own, weight.shape[0]) + sums
        lengths = _xp.row_norms(sums)
        pattern = sums / xp.where(lengths > 0, lengths, xp.ones_like(lengths))[:, None]
        state: dict[str, Array] = {"unit": unit, "pattern": pattern}
        parts = [_both(state, batch) for batch in fit_batches(train)]
        both = xp.concat(parts, axis=0)
        spread = xp.std(both, axis=0)
        # The rounding errors of a constant are no spread.
        size = xp.maximum(xp.max(xp.abs(both), axis=0), xp.ones_like(spread))
        is_constant = spread <= 1e-9 * size
        state["mean"] = xp.mean(both, axis=0)
        state["spread"] = xp.where(is_constant, xp.ones_like(spread), spread)
        # Float64 for float32 outputs, too: the cosines of a class hardly differ.
        return state

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)
        both = _both(state, batch)
        return xp.sum((both - state["mean"]) / state["spread"], axis=1)


def _residual(rows: Array, unit: Array) -> Array:
    xp = _xp.array_namespace(rows)
    return rows - xp.sum(rows * unit, axis=1)[:, None] * unit


def _both(state: State, batch: Batch) -> Array:
    """Return energy and cosine of each sample, shape (n, 2), in float64."""
    xp = _xp.array_namespace(batch.features)

    def cosine(features: Array, index: Array) -> Array:
        rows = xp.astype(features, xp.float64, copy=False)
        residual = _residual(rows, xp.take(state["unit"], index, axis=0))
        along = xp.sum(residual * xp.take(state["pattern"], index, axis=0), axis=1)
        length = _xp.row_norms(residual)
        return along / xp.where(length > 0, length, xp.ones_like(length))

    cosines = _xp.by_rows(cosine, batch.features, batch.top_class)
    return xp.stack([xp.astype(batch.energy, xp.float64, copy=False), cosines], axis=1)
