"""Free energy of the logits."""

from dataclasses import dataclass

from openset._types import Array
from openset.detectors._base import Detector
from openset.detectors._batch import Batch, State
from openset.detectors.constraints import POSITIVE


@dataclass(frozen=True, kw_only=True)
class Energy(Detector):
    r"""Log-sum-exp of the logits: a smooth maximum.

    .. math:: s(x) = T \log \sum_c e^{z_c / T}

    The paper's energy is -s. With one class, s is the logit.

    Parameters
    ----------
    temperature
        T, which the logits are divided by. The smaller T, the closer s is to the
        largest logit.

    References
    ----------
    Liu et al., "Energy-based out-of-distribution detection", NeurIPS 2020.

    Examples
    --------
    Two equal logits: one of them plus log 2.

    >>> from openset import Outputs
    >>> outputs = Outputs(logits=[[2.0, 2.0]], labels=[0])
    >>> Energy().fit(outputs).score(outputs).known.round(4)
    array([2.6931])
    """

    name = "energy"
    score_needs = ("logits",)
    score_cost = "C"
    paper = "Liu et al. 2020"
    constraints = {"temperature": POSITIVE}

    temperature: float = 1.0

    def _score(self, state: State, batch: Batch) -> Array:
        return self.temperature * batch.tempered(self.temperature).energy
