"""Detectors that change features, logits or the last layer, and take the energy."""

from typing import Any, ClassVar

import numpy as np

from openset import _check, _xp
from openset.detectors.base import Array, Batch, Detector, State, Training
from openset.detectors.batch import draw, fit_batches
from openset.detectors.constraints import FLAG, PERCENT, Number, OneOf, option
from openset.detectors.scaling import (
    NOT_NEGATIVE,
    class_by_head,
    expansion,
    head,
    n_kept,
)

_MOST_NUMBERS = 1 << 24  # of more features, a percentile is that of random rows


class _Shaped(Detector):
    """Energy of the logits that the last layer gives to changed features."""

    fit_needs: ClassVar[tuple[str, ...]] = ("features", "head")
    score_needs = ("features",)
    costs = ("n d", "C d")
    score_scale = "energy"

    def fit_state(self, train: Training) -> dict[str, Any]:
        return head(train)

    def _changed(self, state: State, features: Array) -> Array:
        return features

    def score_batch(self, state: State, batch: Batch) -> Array:
        def energy(rows: Array) -> Array:
            logits = self._changed(state, rows) @ state["weight"].T + state["bias"]
            return _xp.logsumexp(logits)

        # A block of rows at a time: the changed features stay in the cache.
        return _xp.by_rows(energy, batch.features)

    def predict_batch(self, state: State, batch: Batch) -> Array | None:
        return class_by_head(state, batch)


class ReAct(_Shaped):
    r"""Energy after clipping large activations.

    .. math:: s(x) = \log \sum_c \exp\bigl(w_c^\top \min(f, \kappa) + b_c\bigr)

    where :math:`\kappa` is a percentile of *all* numbers in the training features (if
    there are more than 16 million, of random rows with as many). The predicted class is
    that of the original features.

    Parameters
    ----------
    percentile
        Percentile of the activations to clip at, in [0, 100].

    References
    ----------
    Sun, Guo and Li, "ReAct: Out-of-distribution detection with rectified activations",
    NeurIPS 2021.

    Examples
    --------
    The median activation is 1, so the 5 counts as 1.

    >>> from openset import Outputs
    >>> head = {"weight": [[1.0, 1.0, 1.0]], "bias": [0.5]}
    >>> train = Outputs(features=[[0.0, 1.0, 2.0]], **head)
    >>> test = Outputs(features=[[5.0, 0.0, 1.0]], labels=[-1])
    >>> ReAct(percentile=50).fit(train).score(test).known
    array([2.5])
    """

    paper = "Sun et al. 2021"

    percentile: float = option(90.0, Number(low=0, high=100))

    def fit_state(self, train: Training) -> dict[str, Any]:
        return {"clip": np.percentile(_some(train), self.percentile), **head(train)}

    def _changed(self, state: State, features: Array) -> Array:
        return _xp.array_namespace(features).minimum(features, state["clip"])


class VRA(_Shaped):
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

    References
    ----------
    Xu et al., "VRA: Variational rectified activation for out-of-distribution
    detection", NeurIPS 2023.

    Examples
    --------
    Percentiles of the numbers 0 to 4 are 1 and 3: of (5, 2, 0.5), 3 + 2 + 0 remain.

    >>> from openset import Outputs
    >>> head = {"weight": [[1.0, 1.0, 1.0]], "bias": [0.5]}
    >>> train = Outputs(features=[[0.0, 1.0, 2.0], [3.0, 4.0, 2.0]], **head)
    >>> test = Outputs(features=[[5.0, 2.0, 0.5]], labels=[-1])
    >>> VRA(low=20, high=80).fit(train).score(test).known
    array([5.5])
    """

    paper = "Xu et al. 2023"

    low: float = option(60.0, Number(low=0, high=100))
    high: float = option(95.0, Number(low=0, high=100))
    below: str = option("zero", OneOf("zero", "clip"))

    def __post_init__(self) -> None:
        """Check the parameters, and that the percentiles are in order."""
        super().__post_init__()
        if self.low > self.high:
            _check.fail("VRA", "low", f"at most high, {self.high:g}", self.low)

    def fit_state(self, train: Training) -> dict[str, Any]:
        # Of float64 numbers, NumPy interpolates in float64.
        ends = np.percentile(_some(train), np.array([self.low, self.high]))
        return {"low": ends[:1], "high": ends[1:], **head(train)}

    def _changed(self, state: State, features: Array) -> Array:
        xp = _xp.array_namespace(features)
        kept, low = xp.minimum(features, state["high"]), state["low"]
        if self.below == "clip":
            return xp.maximum(kept, low)
        return xp.where(features < low, 0.0, kept)


def _some(train: Training) -> Any:
    """Return the training features; of many, those of random rows."""
    n, width = train.features.shape
    return Batch(train, draw(n, max(1, _MOST_NUMBERS // width), seed=0)).features


class ASH(_Shaped):
    r"""Energy after keeping only the largest features.

    .. math:: s(x) = \log \sum_c \exp\bigl(w_c^\top f' + b_c\bigr)

    The k largest features are kept, :math:`k = d - \operatorname{round}(d\,p/100)`
    (halves to even, at least 1; of equal ones those with the lower index), and become,
    with :math:`s_1 = \sum_i f_i` and :math:`s_2` the sum of the kept ones,

    - ``"p"`` (prune): themselves;
    - ``"s"`` (scale): themselves times :math:`\exp(s_1 / s_2)`;
    - ``"b"`` (binarise): all :math:`s_1 / k`.

    As in :class:`SCALE`, ``"s"`` raises for samples whose kept features do not have a
    positive sum, except zero vectors, which stay zero. The predicted class is that of
    the original features.

    Parameters
    ----------
    variant
        ``"s"``, ``"p"`` or ``"b"``. The paper uses about 90 % for s, 65 % for b.
    percentile
        p, the percentage of features set to zero, in [0, 100).
    relu
        Set negative features to zero first.

    References
    ----------
    Djurisic et al., "Extremely simple activation shaping for out-of-distribution
    detection", ICLR 2023.

    Examples
    --------
    Of (3, 1) only the 3 survives; the only logit is the sum of the features.

    >>> from openset import Outputs
    >>> outputs = Outputs(features=[[3.0, 1.0]], labels=[0], weight=[[1.0, 1.0]],
    ...                   bias=[0.0])
    >>> ASH(variant="p", percentile=50).fit(outputs).score(outputs).known
    array([3.])
    >>> ASH(variant="b", percentile=50).fit(outputs).score(outputs).known
    array([4.])
    >>> ASH(variant="s", percentile=50).fit(outputs).score(outputs).known.round(3)
    array([11.381])
    """

    fit_needs = ("head",)
    costs = ("-", "C d")
    paper = "Djurisic et al. 2023"
    undefined = NOT_NEGATIVE

    variant: str = option("s", OneOf("s", "p", "b"))
    percentile: float = option(90.0, PERCENT)
    relu: bool = option(default=False, rule=FLAG)

    def _changed(self, state: State, features: Array) -> Array:
        xp = _xp.array_namespace(features)
        if self.relu:
            features = xp.clip(features, min=0.0)
        k = n_kept(features.shape[1], self.percentile)
        top = _xp.top_values(features, k)
        least = xp.min(top, axis=1)[:, None]
        is_above, is_tied = features > least, features == least
        left = k - xp.count_nonzero(is_above, axis=1)
        # After a ReLU hundreds of zeros may tie: take them from the left.
        rank = xp.cumulative_sum(xp.astype(is_tied, xp.int64), axis=1)
        is_kept = is_above | (is_tied & (rank <= left[:, None]))
        if self.variant == "b":
            mean = xp.sum(features, axis=1)[:, None] / k
            return xp.where(is_kept, mean, xp.zeros_like(features))
        kept = xp.where(is_kept, features, xp.zeros_like(features))
        if self.variant == "p":
            return kept
        return kept * expansion(features, xp.sum(top, axis=1))[:, None]


class DICE(_Shaped):
    r"""Energy of the logits, computed with the weights that contribute most.

    .. math:: s(x) = \log \sum_c \exp\Bigl(\sum_j M_{cj} w_{cj} f_j + b_c\Bigr), \qquad
              M_{cj} = [w_{cj} \mu_j > \kappa]

    where :math:`\mu` is the mean training feature and :math:`\kappa` a percentile of
    all contributions :math:`w_{cj} \mu_j`. At percentile 0 all weights are kept, and s
    is the energy.

    Parameters
    ----------
    percentile
        Percentage of the weights set to zero, in [0, 100). The paper uses 90 for CIFAR
        and 70 for ImageNet.

    References
    ----------
    Sun and Li, "DICE: Leveraging sparsification for out-of-distribution detection",
    ECCV 2022.

    Examples
    --------
    The mean feature is (1, 2): contributions are 3 and 2, and only the first weight is
    kept.

    >>> from openset import Outputs
    >>> head = {"weight": [[3.0, 1.0]], "bias": [0.5]}
    >>> train = Outputs(features=[[1.0, 2.0]], **head)
    >>> test = Outputs(logits=[[7.5]], features=[[2.0, 1.0]], labels=[0])
    >>> DICE(percentile=50).fit(train).score(test).known
    array([6.5])
    """

    costs = ("n d + C d", "C d")
    paper = "Sun & Li 2022"

    percentile: float = option(90.0, PERCENT)

    def fit_state(self, train: Training) -> dict[str, Any]:
        state = head(train)
        if self.percentile > 0:
            contribution = state["weight"].astype(float) * mean_feature(train)
            cut = np.percentile(contribution, self.percentile)
            state["weight"][contribution <= cut] = 0
        return state

    # The weights are no longer those of the last layer.
    predict_batch = Detector.predict_batch


def mean_feature(train: Training) -> Any:
    """Return the mean feature vector, in float64."""
    # A product with ones takes half the time of `sum`.
    sums = (np.ones(len(b)) @ b.features.astype(float) for b in fit_batches(train))
    return sum(sums) / len(train)
