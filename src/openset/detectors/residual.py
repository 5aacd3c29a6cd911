"""Length of the feature outside the principal space."""

from dataclasses import dataclass

from openset import _xp
from openset._types import Array
from openset.detectors._batch import Batch, State, in_dtype, working_dtype
from openset.detectors._detector import Detector
from openset.detectors._residual import mean_residual, residual_space
from openset.detectors.constraints import Integer, Optional
from openset.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class Residual(Detector):
    r"""Minus the length of the feature outside the principal space.

    .. math:: s(x) = -\lVert R^\top (f - o) \rVert_2, \qquad o = -W^{+} b

    The columns of R are the eigenvectors of :math:`\sum_i (f_i - o)(f_i - o)^\top`
    without the `dim` leading ones. It is :class:`ViM` without the logits. Fitting
    raises if training features have no residual.

    Parameters
    ----------
    dim
        Size of the principal space, below d. Default: 1000 if d >= 2048, else 512; half
        of d if that would leave no residual.

    References
    ----------
    Wang et al., "ViM: Out-of-distribution with virtual-logit matching", CVPR 2022.

    Examples
    --------
    Training features lie along the first axis; the second is the residual.

    >>> head = {"weight": [[2.0, 0.0]], "bias": [0.0]}
    >>> train = Outputs(features=[[2.0, 0.5], [2.0, -0.5]], **head)
    >>> test = Outputs(logits=[[4.0]], features=[[2.0, 3.0]], labels=[-1])
    >>> Residual(dim=1).fit(train).score(test).known.round(6)
    array([-3.])
    """

    name = "residual"
    fit_needs = ("features", "head")
    score_needs = ("features",)
    fit_cost = "n d^2 + d^3"
    score_cost = "d (d - dim)"
    paper = "Wang et al. 2022"
    score_scale = "-distance"
    casts_state = True
    constraints = {"dim": Optional(Integer(low=1))}

    dim: int | None = None

    def fit_state(self, train: Outputs) -> State:
        space = residual_space("Residual", train, self.dim)
        mean_residual("Residual", train, space)  # raises if there is none
        state = {"origin": space.origin, "residual": space.residual}
        return in_dtype(state, working_dtype(train))

    def score_batch(self, state: State, batch: Batch) -> Array:
        away = (batch.features - state["origin"]) @ state["residual"]
        return -_xp.row_norms(away)
