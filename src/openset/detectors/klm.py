"""KL matching: divergence from the typical probabilities of a class."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from openset import _xp
from openset._types import Array
from openset.detectors._batch import Batch, State, fit_batches, in_dtype, working_dtype
from openset.detectors._detector import Detector
from openset.detectors._moments import sums_by
from openset.detectors.entropy import entropy, onnx_entropy
from openset.outputs import Outputs


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

    References
    ----------
    Hendrycks et al., "Scaling out-of-distribution detection for real-world settings",
    ICML 2022.

    Examples
    --------
    Typical probabilities are (3/4, 1/4): the first sample has them, and (1/2, 1/2)
    diverges by log 2 - log(3)/2.

    >>> import math
    >>> outputs = Outputs(logits=[[math.log(3), 0.0], [0.0, 0.0]], labels=[0, -1])
    >>> KLM().fit(outputs.take([0])).score(outputs).known.round(4) + 0
    array([ 0.    , -0.1438])
    """

    name = "klm"
    fit_needs = ("logits",)
    score_needs = ("logits",)
    fit_cost = "n C"
    score_cost = "C^2"
    paper = "Hendrycks et al. 2022"
    casts_state = True

    def _fit(self, train: Outputs) -> State:
        sums: Any = 0.0
        counts: Any = 0.0
        for batch in fit_batches(train):
            xp = _xp.array_namespace(batch.logits)
            n_classes = batch.logits.shape[1]
            predicted = _xp.to_numpy(batch.top_class).astype(np.int64)
            p = _probabilities(xp.astype(batch.logits, xp.float64), batch.top_class)
            sums = sums_by(p, predicted, n_classes) + sums
            counts = np.bincount(predicted, minlength=n_classes) + counts
        present = np.flatnonzero(counts)
        rows = xp.take(sums, _xp.moved(present, sums), axis=0)
        weights = _xp.moved(counts[present].astype(np.float64), sums)
        means = rows / weights[:, None]
        least = xp.full_like(means[:1, :], 1e-307)
        typical = xp.log(xp.maximum(means, least))
        return in_dtype({"typical": typical}, working_dtype(train))

    def _score(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.logits)

        def closest(logits: Array, energy: Array) -> Array:
            p = _xp.exp_own(logits - energy[:, None])
            return xp.max(p @ state["typical"].T, axis=1)

        # Larger blocks than for sums: a matrix product of few rows is slow.
        size = 8 << 20
        cross = _xp.by_rows(closest, batch.logits, batch.energy, size=size)
        known = entropy(batch) + cross
        # A divergence is not negative; its rounding error may be.
        return xp.minimum(known, xp.zeros_like(known))

    def write_onnx(self, sample: Any) -> Any:
        """Write the knownness as an ONNX graph."""
        graph = sample.graph
        masses = (sample.logits - sample.top_logit).exp()
        p = masses / masses.sum()
        typical = graph.constant(sample.arrays["typical"].T)
        known = onnx_entropy(sample) + (p @ typical).max()
        return graph.op("Min", known, graph.constant(0.0))


def _probabilities(logits: Array, top_class: Array) -> Array:
    masses = _xp.exp_own(logits - _xp.pick(logits, top_class)[:, None])
    masses /= _xp.row_sums(masses)[:, None]
    return masses
