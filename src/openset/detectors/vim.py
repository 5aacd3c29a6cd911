"""Virtual logit matching."""

from dataclasses import dataclass
from typing import Any

from openset import _check, _xp
from openset._types import Array
from openset.detectors import shaping
from openset.detectors._base import Detector
from openset.detectors._batch import Batch, State, fit_batches, in_dtype, working_dtype
from openset.detectors.constraints import Integer, Optional
from openset.outputs import Outputs

# A residual below this share of the features' length is a rounding error of float32.
_NO_RESIDUAL = 1e-7


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
    Training features lie along the first axis and stray 0.5 along the second; the
    largest logit is 4 on average, so alpha = 8.

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
    constraints = {"dim": Optional(Integer(low=1))}

    dim: int | None = None

    def _fit(self, train: Outputs) -> State:
        head = shaping.head("ViM", train)
        xp = _xp.array_namespace(head["weight"])
        weight = xp.astype(head["weight"], xp.float64)
        dim = self._dim(weight.shape[1])
        origin = -(xp.linalg.pinv(weight) @ xp.astype(head["bias"], xp.float64))
        scatter: Any = 0.0
        for batch in fit_batches(train):
            away = xp.astype(batch.features, xp.float64) - origin
            scatter = away.T @ away + scatter
        directions = xp.linalg.eigh(scatter / len(train))[1]
        # eigh sorts ascending: the residual space comes first.
        residual = directions[:, : weight.shape[1] - dim]
        sums = {"logit": 0.0, "residual": 0.0, "length": 0.0}
        for batch in fit_batches(train):
            away = xp.astype(batch.features, xp.float64) - origin
            sums["logit"] += float(xp.sum(batch.top_logit, dtype=xp.float64))
            sums["residual"] += float(xp.sum(_xp.row_norms(away @ residual)))
            sums["length"] += float(xp.sum(_xp.row_norms(away)))
        self._check_alpha(sums, dim)
        state = {
            "origin": origin,
            # alpha scales the directions, so that one product gives the virtual logit.
            "residual": residual * (sums["logit"] / sums["residual"]),
        }
        return in_dtype(state, working_dtype(train))

    def _dim(self, width: int) -> int:
        if self.dim is None:
            usual = 1000 if width >= 2048 else 512
            return usual if usual < width else width // 2
        if self.dim >= width:
            msg = _check.must(
                f"below {width}, the number of features",
                caller="ViM.fit",
                name="dim",
                got=self.dim,
            )
            raise ValueError(msg)
        return self.dim

    def _check_alpha(self, sums: dict[str, float], dim: int) -> None:
        if sums["logit"] <= 0:
            msg = _check.must(
                "positive on average",
                caller="ViM.fit",
                name="largest logits",
                got=f"a sum of {sums['logit']:g}",
                remedy="Without positive logits the residual has nothing to match",
            )
            raise ValueError(msg)
        if sums["residual"] <= _NO_RESIDUAL * sums["length"]:
            msg = _check.must(
                f"spread over more than {dim} dimensions",
                caller="ViM.fit",
                name="features",
                got="no residual",
                remedy="Lower dim",
            )
            raise ValueError(msg)

    def _ready(self, state: State, dtype: Any) -> State:
        return in_dtype(state, dtype)

    def _score(self, state: State, batch: Batch) -> Array:
        away = (batch.features - state["origin"]) @ state["residual"]
        return batch.energy - _xp.row_norms(away)
