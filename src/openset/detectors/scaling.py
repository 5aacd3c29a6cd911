"""Detectors that scale the logits by a factor computed from the features."""

import math
from typing import Any

import numpy as np

from openset import _xp
from openset.detectors.base import Array, Batch, Detector, State, Training
from openset.detectors.constraints import FLAG, PERCENT, option

NOT_NEGATIVE = (
    "Features must be non-negative, as after a ReLU: negative entries (as after "
    "LayerNorm) need relu=True; and a few of them must not be far smaller than their "
    "sum: lower percentile"
)


class _Scaled(Detector):
    """Energy of logits that are scaled, but for a bias, by a factor of the features."""

    score_needs = ("logits", "features")
    costs = ("-", "C + d")
    score_scale = "energy"

    def _factor(self, features: Array) -> Array:
        raise NotImplementedError

    def score_batch(self, state: State, batch: Batch) -> Array:
        bias = state.get("bias")

        def energy(logits: Array, scale: Array) -> Array:
            if bias is None:
                return _xp.logsumexp(logits * scale[:, None])
            return _xp.logsumexp((logits - bias) * scale[:, None] + bias)

        scale = _xp.by_rows(self._factor, batch.features)
        return _xp.by_rows(energy, batch.logits, scale)


class SCALE(_Scaled):
    r"""Energy after scaling all features by a factor computed from their sums.

    .. math:: s(x) = \log \sum_c \exp\bigl(w_c^\top (r f) + b_c\bigr), \qquad
              r = \exp \frac{\sum_i f_i}{\sum_{i \in \text{top-}k} f_i}, \qquad
              k = d - \operatorname{round}(d\,p / 100)

    Scaling commutes with the last layer, :math:`W(r f) + b = r (z - b) + b`, so no
    second matrix product is needed; the logits must therefore be those of the given
    features and head. Halves are rounded to even, and k is at least 1.

    The ratio is meaningful only for non-negative features. A sample whose k largest
    features do not have a positive sum raises; a zero vector keeps its logits (r = 1).

    Parameters
    ----------
    percentile
        p, the percentage of features left out of the denominator, in [0, 100).
    relu
        Compute r from max(f, 0): for features with negative entries (LayerNorm). Only r
        changes, not the features themselves.

    References
    ----------
    Xu et al., "Scaling for training time and post-hoc out-of-distribution detection
    enhancement", ICLR 2024.

    Examples
    --------
    Of (3, 1) the larger half is 3: r = exp(4/3), and the only logit is 3 + 1.

    >>> from openset import Outputs
    >>> outputs = Outputs(logits=[[4.0]], features=[[3.0, 1.0]], labels=[0],
    ...                   weight=[[1.0, 1.0]], bias=[0.0])
    >>> SCALE(percentile=50).fit(outputs).score(outputs).known.round(3)  # 4 exp(4/3)
    array([15.175])
    """

    fit_needs = ("head",)
    paper = "Xu et al. 2024"
    undefined = NOT_NEGATIVE

    percentile: float = option(85.0, PERCENT)
    relu: bool = option(default=False, rule=FLAG)

    def fit_state(self, train: Training) -> dict[str, Any]:
        return {"bias": head(train)["bias"]}

    def _factor(self, features: Array) -> Array:
        xp = _xp.array_namespace(features)
        if self.relu:
            features = xp.clip(features, min=0.0)
        k = n_kept(features.shape[1], self.percentile)
        return expansion(features, xp.sum(_xp.top_values(features, k), axis=1))


class LTS(_Scaled):
    r"""Energy after scaling the logits by a factor computed from the features.

    .. math:: s(x) = \log \sum_c e^{r z_c}, \qquad
              r = \Bigl( \frac{\sum_i f^+_i}{\sum_{i \in \text{top-}k} f^+_i}
                  \Bigr)^2, \qquad
              k = d - \operatorname{round}(d\,p / 100), \qquad f^+ = \max(f, 0)

    Halves are rounded to even, and k is at least 1. The released code applies the ReLU,
    which the paper does not mention; it matters for features with negative entries
    only. A sample without positive features keeps its logits (r = 1). It needs no
    fitting.

    Parameters
    ----------
    percentile
        p, the percentage of features left out of the denominator, in [0, 100).

    References
    ----------
    Djurisic, Liu and Nikolic, "Logit scaling for out-of-distribution detection",
    Machine Vision and Applications 2025.

    Examples
    --------
    Of (3, 1) the larger half is 3: r = (4/3)^2, and the only logit is 9.

    >>> from openset import Outputs
    >>> outputs = Outputs(logits=[[9.0]], features=[[3.0, 1.0]], labels=[0])
    >>> LTS(percentile=50).fit(outputs).score(outputs).known.round(6)
    array([16.])
    """

    paper = "Djurisic et al. 2025"

    percentile: float = option(95.0, PERCENT)

    def _factor(self, features: Array) -> Array:
        xp = _xp.array_namespace(features)
        features = xp.clip(features, min=0.0)
        k = n_kept(features.shape[1], self.percentile)
        kept = xp.sum(_xp.top_values(features, k), axis=1)
        ratio = xp.sum(features, axis=1) / _xp.or_one(kept)
        return xp.where(kept == 0, 1.0, ratio) ** 2


def n_kept(width: int, percentile: float) -> int:
    """Return the number of largest entries to keep: at least one.

    ``width - round(width * percentile / 100)``, halves rounded to even.
    """
    return max(1, width - round(width * percentile / 100))


def expansion(features: Array, kept: Array) -> Array:
    """Return exp(sum of all entries / `kept`, the sum of the largest) of each row.

    A zero row gets 1; rows whose largest entries have no positive sum, and those whose
    exponential is beyond all floats, have none.
    """
    xp = _xp.array_namespace(features)
    total = xp.sum(features, axis=1)
    ratio = total / xp.where(kept > 0, kept, xp.nan)
    limit = math.log(xp.finfo(total.dtype).max)
    ratio = xp.where(ratio <= limit, ratio, xp.nan)
    return xp.exp(xp.where((kept == 0) & (total == 0), 0.0, ratio))


def class_by_head(state: State, batch: Batch) -> Array:
    """Return the class that the last layer gives to the features as they are."""
    logits = batch.features @ state["weight"].T + state["bias"]
    return _xp.array_namespace(logits).argmax(logits, axis=1)


def head(train: Training) -> dict[str, Any]:
    """Return copies of weight and bias of the last layer."""
    return {name: np.array(getattr(train, name)) for name in ("weight", "bias")}
