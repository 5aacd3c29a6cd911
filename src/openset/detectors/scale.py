"""Scaled activations."""

from dataclasses import dataclass

from openset import _xp
from openset._types import Array
from openset.detectors import shaping
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.detectors.constraints import Boolean, Number
from openset.outputs import Outputs

# If biases differ by more, float32 cannot represent both exponentials.
_MAX_BIAS_RANGE = 80.0


@dataclass(frozen=True, kw_only=True)
class SCALE(Detector):
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

    >>> outputs = Outputs(logits=[[4.0]], features=[[3.0, 1.0]], labels=[0],
    ...                   weight=[[1.0, 1.0]], bias=[0.0])
    >>> SCALE(percentile=50).fit(outputs).score(outputs).known.round(3)  # 4 exp(4/3)
    array([15.175])
    """

    name = "scale"
    fit_needs = ("head",)
    score_needs = ("logits", "features")
    score_cost = "C + d"
    paper = "Xu et al. 2024"
    score_scale = "energy"
    casts_state = True
    constraints = {
        "percentile": Number(low=0, high=100, open_high=True),
        "relu": Boolean(),
    }

    percentile: float = 85.0
    relu: bool = False

    def fit_state(self, train: Outputs) -> State:
        return {"bias": shaping.head("SCALE", train)["bias"]}

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)
        features = batch.features
        if self.relu:
            features = xp.maximum(features, xp.zeros_like(features[:1, :]))
        k = shaping.n_kept(features.shape[1], self.percentile)
        scale = shaping.expansion("SCALE", features, k, batch.numbers)

        bias, highest = state["bias"], xp.max(state["bias"])
        if _xp.is_traced(bias) or float(highest - xp.min(bias)) > _MAX_BIAS_RANGE:

            def stretched(logits: Array, scale: Array) -> Array:
                return _xp.logsumexp((logits - bias) * scale[:, None] + bias)

            return _xp.by_rows(stretched, batch.logits, scale)

        # The sum of exp(r (z - b) + b) is a product with exp(b), which saves a pass
        # over the logits. Both exponents are shifted to at most 0.
        mass = xp.exp(bias - highest)

        def energy(logits: Array, scale: Array) -> Array:
            away = logits - bias
            top = xp.max(away, axis=1)
            top = xp.where(top < xp.inf, top, xp.zeros_like(top))  # inf - inf is NaN
            away -= top[:, None]
            away *= scale[:, None]
            return scale * top + highest + _xp.log(_xp.exp_own(away) @ mass)

        return _xp.by_rows(energy, batch.logits, scale)
