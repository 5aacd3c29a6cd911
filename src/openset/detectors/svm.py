"""PI-SVM and W-SVM: support vector machines calibrated by Weibull distributions."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _xp
from openset.detectors.base import Array, Batch, OfFeatures, State, Training
from openset.detectors.constraints import POSITIVE, Number, option
from openset.detectors.distances import (
    centred,
    in_blocks,
    need_two_classes,
    squared_distances,
)
from openset.detectors.evt import (
    exp,
    fit_weibull_rows,
    log_exponent,
    log_weibull_cdf,
    weibull_cdf,
)

Floats = NDArray[np.float64]

# Samples on the margin all score 1 up to the solver's tolerance; a distribution fitted
# to them must not be steeper than the tolerance allows.
_TOLERANCE = 1e-6
_STEEPEST = 1e3


class PISVM(OfFeatures):
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
    >>> from openset import Outputs
    >>> f = [[0.0], [0.5], [1.0], [9.0], [9.5], [10.0]]
    >>> train = Outputs(features=f, labels=[0, 0, 0, 1, 1, 1])
    >>> new = Outputs(features=[[0.4], [9.6], [99.0]], labels=[0, 1, -1])
    >>> scores = PISVM().fit(train).score(new)
    >>> scores.known[:2] > scores.known[2], scores.predicted[:2]
    (array([ True,  True]), array([0, 1]))
    """

    costs = ("C n^2 d", "n_sv (d + C)")
    paper = "Jain et al. 2014"
    score_scale = "log(-log(1 - p))"
    # In float64: the distributions are steep, and float32 kernels would leave them four
    # digits.
    casts_state = False

    cost: float = option(1.0, POSITIVE)
    gamma: float | None = option(None, Number(low=0, open_low=True, or_none=True))
    tail: int | None = option(None, Number(low=1, integer=True, or_none=True))
    translate: float = option(1.0, POSITIVE)

    def fit_state(self, train: Training) -> dict[str, Any]:
        state, machines = self._machines(train)
        return {**state, "inclusion": self._laws(machines)}

    def _machines(self, train: Training, nu: float | None = None) -> tuple[Any, ...]:
        """Fit a one-vs-rest SVM per class and, with `nu`, a one-class SVM each.

        Return them as arrays, the class of each training sample, the scores of these
        (a column for each machine), and which of them are support vectors of each.
        """
        from sklearn import svm  # noqa: PLC0415  # it takes half a second

        why = "Each SVM separates a class from the others"
        need_two_classes(type(self).__name__, train, why)
        centre, rows = centred(train)
        rows = rows.astype(float)
        classes, owner = np.unique(train.labels, return_inverse=True)
        gamma = self.gamma or 1 / (float(rows.var(axis=0).sum()) or 1.0)
        options = {"kernel": "rbf", "gamma": gamma, "tol": _TOLERANCE}
        numbers: Any = range(classes.size)
        machines = [svm.SVC(C=self.cost, **options) for _ in numbers]
        support = [machines[c].fit(rows, owner == c).support_ for c in numbers]
        for c in numbers if nu is not None else ():
            own = np.flatnonzero(owner == c)
            machines.append(svm.OneClassSVM(nu=nu, **options).fit(rows[own]))
            support.append(own[machines[-1].support_])
        dual = np.zeros((len(rows), len(machines)))
        for column, (used, machine) in enumerate(zip(support, machines, strict=True)):
            dual[used, column] = machine.dual_coef_[0]
        used = np.unique(np.concatenate(support))
        state = {
            "centre": centre,
            "vectors": rows[used],
            "dual": dual[used],
            "intercept": np.array([machine.intercept_[0] for machine in machines]),
            "gamma": np.array(gamma),
            "classes": classes,
        }
        return state, (owner, _decisions(state, Batch(train)), support)

    def _laws(self, machines: Any, *, first: int = 0, sign: int = 1) -> Floats:
        """Fit a Weibull distribution to the scores per class nearest the boundary.

        The machine of class 0 is the `first`. Nearest are the smallest scores of the
        class itself for ``sign = 1`` and the largest of the others for -1; the most
        extreme one is moved to `translate`. Return shape, scale and location, shape
        (3, C).
        """
        owner, scores, support = machines
        n_classes, tails = int(owner.max()) + 1, []
        for c in range(n_classes):
            is_near = (owner == c) == (sign == 1)
            n_support = int(np.count_nonzero(is_near[support[first + c]]))
            values = np.sort(sign * scores[is_near, first + c])
            n_near = 1 if sign == 1 else n_classes - 1
            size = _tail_size(self.tail, n_support, values.size, n_near)
            tails.append(values[:size])
        lengths = np.array([[tail.size] for tail in tails])
        is_member = np.arange(lengths.max()) < lengths
        z = np.ones(is_member.shape)
        z[is_member] = np.concatenate([t - t[0] + self.translate for t in tails])
        shape = np.minimum(fit_weibull_rows(z, is_member=is_member)[0], _STEEPEST)
        # The best scale for this shape (the fitted one, unless the shape was limited).
        top = np.max(z, axis=1, where=is_member, initial=0.0)
        powers = np.where(is_member, (z / top[:, None]) ** shape[:, None], 0.0)
        scale = top * (powers.sum(axis=1) / lengths[:, 0]) ** (1 / shape)
        loc = sign * (np.array([tail[0] for tail in tails]) - self.translate)
        return np.stack([shape, scale, loc])

    def _scored(self, state: State, batch: Batch) -> tuple[Array, Array]:
        """Return the score of each class, and its decision value."""
        decided = _decisions(state, batch)
        return log_exponent(decided, *_law(state, "inclusion")), decided

    def judge_batch(self, state: State, batch: Batch) -> tuple[Array, Array]:
        scores, decided = self._scored(state, batch)
        xp = _xp.array_namespace(scores)
        best = xp.max(scores, axis=1)
        of_scores, of_decided = (xp.argmax(one, axis=1) for one in (scores, decided))
        # The class of the best score; where all are -inf, of the largest decision.
        chosen = xp.where(best == -math.inf, of_decided, of_scores)
        return best, xp.take(state["classes"], chosen, axis=0)

    def probability_batch(self, state: State, batch: Batch) -> Array:
        return weibull_cdf(self.score_batch(state, batch))


class WSVM(PISVM):
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
    >>> from openset import Outputs
    >>> f = [[0.0], [0.5], [1.0], [9.0], [9.5], [10.0]]
    >>> train = Outputs(features=f, labels=[0, 0, 0, 1, 1, 1])
    >>> new = Outputs(features=[[0.4], [9.6], [99.0]], labels=[0, 1, -1])
    >>> scores = WSVM().fit(train).score(new)
    >>> scores.known[:2] > scores.known[2], scores.predicted[:2]
    (array([ True,  True]), array([0, 1]))
    """

    paper = "Scheirer et al. 2014"
    score_scale = "log-odds"

    nu: float = option(0.5, Number(low=0, high=1, open_low=True))
    gate: float = option(0.001, Number(low=0, high=1, open_high=True))

    def fit_state(self, train: Training) -> dict[str, Any]:
        state, machines = self._machines(train, self.nu)
        return {
            **state,
            "inclusion": self._laws(machines),
            "gate": self._laws(machines, first=state["classes"].size),
            "exclusion": self._laws(machines, sign=-1),
        }

    def _odds(self, state: State, batch: Batch) -> tuple[Array, Array, Array]:
        """Return gated log-odds and log-probabilities, and decision values."""
        both = _decisions(state, batch)
        xp = _xp.array_namespace(both)
        n_classes = state["classes"].shape[0]
        decided, alone = both[:, :n_classes], both[:, n_classes:]
        own = log_exponent(decided, *_law(state, "inclusion"))
        others = log_exponent(decided, *_law(state, "exclusion"), sign=-1)
        log_own = log_weibull_cdf(own)
        log_p = log_own - exp(others)
        # 1 - (1 - A)(1 - B) = A + B (1 - A), all terms positive
        log_rest = xp.logaddexp(-exp(own), log_weibull_cdf(others) + log_own)
        admitted = weibull_cdf(log_exponent(alone, *_law(state, "gate"))) > self.gate
        nothing = xp.full_like(log_p, -math.inf)
        odds = xp.where(admitted, log_p - log_rest, nothing)
        return odds, xp.where(admitted, log_p, nothing), decided

    def _scored(self, state: State, batch: Batch) -> tuple[Array, Array]:
        odds, _, decided = self._odds(state, batch)
        return odds, decided

    def probability_batch(self, state: State, batch: Batch) -> Array:
        _, logs, _ = self._odds(state, batch)
        xp = _xp.array_namespace(logs)
        return xp.exp(xp.max(logs, axis=1))


def _decisions(state: State, batch: Batch) -> Array:
    """Return the decision value of every SVM, shape (n, number of SVMs)."""
    xp = _xp.array_namespace(batch.features)
    rows = batch.features - xp.astype(state["centre"], batch.features.dtype)
    vectors, gamma = state["vectors"], float(state["gamma"])

    def decided(rows: Array) -> Array:
        kernel = xp.exp(-gamma * squared_distances(rows, vectors))
        return state["intercept"][None, :] + kernel @ state["dual"]

    return in_blocks(decided, xp.astype(rows, xp.float64, copy=False), vectors)


def _law(state: State, name: str) -> tuple[Array, Array, Array]:
    shape, scale, loc = (state[name][i, :][None, :] for i in range(3))
    return shape, scale, loc


def _tail_size(
    tail: int | None, n_support: int, n_samples: int, n_classes: int = 1
) -> int:
    """Return the size of a tail: as given, or 1.5 times the support vectors of a class.

    As in the released code: the number of support vectors if that is too large or too
    small.
    """
    if tail is not None:
        return tail
    size = int(1.5 * n_support / n_classes)
    if size >= n_samples:
        size = n_support // n_classes
    return max(n_support if size <= 3 else size, 1)
