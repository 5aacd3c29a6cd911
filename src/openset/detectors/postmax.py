"""PostMax: the largest logit divided by the feature norm, as a tail probability."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import Array
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.detectors._fitted import Fitted
from openset.detectors._gpd import GPD, MIN_SAMPLES, fit_gpd
from openset.detectors.constraints import Boolean, OneOf
from openset.outputs import Outputs


@dataclass(frozen=True, kw_only=True, init=False)
class PostMax(Detector):
    r"""Largest logit divided by the feature norm, and its generalised-Pareto cdf.

    .. math:: \ell(x) = \frac{\max_c z_c(x)}{\lVert f(x) \rVert}, \qquad
              p(x) = 1 - \Bigl(1 + \xi \frac{\ell - \mu}{\sigma}\Bigr)^{-1/\xi}

    where :math:`(\mu, \sigma, \xi)` are fitted to :math:`\ell` of the correctly
    classified training samples.

    The knownness is :math:`\ell` itself. The cdf is monotone, so it ranks samples in
    the same way, but with ties: it is 0 below every training sample, and 1 above the
    end point. :meth:`Fitted.probability` gives p, :func:`log_survival` the logarithm of
    1 - p, :meth:`Fitted.class_probabilities` the same law at each :math:`z_c / \lVert f
    \rVert` (they need not sum to one), :func:`law` the fitted distribution.

    A zero feature vector has :math:`\ell = -\infty` and p = 0; it is left out of the
    fit. If all logits are negative, :math:`\ell` is negative, and a longer feature
    *raises* it towards 0: this follows the published formula.

    Parameters
    ----------
    norm
        ``"l2"`` as published, ``"l1"``, or ``"none"`` for the largest logit itself.
    fit
        ``"profile"``: the maximum of the likelihood. ``"scipy"``: what
        ``scipy.stats.genpareto.fit`` returns, as in the paper's algorithm; slower by
        two orders of magnitude and often not the maximum.
    only_correct
        Fit to correctly classified samples only. Without labels, all are used.

    References
    ----------
    Cruz, Rabinowitz, Günther and Boult, "Operational open-set recognition and PostMax
    refinement", ECCV 2024.

    Examples
    --------
    A logit of 6 divided by a norm of 5 is 1.2; a zero feature vector gets -inf.

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

    name = "postmax"
    fit_needs = ("logits", "features")
    score_needs = ("logits", "features")
    fit_cost = "n (C + d)"
    score_cost = "C + d"
    paper = "Cruz et al. 2024"
    score_scale = "logit / norm"
    constraints = {
        "norm": OneOf(("l2", "l1", "none")),
        "fit": OneOf(("profile", "scipy")),
        "only_correct": Boolean(),
    }

    norm: str
    fit_method: str
    only_correct: bool

    # Explicit, because the option `fit` is also the name of a method.
    def __init__(
        self, *, norm: str = "l2", fit: str = "profile", only_correct: bool = True
    ) -> None:
        self._check_params({"norm": norm, "fit": fit, "only_correct": only_correct})
        fields: dict[str, Any] = {
            "norm": norm,
            "fit_method": fit,
            "only_correct": only_correct,
        }
        if norm == "none":  # features are needed only for the norm
            fields["fit_needs"] = fields["score_needs"] = ("logits",)
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        params = ", ".join(f"{k}={v!r}" for k, v in self.params().items())
        return f"PostMax({params})"

    def params(self) -> dict[str, Any]:
        """Return the keyword arguments that build this recipe."""
        return {
            "norm": self.norm,
            "fit": self.fit_method,
            "only_correct": self.only_correct,
        }

    def fit_state(self, train: Outputs) -> State:
        # The score has no state: score the training samples as usual.
        bare = Fitted(detector=self, state={})
        only_correct = self.only_correct and train.labels is not None
        if only_correct:
            scores = bare.score(train)
            values = scores.known[scores.is_correct]
        else:
            values = bare.known(train)
        got = ""
        if self.norm != "none":
            # In ReLU networks some features are all zero: their score is -inf, to which
            # no tail can be fitted.
            is_zero = values == -math.inf
            values = values[~is_zero]
            got = f" ({is_zero.sum()} more have zero features)" if is_zero.any() else ""
        got = f"{values.size}{f' of {len(train)}' if only_correct else ''}{got}"
        if values.size < MIN_SAMPLES:
            msg = _check.must(
                f"at least {MIN_SAMPLES}",
                caller="PostMax.fit",
                name="correctly classified samples" if only_correct else "samples",
                got=got,
                remedy="Fit on the training split the network was trained on",
            )
            raise ValueError(msg)
        if values.min() == values.max():
            msg = _check.must(
                "of different values",
                caller="PostMax.fit",
                name="max logit / norm",
                got=f"{values.size} samples that all have {values[0]:g}",
            )
            raise ValueError(msg)
        law = fit_gpd(values, method=self.fit_method)
        like = train.logits
        return {
            name: _xp.moved(np.array(getattr(law, name), dtype=np.float64), like)
            for name in ("shape", "loc", "scale", "loglik", "n")
        }

    def score_batch(self, state: State, batch: Batch) -> Array:
        return _over(batch.top_logit, self._lengths(batch))

    def probability_batch(self, state: State, batch: Batch) -> Array:
        return _law(state).cdf(self.score_batch(state, batch))

    def class_probabilities_batch(self, state: State, batch: Batch) -> Array:
        lengths = self._lengths(batch)
        lengths = None if lengths is None else lengths[:, None]
        return _law(state).cdf(_over(batch.logits, lengths))

    def _lengths(self, batch: Batch) -> Array | None:
        if self.norm == "none":
            return None
        if self.norm == "l2":
            return batch.feature_norm
        xp = _xp.array_namespace(batch.features)
        return xp.linalg.vector_norm(batch.features, axis=1, ord=1)


def law(fitted: Fitted) -> GPD:
    """Return the generalised Pareto distribution of a fitted PostMax."""
    _need_postmax("postmax.law", fitted)
    return _law(fitted.state)


def log_survival(
    fitted: Fitted, outputs: Outputs, *, batch_size: int | None = None
) -> NDArray[Any]:
    """Return ``log(1 - p)`` of each sample, shape (n,).

    This still distinguishes samples where p rounds to 1, unless they lie beyond the end
    point of a distribution with negative shape (-inf).

    Examples
    --------
    >>> z = [[2.0 + 0.1 * i, 0.0] for i in range(40)]
    >>> fitted = PostMax(norm="none").fit(Outputs(logits=z, labels=[0] * 40))
    >>> law(fitted).shape  # evenly spread: the uniform law on [2, 5.9]
    -1.0
    >>> log_survival(fitted, Outputs(logits=[[3.95, 0.0]])).round(2)  # log(1 / 2)
    array([-0.69])
    """
    _need_postmax("postmax.log_survival", fitted)
    detector, state = fitted.detector, fitted.state
    gpd = _law(state)

    def one(batch: Batch) -> Array:
        return gpd.logsf(detector.score_batch(state, batch))

    return fitted._run(one, outputs, batch_size)


def _need_postmax(caller: str, fitted: Fitted) -> None:
    if not isinstance(fitted.detector, PostMax):
        got = type(fitted.detector).__name__
        msg = _check.must("a fitted PostMax", caller=caller, name="fitted", got=got)
        raise TypeError(msg)


def _law(state: State) -> GPD:
    shape = float(state["shape"])
    return GPD(
        shape=shape,
        loc=float(state["loc"]),
        scale=float(state["scale"]),
        loglik=float(state["loglik"]),
        n=int(state["n"]),
        at_bound=shape == -1,
    )


def _over(logits: Array, lengths: Array | None) -> Array:
    """Divide; a length of zero gives -inf, whatever the logit."""
    if lengths is None:
        return logits
    xp = _xp.array_namespace(logits)
    is_some = lengths > 0
    ratio = logits / xp.where(is_some, lengths, xp.ones_like(lengths))
    return xp.where(is_some, ratio, xp.full_like(ratio, -math.inf))
