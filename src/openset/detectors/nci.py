"""Neural-collapse inspired score."""

from dataclasses import dataclass

from openset import _xp
from openset._types import Array
from openset.detectors import shaping
from openset.detectors._batch import Batch, State, in_dtype, working_dtype
from openset.detectors._detector import Detector
from openset.detectors._moments import mean_feature
from openset.detectors.constraints import Number
from openset.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class NCI(Detector):
    r"""Projection of the weights of the predicted class on the centred feature.

    .. math:: s(x) = \frac{w_{\hat c}^\top (f - \mu)}{\lVert f - \mu \rVert_2}
              + \alpha \lVert f \rVert_1

    where :math:`\hat c` is the predicted class and :math:`\mu` the mean training
    feature. At :math:`f = \mu` the first term is 0.

    Parameters
    ----------
    alpha
        Weight of the feature's length. The paper selects it from 1e-4, 1e-3, 1e-2,
        1e-1.

    References
    ----------
    Liu and Qin, "Detecting out-of-distribution through the lens of neural collapse",
    CVPR 2025.

    Examples
    --------
    With the mean at 0, (3, 4) has L2 norm 5, L1 norm 7 and a product of 3 with (1, 0).

    >>> train = Outputs(features=[[-1.0, 0.0], [1.0, 0.0]], weight=[[1.0, 0.0]],
    ...                 bias=[0.0])
    >>> test = Outputs(logits=[[3.0]], features=[[3.0, 4.0]], labels=[0])
    >>> NCI(alpha=0.1).fit(train).score(test).known.round(2)  # 3/5 + 0.1 * 7
    array([1.3])
    """

    name = "nci"
    fit_needs = ("features", "head")
    score_needs = ("logits", "features")
    fit_cost = "n d"
    score_cost = "C + d"
    paper = "Liu & Qin 2025"
    score_scale = "cosine + norm"
    casts_state = True
    constraints = {"alpha": Number(low=0)}

    alpha: float = 1e-3

    def fit_state(self, train: Outputs) -> State:
        dtype = working_dtype(train)
        weight = shaping.weight("NCI", train, dtype)
        return in_dtype({"weight": weight, "mean": mean_feature(train, dtype)}, dtype)

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)

        def score(features: Array, index: Array) -> Array:
            away = features - state["mean"]
            length = _xp.row_norms(away)
            along = xp.sum(away * xp.take(state["weight"], index, axis=0), axis=1)
            # At the mean `along` is 0 too: any divisor will do.
            cosine = along / xp.where(length > 0, length, xp.ones_like(length))
            return cosine + self.alpha * xp.sum(xp.abs(features), axis=1)

        return _xp.by_rows(score, batch.features, batch.top_class)
