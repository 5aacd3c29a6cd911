"""Mahalanobis distance to the nearest class."""

from dataclasses import dataclass

from openset import _xp
from openset._types import Array
from openset.detectors._batch import Batch, State, in_dtype, working_dtype
from openset.detectors._detector import Detector
from openset.detectors._moments import Moments, moments, whitener
from openset.detectors.constraints import Boolean, Number
from openset.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class Mahalanobis(Detector):
    r"""Minus the squared Mahalanobis distance to the nearest class mean.

    .. math:: s(x) = -\min_c\, (f - \mu_c)^\top \Sigma^{-1} (f - \mu_c), \qquad
              \Sigma = \frac1n \sum_i (f_i - \mu_{y_i})(f_i - \mu_{y_i})^\top

    Features are whitened once (:math:`\Sigma^{-1} = A A^\top` by an
    eigen-decomposition), then distances are a matrix product. Directions in which the
    training samples (almost) do not vary are left out, so a singular covariance is not
    an error, but features without any spread are. A class without samples is left out
    of the minimum. Without logits the predicted class is the nearest one.

    Parameters
    ----------
    normalize
        Scale features to length one first, in fitting and scoring: Mahalanobis++. A
        zero vector stays zero.
    cutoff
        Leave out directions whose variance is below this share of the largest.

    References
    ----------
    Lee et al., "A simple unified framework for detecting out-of-distribution samples
    and adversarial attacks", NeurIPS 2018; for `normalize`, Mueller and Hein,
    "Mahalanobis++", ICML 2025.

    Examples
    --------
    Two classes around 0 and 10, each with variance 1: 12 is two deviations away.

    >>> train = Outputs(features=[[-1.0], [1.0], [9.0], [11.0]], labels=[0, 0, 1, 1])
    >>> scores = Mahalanobis().fit(train).score(Outputs(features=[[12.0]], labels=[-1]))
    >>> scores.known, scores.predicted
    (array([-4.]), array([1]))
    """

    name = "mahalanobis"
    fit_needs = ("features", "labels")
    score_needs = ("features",)
    fit_cost = "n d^2 + d^3"
    score_cost = "d^2 + C d"
    paper = "Lee et al. 2018; Mueller & Hein 2025"
    score_scale = "-distance^2"
    casts_state = True
    constraints = {
        "normalize": Boolean(),
        "cutoff": Number(low=0, high=1, open_high=True),
    }

    normalize: bool = False
    cutoff: float = 1e-12

    def fit_state(self, train: Outputs) -> State:
        state = self._state(moments(train, self._rows))
        return in_dtype(state, working_dtype(train))

    def _state(self, found: Moments) -> State:
        caller = type(self).__name__
        whiten = whitener(caller, found.within, found.mean, self.cutoff)
        return {
            # Distances do not change under translation; numbers near 0 are more
            # precise.
            "origin": found.mean,
            "whiten": whiten,
            "means": (found.means - found.mean[None, :]) @ whiten,
            "classes": _xp.moved(found.classes, found.mean),
        }

    def _rows(self, batch: Batch) -> Array:
        return batch.unit_features if self.normalize else batch.features

    def score_batch(self, state: State, batch: Batch) -> Array:
        return -nearest(state, batch, self._rows(batch))[1]

    def predict_batch(self, state: State, batch: Batch) -> Array:
        index = nearest(state, batch, self._rows(batch))[0]
        return _xp.array_namespace(index).take(state["classes"], index, axis=0)


def nearest(state: State, batch: Batch, rows: Array) -> tuple[Array, Array]:
    """Return the index of the nearest mean and its squared distance, once per batch."""
    means = state["means"]

    def make() -> tuple[Array, Array, Array]:
        xp = _xp.array_namespace(rows)
        white = (rows - state["origin"]) @ state["whiten"]
        # |y - m|^2 = |y|^2 + |m|^2 - 2 y m finds the nearest with one product; its
        # distance is then computed from the difference, which is precise.
        index = xp.argmin(xp.sum(means**2, axis=1) - 2 * (white @ means.T), axis=1)
        away = white - xp.take(means, index, axis=0)
        # The means are kept too: their id stays unique while they exist.
        return index, xp.sum(away**2, axis=1), means

    return batch.once((id(means), "nearest"), make)[:2]
