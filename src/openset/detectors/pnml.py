"""Regret of the predictive normalised maximum likelihood of the last layer."""

import math
from dataclasses import dataclass
from typing import Any

from openset import _xp
from openset._types import Array
from openset.detectors import shaping
from openset.detectors._batch import Batch, State, fit_batches, in_dtype, working_dtype
from openset.detectors._detector import Detector
from openset.detectors.constraints import Number
from openset.outputs import Outputs

# (1 - p) p^(kappa - 1) above e^80 leaves a term of 0 in every precision.
_MAX_EXPONENT = 80.0


@dataclass(frozen=True, kw_only=True)
class PNML(Detector):
    r"""Minus the regret of a last layer that may be retrained on the sample itself.

    .. math:: s(x) = -\frac{1}{\log C} \log \sum_c
              \frac{p_c}{p_c + (1 - p_c)\, p_c^{\,\kappa}}, \qquad
              \kappa = \frac{g}{1 + g}, \qquad g = u^\top (U^\top U)^{+} u

    where :math:`u = f / \lVert f \rVert_2`, the rows of U are the training features
    scaled to length one, and p are the probabilities that the last layer gives to *u*
    (not to f). In directions the training features fill, g is near 0 and the regret
    small. With one class, s = 0.

    Parameters
    ----------
    cutoff
        Leave out directions whose second moment is below this share of the largest.

    References
    ----------
    Bibas, Feder and Hassner, "Single layer predictive normalized maximum likelihood for
    out-of-distribution detection", NeurIPS 2021.

    Examples
    --------
    One training sample along the first axis: there g = 1 and kappa = 1/2. Equal
    probabilities give terms of 1 / (1 + sqrt(1/2)) each.

    >>> head = {"weight": [[1.0, 0.0], [1.0, 0.0]], "bias": [0.0, 0.0]}
    >>> train = Outputs(features=[[2.0, 0.0]], **head)
    >>> test = Outputs(logits=[[3.0, 3.0]], features=[[3.0, 0.0]], labels=[0])
    >>> PNML().fit(train).score(test).known.round(4)  # -log2(2 / 1.7071)
    array([-0.2284])
    """

    name = "pnml"
    fit_needs = ("features", "head")
    score_needs = ("features",)
    fit_cost = "n d^2 + d^3"
    score_cost = "d^2 + C d"
    paper = "Bibas et al. 2021"
    score_scale = "-regret, in [-1, 0]"
    casts_state = True
    constraints = {"cutoff": Number(low=0, high=1, open_high=True)}

    cutoff: float = 1e-7

    def fit_state(self, train: Outputs) -> State:
        head = shaping.head("PNML", train)
        scatter: Any = 0.0
        for batch in fit_batches(train):
            xp = _xp.array_namespace(batch.features)
            rows = xp.astype(batch.unit_features, xp.float64)
            scatter = rows.T @ rows + scatter
        moments, directions = xp.linalg.eigh(scatter)
        largest = float(xp.max(moments))
        # eigh sorts ascending: the directions to leave out come first.
        n_left_out = int(xp.count_nonzero(moments <= self.cutoff * largest))
        if n_left_out == moments.shape[0]:  # all training features are zero
            n_left_out, moments = 0, xp.full_like(moments, math.inf)
        spread = xp.sqrt(moments[n_left_out:])
        state = {"whiten": directions[:, n_left_out:] / spread[None, :], **head}
        return in_dtype(state, working_dtype(train))

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)
        rows = batch.unit_features
        logits = shaping.head_logits(state, rows)
        n_classes = logits.shape[1]
        if n_classes == 1:
            return xp.zeros_like(logits[:, 0])
        inside = _xp.row_norms(rows @ state["whiten"]) ** 2

        def total(logits: Array, inside: Array) -> Array:
            log_p = logits - _xp.logsumexp(logits)[:, None]
            # kappa - 1 = -1 / (1 + g)
            exponent = -log_p / (1 + inside)[:, None]
            most = xp.full_like(exponent[:1, :], _MAX_EXPONENT)
            ratio = -xp.expm1(log_p) * xp.exp(xp.minimum(exponent, most))
            return xp.sum(1 / (1 + ratio), axis=1)

        return -xp.log(_xp.by_rows(total, logits, inside)) / math.log(n_classes)

    def predict_batch(self, state: State, batch: Batch) -> Array:
        return shaping.head_class(state, batch.features)
