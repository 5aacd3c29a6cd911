"""Virtual logit matching."""

from dataclasses import dataclass

from openset import _check, _xp
from openset._types import Array
from openset.detectors._batch import Batch, State, fit_batches, in_dtype, working_dtype
from openset.detectors._detector import Detector
from openset.detectors._residual import mean_residual, residual_space
from openset.detectors.constraints import Integer, Optional
from openset.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class ViM(Detector):
    r"""Energy minus the scaled residual of the feature outside the principal space.

    .. math:: s(x) = \log \sum_c e^{z_c} - \alpha \lVert R^\top (f - o) \rVert_2,
              \qquad o = -W^{+} b, \qquad
              \alpha = \frac{\sum_i \max_c z_{ic}}
                            {\sum_i \lVert R^\top (f_i - o) \rVert_2}

    The columns of R are the eigenvectors of :math:`\sum_i (f_i - o)(f_i - o)^\top`
    without the `dim` leading ones; :math:`\alpha` scales the "virtual logit" to the
    size of the real ones. It is undefined, and fitting raises, if the largest logits
    are not positive on average or training features have no residual.

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
    Training features lie along the first axis, with residuals of 0.5 along the second;
    the largest logit is 4 on average, so alpha = 4 / 0.5 = 8.

    >>> head = {"weight": [[2.0, 0.0]], "bias": [0.0]}
    >>> features = [[2.0, 0.5], [2.0, -0.5]]
    >>> train = Outputs(logits=[[4.0], [4.0]], features=features, **head)
    >>> test = Outputs(logits=[[4.0]], features=[[2.0, 1.0]], labels=[-1])
    >>> ViM(dim=1).fit(train).score(test).known.round(6)  # 4 - 8 * 1
    array([-4.])
    """

    name = "vim"
    fit_needs = ("logits", "features", "head")
    score_needs = ("logits", "features")
    fit_cost = "n d^2 + d^3"
    score_cost = "C + d (d - dim)"
    paper = "Wang et al. 2022"
    score_scale = "energy - distance"
    casts_state = True
    constraints = {"dim": Optional(Integer(low=1))}

    dim: int | None = None

    def fit_state(self, train: Outputs) -> State:
        space = residual_space("ViM", train, self.dim)
        length = mean_residual("ViM", train, space)
        alpha = self._mean_logit(train) / length
        # alpha scales the directions, so that one product gives the virtual logit.
        state = {"origin": space.origin, "residual": space.residual * alpha}
        return in_dtype(state, working_dtype(train))

    def _mean_logit(self, train: Outputs) -> float:
        total = 0.0
        for batch in fit_batches(train):
            xp = _xp.array_namespace(batch.logits)
            total += float(xp.sum(batch.top_logit, dtype=xp.float64))
        if total <= 0:
            msg = _check.must(
                "positive on average",
                caller="ViM.fit",
                name="largest logits",
                got=f"a sum of {total:g}",
                remedy="Without positive logits the residual has nothing to match",
            )
            raise ValueError(msg)
        return total / len(train)

    def score_batch(self, state: State, batch: Batch) -> Array:
        away = (batch.features - state["origin"]) @ state["residual"]
        return batch.energy - _xp.row_norms(away)
