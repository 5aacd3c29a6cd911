"""Norm of the last layer's gradient."""

from dataclasses import dataclass

from openset import _xp
from openset._types import Array
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.detectors.constraints import POSITIVE


@dataclass(frozen=True, kw_only=True)
class GradNorm(Detector):
    r"""L1 norm of the gradient, with respect to the last weights, of a uniform loss.

    .. math:: s(x) = \Bigl\lVert \frac{\partial}{\partial W}
              D_{KL}\bigl(u \,\Vert\, \operatorname{softmax}(z / T)\bigr)
              \Bigr\rVert_1
              = \frac1T \lVert f \rVert_1 \sum_c \bigl| p_c - \tfrac1C \bigr|, \qquad
              u_c = \tfrac1C

    The gradient of one sample is the outer product of :math:`(p - u) / T` and f, so its
    norm is the product of their norms: no automatic differentiation is needed. Like the
    paper, it leaves out the gradient of the bias. With one class, s = 0.

    Parameters
    ----------
    temperature
        T, which the logits are divided by.

    References
    ----------
    Huang, Geng and Li, "On the importance of gradients for detecting distributional
    shifts in the wild", NeurIPS 2021.

    Examples
    --------
    The features sum to 4; the probabilities 3/4 and 1/4 are 1/4 away from 1/2.

    >>> import math
    >>> from openset import Outputs
    >>> outputs = Outputs(logits=[[math.log(3), 0.0]], features=[[3.0, -1.0]],
    ...                   labels=[0])
    >>> GradNorm().fit(outputs).score(outputs).known.round(6)
    array([2.])
    """

    name = "gradnorm"
    score_needs = ("logits", "features")
    score_cost = "C + d"
    paper = "Huang et al. 2021"
    score_scale = "norm"
    constraints = {"temperature": POSITIVE}

    temperature: float = 1.0

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.logits)
        tempered = batch.tempered(self.temperature)
        uniform = 1 / batch.logits.shape[1]

        def away(logits: Array, energy: Array) -> Array:
            p = _xp.exp_own(logits - energy[:, None])
            return xp.sum(xp.abs(p - uniform), axis=1)

        def length(features: Array) -> Array:
            return xp.sum(xp.abs(features), axis=1)

        from_uniform = _xp.by_rows(away, tempered.logits, tempered.energy)
        return _xp.by_rows(length, batch.features) * from_uniform / self.temperature
