"""Detectors that need the largest logit, or a sum over the logits."""

from functools import partial
from typing import Any

import numpy as np
import scipy  # its submodules are imported on first use

from openset import _xp
from openset.detectors.base import Array, Batch, Detector, State, Training
from openset.detectors.batch import fit_batches
from openset.detectors.constraints import POSITIVE, option

# Temperatures are searched between these: classes that are separated without error have
# their optimum at 0, and labels that contradict the logits theirs at infinity.
_LEAST, _LARGEST = 0.01, 100.0


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

    costs = ("-", "C")
    paper = "Hendrycks & Gimpel 2017"
    score_scale = "log-odds"

    temperature: float = option(1.0, POSITIVE)

    def score_batch(self, state: State, batch: Batch) -> Array:
        return -batch.tempered(self.temperature).log_other_mass

    def probability_batch(self, state: State, batch: Batch) -> Array:
        return 1 / (1 + batch.tempered(self.temperature).other_mass)


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


class Temperature(Detector):
    r"""Probability of the predicted class, at the temperature that fits the labels.

    .. math:: s(x) = \log \frac{p}{1 - p}, \qquad
              p = \max_c \operatorname{softmax}(z / T)_c, \qquad
              T = \operatorname*{argmin}_{T} -\sum_i
              \log \operatorname{softmax}(z_i / T)_{y_i}

    It is :class:`MSP` (see there for the log-odds) after temperature scaling, or ODIN
    without its change of the input and with a fitted T instead of 1000. The negative
    log-likelihood is convex in 1 / T: the root of its slope is searched, between 0.01
    and 100. Fit it on outputs the network was *not* trained on: on its training
    samples a network is too confident, and T too small.

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
    costs = ("n C", "C")
    paper = "Guo et al. 2017"
    score_scale = "log-odds"
    casts_state = False

    def fit_state(self, train: Training) -> dict[str, Any]:
        def slope(inverse: float) -> float:
            """Return the derivative of the negative log-likelihood in 1 / T."""
            return sum(
                float(_xp.by_rows(partial(_slopes, inverse), *parts).sum())
                for batch in fit_batches(train)
                for parts in [(batch.logits, batch.top_logit, train.labels[batch.rows])]
            )

        low, high = 1 / _LARGEST, 1 / _LEAST
        if slope(high) <= 0:
            inverse = high
        elif slope(low) >= 0:
            inverse = low
        else:
            inverse = scipy.optimize.brentq(slope, low, high, xtol=1e-14, rtol=1e-12)
        return {"temperature": np.array(1 / inverse)}

    def score_batch(self, state: State, batch: Batch) -> Array:
        return -batch.tempered(float(state["temperature"])).log_other_mass

    def probability_batch(self, state: State, batch: Batch) -> Array:
        return 1 / (1 + batch.tempered(float(state["temperature"])).other_mass)


def _slopes(inverse: float, logits: Any, top: Any, own: Any) -> Any:
    """Return the mean logit, by the probabilities at 1 / T, minus that of the label."""
    gaps = logits.astype(float) - top.astype(float)[:, None]
    p = np.exp(inverse * gaps)
    return (p * gaps).sum(axis=1) / p.sum(axis=1) - _xp.pick(gaps, own)


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

    costs = ("-", "C")
    paper = "Hendrycks et al. 2022"
    score_scale = "logit"

    def score_batch(self, state: State, batch: Batch) -> Array:
        return batch.top_logit


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

    costs = ("-", "C")
    paper = "Liu et al. 2020"
    score_scale = "energy"

    temperature: float = option(1.0, POSITIVE)

    def score_batch(self, state: State, batch: Batch) -> Array:
        return self.temperature * batch.tempered(self.temperature).energy
