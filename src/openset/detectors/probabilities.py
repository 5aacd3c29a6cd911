"""Detectors that need the probabilities of all classes."""

from typing import Any

import numpy as np

from openset import _xp
from openset.detectors import kernels
from openset.detectors.base import Array, Batch, Detector, State, Training
from openset.detectors.batch import add_by_group, fit_batches
from openset.detectors.constraints import COUNT, POSITIVE, option

# e^-1e4 is 0 in every precision: larger gaps would only give inf * 0.
_MAX_GAP = 1e4
# Larger blocks than for sums: a matrix product of few rows is slow.
_BLOCK_BYTES = 8 << 20


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

    costs = ("-", "C")
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
        gaps = xp.clip(gaps, min=-_MAX_GAP)
    masses = xp.exp(gaps)
    weighted = xp.vecdot(gaps, masses, axis=-1)
    # The top class is left out of the sum, not subtracted from it.
    others = _xp.row_sums(_xp.put(masses, index, 0.0))
    return xp.log1p(others) - weighted / (1 + others)


class GEN(Detector):
    r"""Minus the generalised entropy of the `top` largest softmax probabilities.

    .. math:: s(x) = -\sum_{c \in \text{top-}M} p_c^\gamma (1 - p_c)^\gamma

    With a small exponent, probabilities far below the smallest float32 still matter
    (:math:`(10^{-40})^{0.1} = 10^{-4}`), so logarithms are used throughout, and 1 - p
    of the predicted class is computed as the sum of the other probabilities. With one
    class, s = 0. So it is, up to rounding, where the largest logit leads by more than
    745 / gamma (float32: 103 / gamma).

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

    costs = ("-", "C + M log M")
    paper = "Liu et al. 2023"
    score_scale = "-entropy"

    gamma: float = option(0.1, POSITIVE)
    top: int = option(100, COUNT)

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.logits)
        log_total = xp.log1p(batch.other_mass)
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
            return xp.sum(xp.exp(log_terms), axis=1)

        return -(first + _xp.by_rows(rest, batch.logits, energy, batch.top_class))


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
    costs = ("n C", "C^2")
    paper = "Hendrycks et al. 2022"
    score_scale = "-divergence"

    def fit_state(self, train: Training) -> dict[str, Any]:
        predicted = np.concatenate([batch.top_class for batch in fit_batches(train)])
        present, groups, counts = np.unique(
            predicted, return_inverse=True, return_counts=True
        )
        sums = np.zeros((present.size, train.logits.shape[1]))
        for batch in fit_batches(train):
            own = groups[batch.rows]
            top = _xp.pick(batch.logits, present[own])
            masses = np.exp(batch.logits.astype(float) - top.astype(float)[:, None])
            masses /= _xp.row_sums(masses)[:, None]
            add_by_group(sums, masses, own)
        sums /= counts[:, None]
        return {"typical": np.log(np.maximum(sums, 1e-307, out=sums))}

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.logits)

        def closest(logits: Array, energy: Array) -> Array:
            p = xp.exp(logits - energy[:, None])
            return xp.max(p @ state["typical"].T, axis=1)

        cross = _xp.by_rows(closest, batch.logits, batch.energy, size=_BLOCK_BYTES)
        # A divergence is not negative; its rounding error may be.
        return xp.clip(entropy(batch) + cross, max=0.0)
