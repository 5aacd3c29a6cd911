"""Free energy of the logits."""

from dataclasses import dataclass

import numpy as np

from openset import _check, _xp
from openset._types import Array
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.detectors.constraints import POSITIVE
from openset.outputs import Outputs, leading_rows

_ROUNDING = 1e-2  # of log-probabilities in half precision


@dataclass(frozen=True, kw_only=True)
class Energy(Detector):
    r"""Log-sum-exp of the logits: a smooth maximum.

    .. math:: s(x) = T \log \sum_c e^{z_c / T}

    The paper's energy is -s. With one class, s is the logit. Logarithms of
    probabilities have s = 0 at T = 1, whatever the sample: they are refused.

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
    score_scale = "energy"
    constraints = {"temperature": POSITIVE}

    temperature: float = 1.0

    def refuse(self, outputs: Outputs) -> None:
        rows = leading_rows(outputs.logits)
        if rows is None or rows.shape[1] == 1 or self.temperature != 1:
            return
        if np.abs(_xp.logsumexp(rows)).max() <= _ROUNDING:
            msg = _check.must(
                "what goes into the softmax",
                caller="Energy.score",
                name="logits",
                got="log-probabilities, whose energy is 0 for every sample",
                remedy="Give such logits, or use MSP or MaxLogit",
            )
            raise ValueError(msg)

    def score_batch(self, state: State, batch: Batch) -> Array:
        return self.temperature * batch.tempered(self.temperature).energy
