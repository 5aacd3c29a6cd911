"""Detectors that need the logits alone."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from openset import _xp
from openset._types import Array
from openset.detectors import kernels
from openset.detectors.base import Detector
from openset.detectors.batch import (
    Batch,
    State,
    Training,
    add_by_group,
    batches_with,
    fit_batches,
)
from openset.detectors.constraints import COUNT, POSITIVE

# e^-1e4 is 0 in every precision: larger gaps would only give inf * 0.
_MAX_GAP = 1e4
# Larger blocks than for sums: a matrix product of few rows is slow.
_BLOCK_BYTES = 8 << 20
# Temperatures are searched between these: classes that are separated without error have
# their optimum at 0, and labels that contradict the logits theirs at infinity.
_LEAST, _LARGEST = 0.01, 100.0
_MAX_STEPS = 60


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

    score_cost = "C"
    paper = "Hendrycks & Gimpel 2017"
    score_scale = "log-odds"
    constraints = {"temperature": POSITIVE}

    temperature: float = 1.0

    def score_batch(self, state: State, batch: Batch) -> Array:
        return -batch.tempered(self.temperature).log_other_mass

    def probability_batch(self, state: State, batch: Batch) -> Array:
        return 1 / (1 + batch.tempered(self.temperature).other_mass)


@dataclass(frozen=True, kw_only=True)
class MCM(MSP):
    r"""Probability of the predicted class from cosines of image and text.

    .. math:: p(x) = \max_c \operatorname{softmax}(\cos(x, t_c))_c, \qquad
              s(x) = \log \frac{p}{1 - p}

    where :math:`t_c` is the text of class c. The logits of a zero-shot classifier
    (``openset.extract``) are cosines times a scale, so this is :class:`MSP` with that
    scale as its temperature. It needs no fitting.

    Parameters
    ----------
    temperature
        What the logits are divided by: the scale of the cosines, 100 in the published
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

    paper = "Ming et al. 2022"

    temperature: float = 100.0


@dataclass(frozen=True, kw_only=True)
class Temperature(Detector):
    r"""Probability of the predicted class, at the temperature that fits the labels.

    .. math:: s(x) = \log \frac{p}{1 - p}, \qquad
              p = \max_c \operatorname{softmax}(z / T)_c, \qquad
              T = \operatorname*{argmin}_{T} -\sum_i
              \log \operatorname{softmax}(z_i / T)_{y_i}

    It is :class:`MSP` (see there for the log-odds) after temperature scaling, or ODIN
    without its change of the input and with a fitted T instead of 1000. The negative
    log-likelihood is convex in 1 / T and minimised by Newton's method, between 0.01 and
    100. Fit it on outputs the network was *not* trained on: on its training samples a
    network is too confident, and T too small.

    References
    ----------
    Guo et al., "On calibration of modern neural networks", ICML 2017; Liang, Li and
    Srikant, "Enhancing the reliability of out-of-distribution image detection in neural
    networks", ICLR 2018.

    Examples
    --------
    The logits give log-odds of 2; three of four samples are of class 0, which is
    log-odds of log 3: T = 2 / log 3.

    >>> from openset import Outputs
    >>> logits = [[2.0, 0.0]] * 4
    >>> outputs = Outputs(logits=logits, labels=[0, 0, 0, 1])
    >>> Temperature().fit(outputs).score(outputs).known.round(4)[0]
    np.float64(1.0986)
    """

    fit_needs = ("logits", "labels")
    fit_cost = "n C"
    score_cost = "C"
    paper = "Guo et al. 2017"
    score_scale = "log-odds"
    casts_state = False

    def fit_state(self, train: Training) -> dict[str, Any]:
        return {"temperature": np.array(1 / _best_inverse(train))}

    def score_batch(self, state: State, batch: Batch) -> Array:
        temperature = float(state["temperature"])
        xp = _xp.array_namespace(batch.logits)

        def others(logits: Array, top: Array, index: Array) -> Array:
            gaps = logits - top[:, None]
            gaps *= 1 / temperature
            return _xp.row_sums(_xp.put(_xp.exp_own(gaps), index, 0.0))

        mass = _xp.by_rows(others, batch.logits, batch.top_logit, batch.top_class)
        is_lost = mass < xp.finfo(mass.dtype).smallest_normal
        if not _xp.some(is_lost):
            return -_xp.log(mass)
        # Underflow, or one class: the slower way has no error there. Only in those
        # rows: it rounds differently, and a score must not depend on other samples.
        slow = batch.tempered(temperature).log_other_mass
        return -xp.where(is_lost, slow, _xp.log(mass))

    def probability_batch(self, state: State, batch: Batch) -> Array:
        return 1 / (1 + batch.tempered(float(state["temperature"])).other_mass)


def _best_inverse(train: Training) -> float:
    """Return the 1 / T with the smallest negative log-likelihood."""
    low, high = 1 / _LARGEST, 1 / _LEAST
    if _slope(train, high)[0] <= 0:
        return high
    if _slope(train, low)[0] >= 0:
        return low
    inverse = 1.0
    for _ in range(_MAX_STEPS):
        slope, curvature = _slope(train, inverse)
        low, high = (low, inverse) if slope > 0 else (inverse, high)
        step = inverse - slope / curvature if curvature > 0 else low
        if abs(step - inverse) <= 1e-12 * inverse:
            break
        # A step out of the bracket is replaced by its middle.
        inverse = step if low < step < high else math.sqrt(low * high)
    return inverse


def _slope(train: Training, inverse: float) -> Any:
    """Return first and second derivative of the negative log-likelihood in 1 / T."""

    def both(logits: Any, top: Any, own: Any) -> Any:
        gaps = logits.astype(float) - top.astype(float)[:, None]
        p = np.exp(inverse * gaps)
        p /= p.sum(axis=1)[:, None]
        mean = (p * gaps).sum(axis=1)
        spread = (p * (gaps - mean[:, None]) ** 2).sum(axis=1)
        return np.stack([mean - _xp.pick(gaps, own), spread], axis=1)

    return sum(
        _xp.by_rows(both, batch.logits, batch.top_logit, own).sum(axis=0)
        for batch, own in batches_with(train, train.labels)
    )


@dataclass(frozen=True, kw_only=True)
class MaxLogit(Detector):
    r"""Logit of the predicted class.

    .. math:: s(x) = \max_c z_c

    It has no hyper-parameters. Adding a constant to all logits of a sample changes this
    score, but not the probabilities.

    References
    ----------
    Hendrycks et al., "Scaling out-of-distribution detection for real-world settings",
    ICML 2022.

    Examples
    --------
    >>> from openset import Outputs
    >>> outputs = Outputs(logits=[[2.0, 0.0], [1.0, 0.5]], labels=[0, -1])
    >>> MaxLogit().fit(outputs.take([0])).score(outputs).known
    array([2., 1.])
    """

    score_cost = "C"
    paper = "Hendrycks et al. 2022"
    score_scale = "logit"

    def score_batch(self, state: State, batch: Batch) -> Array:
        return batch.top_logit


@dataclass(frozen=True, kw_only=True)
class Energy(Detector):
    r"""Log-sum-exp of the logits: a smooth maximum.

    .. math:: s(x) = T \log \sum_c e^{z_c / T}

    The paper's energy is -s. With one class, s is the logit. Logarithms of
    probabilities have s = 0 at T = 1, whatever the sample.

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

    score_cost = "C"
    paper = "Liu et al. 2020"
    score_scale = "energy"
    constraints = {"temperature": POSITIVE}

    temperature: float = 1.0

    def score_batch(self, state: State, batch: Batch) -> Array:
        return self.temperature * batch.tempered(self.temperature).energy


@dataclass(frozen=True, kw_only=True)
class Entropy(Detector):
    r"""Minus the Shannon entropy of the softmax probabilities.

    .. math:: s(x) = \sum_c p_c \log p_c
              = -\log(1 + m) - \frac{1}{1 + m}
                \sum_c (z_{\hat c} - z_c)\, e^{z_c - z_{\hat c}}, \qquad
              m = \sum_{c \ne \hat c} e^{z_c - z_{\hat c}}

    In the second form all terms have one sign, so confident samples keep their
    precision instead of rounding to 0. With one class, s = 0.

    References
    ----------
    Shannon, "A mathematical theory of communication", 1948; as a score for unknowns
    e.g. Chan, Rottmann and Gottschalk, ICCV 2021.

    Examples
    --------
    Two equal logits: the entropy is log 2.

    >>> from openset import Outputs
    >>> outputs = Outputs(logits=[[3.0, 3.0]], labels=[0])
    >>> Entropy().fit(outputs).score(outputs).known.round(4)
    array([-0.6931])
    """

    score_cost = "C"
    paper = "Shannon 1948"
    score_scale = "-entropy"

    def score_batch(self, state: State, batch: Batch) -> Array:
        return -entropy(batch)


def entropy(batch: Batch) -> Array:
    """Return the entropy of each sample's probabilities, once per batch."""
    return batch.once("entropy", lambda: _xp.by_rows(_entropies, batch.logits))


def _entropies(logits: Array) -> Array:
    # Not `batch.top_class`: that would read the logits twice from memory.
    xp = _xp.array_namespace(logits)
    index = xp.argmax(logits, axis=1)
    gaps = logits - _xp.pick(logits, index)[:, None]
    # Not `<`: one sample of +inf makes the smallest gap NaN.
    if not _xp.is_numpy_array(gaps) or not gaps.min() >= -_MAX_GAP:
        gaps = xp.maximum(gaps, xp.full_like(gaps[:1, :], -_MAX_GAP))
    masses = xp.exp(gaps)
    weighted = xp.vecdot(gaps, masses, axis=-1)
    # The top class is left out of the sum, not subtracted from it.
    others = _xp.row_sums(_xp.put(masses, index, 0.0))
    return xp.log1p(others) - weighted / (1 + others)


@dataclass(frozen=True, kw_only=True)
class GEN(Detector):
    r"""Minus the generalised entropy of the `top` largest softmax probabilities.

    .. math:: s(x) = -\sum_{c \in \text{top-}M} p_c^\gamma (1 - p_c)^\gamma

    With a small exponent, probabilities far below the smallest float32 still matter
    (:math:`(10^{-40})^{0.1} = 10^{-4}`), so logarithms are used throughout, and 1 - p
    of the predicted class is computed as the sum of the other probabilities. With one
    class, s = 0. So it is, up to rounding, where the largest logit leads by more than
    745 / gamma (float32: 103 / gamma). Logits so large that their own rounding exceeds
    1 have no score: their probabilities are noise.

    Parameters
    ----------
    gamma
        Exponent; the smaller, the more small probabilities matter.
    top
        M, the number of probabilities; all of them if there are fewer classes.

    References
    ----------
    Liu, Lochman and Zach, "GEN: Pushing the limits of softmax-based
    out-of-distribution detection", CVPR 2023.

    Examples
    --------
    Two equal logits: both probabilities are 1/2, so s = -2 (1/4)^gamma.

    >>> from openset import Outputs
    >>> outputs = Outputs(logits=[[3.0, 3.0]], labels=[0])
    >>> GEN(gamma=0.5).fit(outputs).score(outputs).known
    array([-1.])
    """

    score_cost = "C + M log M"
    paper = "Liu et al. 2023"
    score_scale = "-entropy"
    undefined = "Divide logits so large that they round to whole numbers by a constant"
    constraints = {"gamma": POSITIVE, "top": COUNT}

    gamma: float = 0.1
    top: int = 100

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.logits)
        size = xp.abs(batch.top_logit)
        is_noise = xp.isfinite(size) & (size >= 1 / xp.finfo(size.dtype).eps)
        log_total = xp.log1p(xp.where(is_noise, xp.nan, batch.other_mass))
        # The predicted class: p = 1 / (1 + others), 1 - p = others / (1 + others).
        first = xp.exp(self.gamma * (batch.log_other_mass - 2 * log_total))
        kept = min(self.top, batch.logits.shape[1])
        if kept == 1:
            return -first
        energy = batch.top_logit + log_total
        options = {"kept": kept - 1, "gamma": self.gamma}
        fused = kernels.call(
            "entropy_of_others", batch.logits, batch.top_class, energy, **options
        )
        if fused is not None:
            return -(first + fused)

        def rest(logits: Array, energy: Array, index: Array) -> Array:
            if kept < logits.shape[1]:
                largest = _xp.top_values(logits, kept)
                index = xp.argmax(largest, axis=1)
            else:
                largest = xp.asarray(logits, copy=True)
            log_p = _xp.put(largest, index, -xp.inf) - energy[:, None]
            # Without the predicted class p <= 1/2: 1 - p rounds by 1e-7 at most, of
            # which the exponent leaves less, and log1p takes ten times as long.
            log_terms = self.gamma * (log_p + xp.log(1 - xp.exp(log_p)))
            return xp.sum(_xp.exp_own(log_terms), axis=1)

        return -(first + _xp.by_rows(rest, batch.logits, energy, batch.top_class))


@dataclass(frozen=True, kw_only=True)
class KLM(Detector):
    r"""Minus the smallest divergence from the typical probabilities of a class.

    .. math:: s(x) = -\min_k D_{KL}(p \,\Vert\, d_k)
              = H(p) + \max_k \sum_c p_c \log d_{kc}, \qquad
              d_k = \operatorname*{mean}_{i : \hat c_i = k} p(x_i)

    where p are softmax probabilities and H is their entropy. The typical probabilities
    of a class are the mean over samples *predicted* as this class; labels are not
    used, and classes that are never predicted are left out of the minimum. The paper
    takes a validation set; outputs of the training split are more confident than those
    of new samples. Means below 1e-307 count as 1e-307, so that s is finite.

    The fitted detector has a matrix of predicted classes × classes: 10 GB for 50,000
    classes and logits of float32. Fitting takes four times that memory.

    References
    ----------
    Hendrycks et al., "Scaling out-of-distribution detection for real-world settings",
    ICML 2022.

    Examples
    --------
    Typical probabilities are (3/4, 1/4): the first sample has them, and (1/2, 1/2)
    diverges by log 2 - log(3)/2.

    >>> from openset import Outputs
    >>> import math
    >>> outputs = Outputs(logits=[[math.log(3), 0.0], [0.0, 0.0]], labels=[0, -1])
    >>> KLM().fit(outputs.take([0])).score(outputs).known.round(4) + 0
    array([ 0.    , -0.1438])
    """

    fit_needs = ("logits",)
    fit_cost = "n C"
    score_cost = "C^2"
    paper = "Hendrycks et al. 2022"
    score_scale = "-divergence"

    def fit_state(self, train: Training) -> dict[str, Any]:
        predicted = np.concatenate([batch.top_class for batch in fit_batches(train)])
        present, groups, counts = np.unique(
            predicted, return_inverse=True, return_counts=True
        )
        sums = np.zeros((present.size, train.logits.shape[1]))
        for batch, own in batches_with(train, groups):
            top = _xp.pick(batch.logits, present[own])
            masses = np.exp(batch.logits.astype(float) - top.astype(float)[:, None])
            masses /= _xp.row_sums(masses)[:, None]
            add_by_group(sums, masses, own)
        sums /= counts[:, None]
        return {"typical": np.log(np.maximum(sums, 1e-307, out=sums))}

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.logits)

        def closest(logits: Array, energy: Array) -> Array:
            p = _xp.exp_own(logits - energy[:, None])
            return xp.max(p @ state["typical"].T, axis=1)

        cross = _xp.by_rows(closest, batch.logits, batch.energy, size=_BLOCK_BYTES)
        known = entropy(batch) + cross
        # A divergence is not negative; its rounding error may be.
        return xp.minimum(known, xp.zeros_like(known))
