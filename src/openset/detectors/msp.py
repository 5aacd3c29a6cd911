"""Maximum softmax probability."""

from dataclasses import dataclass

from openset._types import Array
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.detectors.constraints import POSITIVE


@dataclass(frozen=True, kw_only=True)
class MSP(Detector):
    r"""Probability of the predicted class, ranked by its log-odds.

    .. math:: p(x) = \max_c \operatorname{softmax}(z / T)_c, \qquad
              s(x) = \log \frac{p}{1 - p}
                   = -\log \sum_{c \ne \hat c} e^{(z_c - z_{\hat c}) / T}

    The log-odds rank samples as the probability does, but do not saturate: in float32
    all probabilities above 1 - 6e-8 round to 1. With one class, s = inf.

    Parameters
    ----------
    temperature
        T, which the logits are divided by. ODIN uses 1000, on outputs of
        ``openset.train.extract(step=Odin())``.

    References
    ----------
    Hendrycks and Gimpel, "A baseline for detecting misclassified and
    out-of-distribution examples in neural networks", ICLR 2017.

    Examples
    --------
    >>> from openset import Outputs
    >>> outputs = Outputs(logits=[[2.0, 0.0], [1.0, 0.5]], labels=[0, -1])
    >>> MSP().fit(outputs.take([0])).score(outputs).known
    array([2. , 0.5])
    """

    name = "msp"
    score_needs = ("logits",)
    score_cost = "C"
    paper = "Hendrycks & Gimpel 2017"
    score_scale = "log-odds"
    constraints = {"temperature": POSITIVE}

    temperature: float = 1.0

    def score_batch(self, state: State, batch: Batch) -> Array:
        return -batch.tempered(self.temperature).log_other_mass

    def probability_batch(self, state: State, batch: Batch) -> Array:
        return 1 / (1 + batch.tempered(self.temperature).other_mass)
