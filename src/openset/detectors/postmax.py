"""PostMax: the largest logit divided by the feature norm, as a tail probability."""

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from openset import _check, _xp
from openset.detectors.base import Array, Batch, Detector, State, Training
from openset.detectors.constraints import FLAG, OneOf, option
from openset.detectors.evt import GPD, MIN_SAMPLES, fit_gpd
from openset.detectors.fitted import Fitted


class PostMax(Detector):
    r"""Largest logit divided by the feature norm, and its generalised-Pareto cdf.

    .. math:: \ell(x) = \frac{\max_c z_c(x)}{\lVert f(x) \rVert}, \qquad
              p(x) = 1 - \Bigl(1 + \xi \frac{\ell - \mu}{\sigma}\Bigr)^{-1/\xi}

    where :math:`(\mu, \sigma, \xi)` are fitted to :math:`\ell` of the correctly
    classified training samples, by maximum likelihood. (The paper's algorithm calls
    SciPy, which often stops before the maximum. No decision depends on it.)

    The knownness is :math:`\ell` itself. The cdf is monotone, so it ranks samples in
    the same way, but with ties: it is 0 below every training sample, and 1 above the
    end point. :meth:`Fitted.probability` gives p, :meth:`Fitted.class_probabilities`
    the same law at each :math:`z_c / \lVert f \rVert` (they need not sum to one),
    :func:`law` the fitted distribution.

    A zero feature vector has :math:`\ell = -\infty` and p = 0; it is left out of the
    fit. If all logits are negative, :math:`\ell` is negative, and a longer feature
    *raises* it towards 0: this follows the published formula.

    Parameters
    ----------
    norm
        ``"l2"`` as published, ``"l1"``, or ``"none"`` for the largest logit itself.
    only_correct
        Fit to correctly classified samples only. Without labels, all are used.

    References
    ----------
    Cruz, Rabinowitz, Günther and Boult, "Operational open-set recognition and PostMax
    refinement", ECCV 2024.

    Examples
    --------
    A logit of 6 divided by a norm of 5 is 1.2; a zero feature vector gets -inf.

    >>> from openset import Outputs
    >>> z = [[2.0 + 0.1 * i, 0.0] for i in range(40)]
    >>> train = Outputs(logits=z, features=[[1.0, 0.0]] * 40, labels=[0] * 40)
    >>> fitted = PostMax().fit(train)
    >>> f = [[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]]
    >>> new = Outputs(logits=[[6.0, 1.0], [4.0, 1.0], [9.0, 1.0]], features=f)
    >>> fitted.known(new)
    array([ 1.2,  4. , -inf])
    >>> fitted.probability(new).round(2)
    array([0.  , 0.51, 0.  ])
    """

    fit_needs = score_needs = ("logits", "features")
    costs = ("n (C + d)", "C + d")
    paper = "Cruz et al. 2024"
    score_scale = "logit / norm"
    casts_state = False

    norm: str = option("l2", OneOf("l2", "l1", "none"))
    only_correct: bool = option(default=True, rule=FLAG)

    def __post_init__(self) -> None:
        """Check the parameters; features are needed only for the norm."""
        super().__post_init__()
        if self.norm == "none":
            vars(self).update(fit_needs=("logits",), score_needs=("logits",))

    def fit_state(self, train: Training) -> dict[str, Any]:
        # The score has no state: score the training samples as usual.
        values, what = Fitted(detector=self, state={}).known(train), "samples"
        if self.only_correct and train.labels is not None:
            values = values[np.argmax(train.logits, axis=1) == train.labels]
            what = f"correctly classified {what}"
        # In ReLU networks some features are all zero: their score is -inf, to which no
        # tail can be fitted.
        values = values[values > -math.inf]
        if values.size < MIN_SAMPLES:
            rule = f"at least {MIN_SAMPLES}, with features that are not all zero"
            remedy = "Fit on the training split the network was trained on"
            got = f"{values.size} of {len(train)}"
            _check.fail("PostMax.fit", what, rule, got, remedy)
        law = asdict(fit_gpd(values))
        return {name: np.array(value, dtype=float) for name, value in law.items()}

    def _over_norm(self, logits: Array, batch: Batch) -> Array:
        if self.norm == "none":
            return logits
        xp = _xp.array_namespace(logits)
        if self.norm == "l2":
            norm = batch.feature_norm
        else:
            norm = xp.sum(xp.abs(batch.features), axis=1)
        norm = norm if logits.ndim == 1 else norm[:, None]
        # A length of zero gives -inf, whatever the logit.
        return xp.where(norm == 0, -math.inf, logits / _xp.or_one(norm))

    def score_batch(self, state: State, batch: Batch) -> Array:
        return self._over_norm(batch.top_logit, batch)

    def probability_batch(self, state: State, batch: Batch) -> Array:
        return _law(state).cdf(self.score_batch(state, batch))

    def class_probabilities_batch(self, state: State, batch: Batch) -> Array:
        return _law(state).cdf(self._over_norm(batch.logits, batch))


def law(fitted: Fitted) -> GPD:
    """Return the generalised Pareto distribution of a fitted PostMax.

    Examples
    --------
    >>> from openset import Outputs
    >>> z = [[2.0 + 0.1 * i, 0.0] for i in range(40)]
    >>> fitted = PostMax(norm="none").fit(Outputs(logits=z, labels=[0] * 40))
    >>> law(fitted).shape  # evenly spread: the uniform law on [2, 5.9]
    -1.0
    >>> law(fitted).logsf(3.95).round(2)  # log(1 / 2): does not round where p is 1
    np.float64(-0.69)
    """
    return _law(fitted.state)


def _law(state: State) -> GPD:
    values = {name: float(state[name]) for name in ("shape", "loc", "scale", "loglik")}
    return GPD(**values, n=int(state["n"]))
