"""Largest logit."""

from dataclasses import dataclass

from openset._types import Array
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector


@dataclass(frozen=True, kw_only=True)
class MaxLogit(Detector):
    r"""Logit of the predicted class.

    .. math:: s(x) = \max_c z_c

    It has no hyper-parameters. Adding a constant to all logits of a sample changes this
    score, but not the probabilities.

    References
    ----------
    Hendrycks et al., "Scaling out-of-distribution detection for real-world settings",
    ICML 2022.

    Examples
    --------
    >>> from openset import Outputs
    >>> outputs = Outputs(logits=[[2.0, 0.0], [1.0, 0.5]], labels=[0, -1])
    >>> MaxLogit().fit(outputs.take([0])).score(outputs).known
    array([2., 1.])
    """

    name = "maxlogit"
    score_needs = ("logits",)
    score_cost = "C"
    paper = "Hendrycks et al. 2022"
    score_scale = "logit"

    def score_batch(self, state: State, batch: Batch) -> Array:
        return batch.top_logit
