"""PI-SVM: probability of inclusion from one-vs-rest SVMs."""

from dataclasses import dataclass

import numpy as np

from openset import _xp
from openset._types import Array
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.detectors._svm import (
    best_or_nearest,
    decisions,
    fit_machines,
    fit_tails,
    positive_tail,
)
from openset.detectors._weibull import log_exponent, weibull_cdf
from openset.detectors.constraints import POSITIVE, Integer, Optional
from openset.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class PISVM(Detector):
    r"""Largest probability of inclusion, from the SVM of each class.

    .. math:: P_c(x) = 1 - e^{-((f_c(x) - \nu_c) / \lambda_c)^{\kappa_c}}, \qquad
              s(x) = \max_c \, \kappa_c \log \frac{f_c(x) - \nu_c}{\lambda_c}

    :math:`f_c` is the decision value of an SVM with RBF kernel, class c against the
    rest; the Weibull distribution is fitted to the lowest scores of the class's own
    training samples. Classes are assumed equally frequent. The score ranks samples as
    :math:`\max P_c` does, which :meth:`Fitted.probability` returns, but does not round
    to 1; it is -inf if all decision values are below :math:`\nu_c`. The class is that
    of the largest :math:`P_c`.

    Parameters
    ----------
    cost
        Cost parameter of the SVMs (scikit-learn's C).
    gamma
        Parameter of the kernel :math:`e^{-\gamma \lVert x - y \rVert^2}`; None: one
        over the variance of the features (summed over columns).
    tail
        Number of lowest scores; None: 1.5 times the support vectors of the class, as in
        the authors' code.
    translate
        Distance of :math:`\nu_c` below the lowest score, in units of the decision value
        (the margin is 1).

    References
    ----------
    Jain, Scheirer and Boult, "Multi-class open set recognition using probability of
    inclusion", ECCV 2014.

    Examples
    --------
    >>> f = [[0.0], [0.5], [1.0], [9.0], [9.5], [10.0]]
    >>> train = Outputs(features=f, labels=[0, 0, 0, 1, 1, 1])
    >>> new = Outputs(features=[[0.4], [9.6], [99.0]], labels=[0, 1, -1])
    >>> scores = PISVM().fit(train).score(new)
    >>> scores.known[:2] > scores.known[2], scores.predicted[:2]
    (array([ True,  True]), array([0, 1]))
    """

    name = "pisvm"
    fit_needs = ("features", "labels")
    score_needs = ("features",)
    fit_cost = "C n^2 d"
    score_cost = "n_sv (d + C)"
    paper = "Jain et al. 2014"
    score_scale = "log(-log(1 - p))"
    constraints = {
        "cost": POSITIVE,
        "gamma": Optional(POSITIVE),
        "tail": Optional(Integer(low=1)),
        "translate": POSITIVE,
    }

    cost: float = 1.0
    gamma: float | None = None
    tail: int | None = None
    translate: float = 1.0

    def fit_state(self, train: Outputs) -> State:
        machines = fit_machines(
            "PISVM", train, cost=self.cost, gamma=self.gamma, nu=None
        )
        values, sizes = [], []
        for place in range(machines.classes.size):
            is_own = machines.owner == place
            values.append(machines.scores[is_own, place])
            n_support = int(np.count_nonzero(is_own[machines.support[place]]))
            sizes.append(positive_tail(self.tail, n_support, values[-1].size))
        laws = fit_tails(values, sizes, translate=self.translate, sign=1)
        arrays = {**machines.arrays, **laws.arrays("inclusion")}
        return {name: _xp.moved(a, train.features) for name, a in arrays.items()}

    def _exponents(self, state: State, batch: Batch) -> tuple[Array, Array]:
        decided = decisions(state, batch)
        shape, scale, loc = (state["inclusion"][i, :][None, :] for i in range(3))
        return log_exponent(decided, shape, scale, loc), decided

    def score_batch(self, state: State, batch: Batch) -> Array:
        exponents, _ = self._exponents(state, batch)
        return _xp.array_namespace(exponents).max(exponents, axis=1)

    def probability_batch(self, state: State, batch: Batch) -> Array:
        return weibull_cdf(self.score_batch(state, batch))

    def predict_batch(self, state: State, batch: Batch) -> Array:
        return best_or_nearest(*self._exponents(state, batch), state["classes"])
