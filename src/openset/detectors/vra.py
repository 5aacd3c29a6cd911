"""Variational rectified activations."""

from dataclasses import dataclass

import numpy as np

from openset import _check, _xp
from openset._types import Array
from openset.detectors import shaping
from openset.detectors._batch import (
    Batch,
    State,
    draw,
    fit_batches,
    in_dtype,
    working_dtype,
)
from openset.detectors._detector import Detector
from openset.detectors._percentile import by_column, percentile
from openset.detectors.constraints import Boolean, Integer, Number, OneOf
from openset.outputs import Outputs

_BELOW = ("zero", "clip")


@dataclass(frozen=True, kw_only=True)
class VRA(Detector):
    r"""Energy after suppressing low activations and clipping high ones.

    .. math:: s(x) = \log \sum_c \exp\bigl(w_c^\top g(f) + b_c\bigr), \qquad
              g(v) = \begin{cases} 0 & v < \alpha \\ v & \alpha \le v \le \beta \\
                     \beta & v > \beta \end{cases}

    where :math:`\alpha` and :math:`\beta` are percentiles of all numbers in the
    training features. The predicted class is that of the original features. (The
    paper's VRA+, which also adds a constant to what lies between, is not implemented.)

    Parameters
    ----------
    low, high
        The two percentiles, in [0, 100], low <= high.
    below
        What becomes of activations below :math:`\alpha`: ``"zero"``, as in the paper,
        or ``"clip"``: :math:`\alpha`, as in OpenOOD and pytorch-ood.
    per_feature
        Compute percentiles for each feature by itself, as pytorch-ood does.
    max_values
        If the training features have more numbers than this, the percentiles are
        computed from random rows with about this many.
    seed
        Random seed of that selection.

    References
    ----------
    Xu et al., "VRA: Variational rectified activation for out-of-distribution
    detection", NeurIPS 2023.

    Examples
    --------
    Percentiles of the numbers 0 to 4 are 1 and 3: of (5, 2, 0.5), 3 + 2 + 0 remain.

    >>> head = {"weight": [[1.0, 1.0, 1.0]], "bias": [0.5]}
    >>> train = Outputs(features=[[0.0, 1.0, 2.0], [3.0, 4.0, 2.0]], **head)
    >>> test = Outputs(features=[[5.0, 2.0, 0.5]], labels=[-1])
    >>> VRA(low=20, high=80).fit(train).score(test).known
    array([5.5])
    """

    name = "vra"
    fit_needs = ("features", "head")
    score_needs = ("features",)
    fit_cost = "n d"
    score_cost = "C d"
    paper = "Xu et al. 2023"
    score_scale = "energy"
    casts_state = True
    constraints = {
        "low": Number(low=0, high=100),
        "high": Number(low=0, high=100),
        "below": OneOf(_BELOW),
        "per_feature": Boolean(),
        "max_values": Integer(low=1),
        "seed": Integer(),
    }

    low: float = 60.0
    high: float = 95.0
    below: str = "zero"
    per_feature: bool = False
    max_values: int = 1 << 24
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the parameters, and that the percentiles are in order."""
        super().__post_init__()
        if self.low > self.high:
            msg = _check.must(
                f"at most high, {self.high:g}", caller="VRA", name="low", got=self.low
            )
            raise ValueError(msg)

    def fit_state(self, train: Outputs) -> State:
        n, width = train.features.shape  # type: ignore[union-attr]
        rows = draw(n, max(1, self.max_values // width), self.seed)
        parts = [batch.features for batch in fit_batches(train, rows)]
        percents = (self.low, self.high)
        if self.per_feature:
            cuts = by_column(parts, percents)
        else:
            # With a float64, NumPy interpolates in it.
            cuts = np.array([[percentile(parts, np.float64(p))] for p in percents])
        head = shaping.head("VRA", train)
        low, high = (_xp.moved(cut, head["bias"]) for cut in cuts)
        return {**in_dtype({"low": low, "high": high}, working_dtype(train)), **head}

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)

        def rectified(features: Array) -> Array:
            kept = xp.minimum(features, state["high"][None, :])
            low = state["low"][None, :]
            if self.below == "clip":
                return _xp.maximum_own(kept, low)
            return _xp.zero_own(kept, features < low)

        return shaping.head_energy(state, batch.features, rectified)

    def predict_batch(self, state: State, batch: Batch) -> Array:
        return shaping.head_class(state, batch.features)
