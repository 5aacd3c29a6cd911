"""Maximum softmax probability at a fitted temperature."""

import math
from dataclasses import dataclass

import numpy as np

from openset import _xp
from openset._types import Array
from openset.detectors._batch import Batch, State, batches_with
from openset.detectors._detector import Detector
from openset.outputs import Outputs

# Temperatures are searched between these: classes that are separated without error have
# their optimum at 0, and labels that contradict the logits theirs at infinity.
_LEAST, _LARGEST = 0.01, 100.0
_MAX_STEPS = 60


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

    >>> logits = [[2.0, 0.0]] * 4
    >>> outputs = Outputs(logits=logits, labels=[0, 0, 0, 1])
    >>> Temperature().fit(outputs).score(outputs).known.round(4)[0]
    np.float64(1.0986)
    """

    name = "temperature"
    fit_needs = ("logits", "labels")
    score_needs = ("logits",)
    fit_cost = "n C"
    score_cost = "C"
    paper = "Guo et al. 2017"
    score_scale = "log-odds"

    def fit_state(self, train: Outputs) -> State:
        found = 1 / _best_inverse(train)
        like = train.logits
        return {"temperature": _xp.moved(np.array(found), like)}

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


def _best_inverse(train: Outputs) -> float:
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


def _slope(train: Outputs, inverse: float) -> tuple[float, float]:
    """Return first and second derivative of the negative log-likelihood in 1 / T."""
    first = second = 0.0
    for batch, labels in batches_with(train, train.labels):
        xp = _xp.array_namespace(batch.logits)
        own = _xp.moved(np.array(labels), batch.logits)

        def both(logits: Array, top: Array, index: Array) -> Array:
            xp = _xp.array_namespace(logits)
            gaps = xp.astype(logits, xp.float64) - xp.astype(top, xp.float64)[:, None]
            p = xp.exp(inverse * gaps)
            p = p / xp.sum(p, axis=1)[:, None]
            mean = xp.sum(p * gaps, axis=1)
            spread = xp.sum(p * (gaps - mean[:, None]) ** 2, axis=1)
            return xp.stack([mean - _xp.pick(gaps, index), spread], axis=1)

        found = _xp.by_rows(both, batch.logits, batch.top_logit, own)
        totals = xp.sum(found, axis=0)
        first, second = first + float(totals[0]), second + float(totals[1])
    return first, second
