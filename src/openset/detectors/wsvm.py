"""W-SVM: Weibull-calibrated SVMs, gated by one-class SVMs."""

import math
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
    log_cdf,
    negative_tail,
    positive_tail,
)
from openset.detectors._weibull import exp, log_exponent, weibull_cdf
from openset.detectors.constraints import POSITIVE, Integer, Number, Optional
from openset.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class WSVM(Detector):
    r"""Calibrated probability of the best class that its one-class SVM accepts.

    .. math:: P_c = \underbrace{\bigl(1 - e^{-((f_c - \nu)/\lambda)^\kappa}\bigr)}_{
              P_\eta:\ \text{own samples}} \cdot
              \underbrace{e^{-((\nu' - f_c)/\lambda')^{\kappa'}}}_{
              P_\psi:\ \text{other samples}}, \qquad
              s(x) = \max_{c:\, P_{O,c}(x) > \delta} \log \frac{P_c}{1 - P_c}

    :math:`f_c` is the decision value of an SVM with RBF kernel, class c against the
    rest. :math:`P_\eta` is a Weibull distribution of the lowest scores of the class's
    own training samples, :math:`P_\psi` a reversed one of the highest scores of the
    others, :math:`P_{O,c}` a distribution like :math:`P_\eta` for a one-class SVM. The
    log-odds rank samples as :math:`P_c` does, which :meth:`Fitted.probability` returns.
    Samples that no class accepts have s = -inf: they are rejected at every threshold.
    The class is that of the maximum; if no class accepts, that of the largest
    :math:`f_c`.

    Parameters
    ----------
    cost
        Cost parameter of the one-vs-rest SVMs (scikit-learn's C).
    nu
        Parameter of the one-class SVMs, in (0, 1].
    gamma
        Parameter of the kernel :math:`e^{-\gamma \lVert x - y \rVert^2}`; None: one
        over the variance of the features (summed over columns).
    gate
        The :math:`\delta` above; 0 accepts every positive probability.
    tail
        Number of scores in each tail; None: 1.5 times the support vectors on that side
        (of the other classes: divided by their number), as in the authors' code.
    translate
        Distance of the location of each distribution beyond the most extreme score, in
        units of the decision value (the margin is 1).

    References
    ----------
    Scheirer, Jain and Boult, "Probability models for open set recognition", TPAMI
    36(11), 2014.

    Examples
    --------
    >>> f = [[0.0], [0.5], [1.0], [9.0], [9.5], [10.0]]
    >>> train = Outputs(features=f, labels=[0, 0, 0, 1, 1, 1])
    >>> new = Outputs(features=[[0.4], [9.6], [99.0]], labels=[0, 1, -1])
    >>> scores = WSVM().fit(train).score(new)
    >>> scores.known[:2] > scores.known[2], scores.predicted[:2]
    (array([ True,  True]), array([0, 1]))
    """

    name = "wsvm"
    fit_needs = ("features", "labels")
    score_needs = ("features",)
    fit_cost = "C n^2 d"
    score_cost = "n_sv (d + C)"
    paper = "Scheirer et al. 2014"
    score_scale = "log-odds"
    constraints = {
        "cost": POSITIVE,
        "nu": Number(low=0, high=1, open_low=True),
        "gamma": Optional(POSITIVE),
        "gate": Number(low=0, high=1, open_high=True),
        "tail": Optional(Integer(low=1)),
        "translate": POSITIVE,
    }

    cost: float = 1.0
    nu: float = 0.5
    gamma: float | None = None
    gate: float = 0.001
    tail: int | None = None
    translate: float = 1.0

    def fit_state(self, train: Outputs) -> State:
        machines = fit_machines(
            "WSVM", train, cost=self.cost, gamma=self.gamma, nu=self.nu
        )
        n_classes = machines.classes.size
        own, others, alone = [], [], []
        own_size, others_size, alone_size = [], [], []
        for place in range(n_classes):
            is_own = machines.owner == place
            own.append(machines.scores[is_own, place])
            others.append(machines.scores[~is_own, place])
            alone.append(machines.scores[is_own, n_classes + place])
            supports_own = is_own[machines.support[place]]
            n_own = int(np.count_nonzero(supports_own))
            n_others = supports_own.size - n_own
            n_alone = machines.support[n_classes + place].size
            own_size.append(positive_tail(self.tail, n_own, own[-1].size))
            others_size.append(
                negative_tail(self.tail, n_others, others[-1].size, n_classes - 1)
            )
            alone_size.append(positive_tail(self.tail, n_alone, own[-1].size))
        tails = {
            "inclusion": (own, own_size, 1),
            "exclusion": (others, others_size, -1),
            "gate": (alone, alone_size, 1),
        }
        arrays = dict(machines.arrays)
        for name, (values, sizes, sign) in tails.items():
            laws = fit_tails(values, sizes, translate=self.translate, sign=sign)
            arrays.update(laws.arrays(name))
        return {name: _xp.moved(a, train.features) for name, a in arrays.items()}

    def _odds(self, state: State, batch: Batch) -> tuple[Array, Array, Array]:
        """Return gated log-odds and log-probabilities, and decision values."""
        both = decisions(state, batch)
        xp = _xp.array_namespace(both)
        n_classes = state["classes"].shape[0]
        decided, alone = both[:, :n_classes], both[:, n_classes:]
        own = log_exponent(decided, *_law(state, "inclusion"))
        others = log_exponent(decided, *_law(state, "exclusion"), sign=-1)
        log_p = log_cdf(own) - exp(others)
        # 1 - (1 - A)(1 - B) = A + B (1 - A), all terms positive
        log_rest = xp.logaddexp(-exp(own), log_cdf(others) + log_cdf(own))
        admitted = weibull_cdf(log_exponent(alone, *_law(state, "gate"))) > self.gate
        nothing = xp.full_like(log_p, -math.inf)
        odds = xp.where(admitted, log_p - log_rest, nothing)
        return odds, xp.where(admitted, log_p, nothing), decided

    def score_batch(self, state: State, batch: Batch) -> Array:
        odds, _, _ = self._odds(state, batch)
        return _xp.array_namespace(odds).max(odds, axis=1)

    def probability_batch(self, state: State, batch: Batch) -> Array:
        _, logs, _ = self._odds(state, batch)
        xp = _xp.array_namespace(logs)
        return xp.exp(xp.max(logs, axis=1))

    def predict_batch(self, state: State, batch: Batch) -> Array:
        odds, _, decided = self._odds(state, batch)
        return best_or_nearest(odds, decided, state["classes"])


def _law(state: State, name: str) -> tuple[Array, Array, Array]:
    shape, scale, loc = (state[name][i, :][None, :] for i in range(3))
    return shape, scale, loc
