"""Directed sparsification of the last layer."""

from dataclasses import dataclass

import numpy as np

from openset import _xp
from openset._types import Array
from openset.detectors import shaping
from openset.detectors._batch import Batch, State, in_dtype, working_dtype
from openset.detectors._detector import Detector
from openset.detectors._moments import mean_feature
from openset.detectors.constraints import Number
from openset.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class DICE(Detector):
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

    >>> head = {"weight": [[3.0, 1.0]], "bias": [0.5]}
    >>> train = Outputs(features=[[1.0, 2.0]], **head)
    >>> test = Outputs(logits=[[7.5]], features=[[2.0, 1.0]], labels=[0])
    >>> DICE(percentile=50).fit(train).score(test).known
    array([6.5])
    """

    name = "dice"
    fit_needs = ("features", "head")
    score_needs = ("features",)
    fit_cost = "n d + C d"
    score_cost = "C d"
    paper = "Sun & Li 2022"
    score_scale = "energy"
    casts_state = True
    constraints = {"percentile": Number(low=0, high=100, open_high=True)}

    percentile: float = 90.0

    def fit_state(self, train: Outputs) -> State:
        head = shaping.head("DICE", train)
        xp = _xp.array_namespace(head["weight"])
        weight = xp.astype(head["weight"], xp.float64)
        contribution = weight * mean_feature(train)[None, :]
        if self.percentile > 0:
            values = _xp.to_numpy(contribution).ravel()
            cut = float(np.percentile(values, self.percentile))
            weight = xp.where(contribution > cut, weight, xp.zeros_like(weight))
        state = {"weight": weight, "bias": head["bias"]}
        return in_dtype(state, working_dtype(train))

    def score_batch(self, state: State, batch: Batch) -> Array:
        return _xp.logsumexp(shaping.head_logits(state, batch.features))
