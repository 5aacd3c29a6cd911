"""Logit scaling."""

from dataclasses import dataclass

from openset import _xp
from openset._types import Array
from openset.detectors import shaping
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.detectors.constraints import Number


@dataclass(frozen=True, kw_only=True)
class LTS(Detector):
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

    name = "lts"
    score_needs = ("logits", "features")
    score_cost = "C + d"
    paper = "Djurisic et al. 2025"
    score_scale = "energy"
    constraints = {"percentile": Number(low=0, high=100, open_high=True)}

    percentile: float = 95.0

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)
        k = shaping.n_kept(batch.features.shape[1], self.percentile)

        def factor(features: Array) -> Array:
            positive = xp.maximum(features, xp.zeros_like(features[:1, :]))
            kept = xp.sum(_xp.top_values(positive, k), axis=1)
            is_some = kept > 0
            one = xp.ones_like(kept)
            ratio = xp.sum(positive, axis=1) / xp.where(is_some, kept, one)
            return xp.where(is_some, ratio, one) ** 2

        def energy(logits: Array, scale: Array) -> Array:
            return _xp.logsumexp(logits * scale[:, None])

        scale = _xp.by_rows(factor, batch.features)
        return _xp.by_rows(energy, batch.logits, scale)
