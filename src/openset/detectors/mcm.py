"""Maximum concept matching: MSP on the cosines of a zero-shot classifier."""

from dataclasses import dataclass

from openset._types import Array
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.detectors.constraints import POSITIVE


@dataclass(frozen=True, kw_only=True)
class MCM(Detector):
    r"""Probability of the predicted class from cosines of image and text.

    .. math:: p(x) = \max_c \operatorname{softmax}(\cos(x, t_c) / \tau)_c, \qquad
              s(x) = \log \frac{p}{1 - p}

    where :math:`t_c` is the text of class c. The logits of a zero-shot classifier
    (``openset.extract``) are `scale` times the cosines, so this is
    :class:`MSP` with the temperature ``scale * temperature``. It needs no fitting.

    Parameters
    ----------
    temperature
        τ, which the cosines are divided by. The paper uses 1; with 1 / `scale` the
        score is MSP's on the logits as they are.
    score_scale
        What the cosines were multiplied by to give the logits: 100 in the published
        CLIP models. For others ``openset extract`` shows it.

    References
    ----------
    Ming et al., "Delving into out-of-distribution detection with vision-language
    representations", NeurIPS 2022.

    Examples
    --------
    Cosines of 0.3 and 0.2: the log-odds of two classes are the difference.

    >>> from openset import Outputs
    >>> outputs = Outputs(logits=[[30.0, 20.0]], labels=[0])
    >>> MCM().fit().score(outputs).known
    array([0.1])
    """

    name = "mcm"
    score_needs = ("logits",)
    score_cost = "C"
    paper = "Ming et al. 2022"
    score_scale = "log-odds"
    constraints = {"temperature": POSITIVE, "scale": POSITIVE}

    temperature: float = 1.0
    scale: float = 100.0

    def _score(self, state: State, batch: Batch) -> Array:
        return -batch.tempered(self.scale * self.temperature).log_other_mass

    def _probability(self, state: State, batch: Batch) -> Array:
        return 1 / (1 + batch.tempered(self.scale * self.temperature).other_mass)
