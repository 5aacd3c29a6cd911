"""Detectors that look at directions in which training features hardly vary."""

import math
from typing import Any, ClassVar

import numpy as np

from openset import _check, _xp
from openset.detectors.base import Array, Batch, Detector, State, Training
from openset.detectors.batch import fit_batches, in_dtype, working_dtype
from openset.detectors.constraints import Number, option
from openset.detectors.scaling import class_by_head, head

# A residual below this share of the features' length is a rounding error of float32.
_NO_RESIDUAL = 1e-6
# (1 - p) p^(kappa - 1) above e^80 leaves a term of 0 in every precision.
_MAX_EXPONENT = 80.0


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

    >>> from openset import Outputs
    >>> head = {"weight": [[2.0, 0.0]], "bias": [0.0]}
    >>> train = Outputs(features=[[2.0, 0.5], [2.0, -0.5]], **head)
    >>> test = Outputs(logits=[[4.0]], features=[[2.0, 3.0]], labels=[-1])
    >>> Residual(dim=1).fit(train).score(test).known.round(6)
    array([-3.])
    """

    fit_needs: ClassVar[tuple[str, ...]] = ("features", "head")
    score_needs: ClassVar[tuple[str, ...]] = ("features",)
    costs = ("n d^2 + d^3", "d (d - dim)")
    paper = "Wang et al. 2022"
    score_scale = "-distance"

    dim: int | None = option(None, Number(low=1, integer=True, or_none=True))

    def fit_state(self, train: Training) -> dict[str, Any]:
        return self._space(train)[0]

    def _space(self, train: Training) -> tuple[Any, ...]:
        """Return the origin and the directions, and the mean length outside."""
        caller = f"{type(self).__name__}.fit"
        last = {name: one.astype(float) for name, one in head(train).items()}
        width, dim = last["weight"].shape[1], self.dim
        if dim is None:
            dim = 1000 if width >= 2048 else 512
            dim = dim if dim < width else width // 2
        if dim >= width:
            rule = f"below {width}, the number of features"
            _check.fail(caller, "dim", rule, dim)
        origin = -(np.linalg.pinv(last["weight"]) @ last["bias"])
        scatter: Any = 0.0
        for batch in fit_batches(train):
            away = batch.features - origin
            scatter = away.T @ away + scatter
        second = scatter / len(train)
        # eigh sorts ascending: the residual space comes first.
        residual = np.linalg.eigh(second)[1][:, : width - dim]
        state = in_dtype({"origin": origin, "residual": residual}, working_dtype(train))
        lengths = (_outside(state, b).sum(dtype=float) for b in fit_batches(train))
        length = sum(lengths) / len(train)
        if length <= _NO_RESIDUAL * np.trace(second) ** 0.5:
            rule, remedy = f"spread over more than {dim} dimensions", "Lower dim"
            _check.fail(caller, "features", rule, "no residual", remedy)
        return {"origin": origin, "residual": residual}, length

    def score_batch(self, state: State, batch: Batch) -> Array:
        return -_outside(state, batch)


def _outside(state: State, batch: Batch) -> Any:
    return _xp.row_norms((batch.features - state["origin"]) @ state["residual"])


class ViM(Residual):
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

    >>> from openset import Outputs
    >>> head = {"weight": [[2.0, 0.0]], "bias": [0.0]}
    >>> features = [[2.0, 0.5], [2.0, -0.5]]
    >>> train = Outputs(logits=[[4.0], [4.0]], features=features, **head)
    >>> test = Outputs(logits=[[4.0]], features=[[2.0, 1.0]], labels=[-1])
    >>> ViM(dim=1).fit(train).score(test).known.round(6)  # 4 - 8 * 1
    array([-4.])
    """

    fit_needs = ("logits", "features", "head")
    score_needs = ("logits", "features")
    costs = ("n d^2 + d^3", "C + d (d - dim)")
    score_scale = "energy - distance"

    def fit_state(self, train: Training) -> dict[str, Any]:
        state, length = self._space(train)
        total = sum(batch.top_logit.sum(dtype=float) for batch in fit_batches(train))
        if total <= 0:
            remedy = "Without positive logits the residual has nothing to match"
            rule, got = "positive on average", f"a sum of {total:g}"
            _check.fail("ViM.fit", "largest logits", rule, got, remedy)
        # alpha scales the directions, so that one product gives the virtual logit.
        alpha = total / len(train) / length
        return {**state, "residual": state["residual"] * alpha}

    def score_batch(self, state: State, batch: Batch) -> Array:
        return batch.energy - _outside(state, batch)


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

    >>> from openset import Outputs
    >>> head = {"weight": [[1.0, 0.0], [1.0, 0.0]], "bias": [0.0, 0.0]}
    >>> train = Outputs(features=[[2.0, 0.0]], **head)
    >>> test = Outputs(logits=[[3.0, 3.0]], features=[[3.0, 0.0]], labels=[0])
    >>> PNML().fit(train).score(test).known.round(4)  # -log2(2 / 1.7071)
    array([-0.2284])
    """

    fit_needs = ("features", "head")
    score_needs = ("features",)
    costs = ("n d^2 + d^3", "d^2 + C d")
    paper = "Bibas et al. 2021"
    score_scale = "-regret, in [-1, 0]"

    cutoff: float = option(1e-7, Number(low=0, high=1, open_high=True))

    def fit_state(self, train: Training) -> dict[str, Any]:
        scatter: Any = 0.0
        for batch in fit_batches(train):
            rows = batch.unit_features.astype(float)
            scatter = rows.T @ rows + scatter
        sizes, directions = np.linalg.eigh(scatter)
        kept = sizes > self.cutoff * sizes[-1]
        return {"whiten": directions[:, kept] / np.sqrt(sizes[kept]), **head(train)}

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)
        rows = batch.unit_features
        logits = rows @ state["weight"].T + state["bias"]
        inside = _xp.row_norms(rows @ state["whiten"]) ** 2

        def total(logits: Array, inside: Array) -> Array:
            log_p = logits - _xp.logsumexp(logits)[:, None]
            # kappa - 1 = -1 / (1 + g)
            exponent = xp.clip(-log_p / (1 + inside)[:, None], max=_MAX_EXPONENT)
            ratio = -xp.expm1(log_p) * xp.exp(exponent)
            return xp.sum(1 / (1 + ratio), axis=1)

        found = -xp.log(_xp.by_rows(total, logits, inside))
        return found / (math.log(logits.shape[1]) or 1.0)

    def predict_batch(self, state: State, batch: Batch) -> Array:
        return class_by_head(state, batch)
