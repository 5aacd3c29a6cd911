"""KL matching: divergence from the typical probabilities of a class."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from openset import _check, _xp
from openset._types import Array
from openset.detectors._batch import (
    Batch,
    State,
    batches_with,
    fit_batches,
    working_dtype,
)
from openset.detectors._detector import Detector
from openset.detectors._moments import sums_by
from openset.detectors.entropy import entropy
from openset.outputs import Outputs

# Larger blocks than for sums: a matrix product of few rows is slow.
_BLOCK_BYTES = 8 << 20


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
    classes and logits of float32. Fitting takes four times that memory; if the machine
    or GPU has less, an error says how much is needed.

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
    score_scale = "-divergence"
    casts_state = True

    def fit_state(self, train: Outputs) -> State:
        predicted = np.concatenate(
            [_xp.to_numpy(batch.top_class) for batch in fit_batches(train)]
        )
        present, groups, counts = np.unique(
            predicted, return_inverse=True, return_counts=True
        )
        dtype = working_dtype(train)
        _need_memory(train.logits, present.size)
        sums: Any = None
        for batch, own in batches_with(train, groups):
            xp = _xp.array_namespace(batch.logits)
            top_class = _xp.moved(present[own], batch.logits)
            p = _probabilities(xp.astype(batch.logits, xp.float64), top_class)
            sums = sums_by(p, own, present.size, into=sums)

        def typical(sums: Array, counts: Array) -> Array:
            means = sums / counts[:, None]
            least = xp.full_like(means[:1, :], 1e-307)
            return xp.astype(xp.log(xp.maximum(means, least)), dtype)

        weights = _xp.moved(counts.astype(np.float64), sums)
        return {"typical": _xp.by_rows(typical, sums, weights, size=_BLOCK_BYTES)}

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.logits)

        def closest(logits: Array, energy: Array) -> Array:
            p = _xp.exp_own(logits - energy[:, None])
            return xp.max(p @ state["typical"].T, axis=1)

        cross = _xp.by_rows(closest, batch.logits, batch.energy, size=_BLOCK_BYTES)
        known = entropy(batch) + cross
        # A divergence is not negative; its rounding error may be.
        return xp.minimum(known, xp.zeros_like(known))


def _probabilities(logits: Array, top_class: Array) -> Array:
    masses = _xp.exp_own(logits - _xp.pick(logits, top_class)[:, None])
    masses /= _xp.row_sums(masses)[:, None]
    return masses


def _need_memory(logits: Array, n_present: int) -> None:
    """Raise if the sums (float64) and two copies of their logarithms cannot fit."""
    n_classes = logits.shape[1]
    need = n_present * n_classes * (8 + 4 + 4)
    have = _xp.gpu_memory(logits) or _xp.machine_memory()
    if have is not None and need > have:
        rule = (
            f"few enough for a matrix of predicted classes x classes ({have / 1e9:.1f} "
            "GB of memory)"
        )
        msg = _check.must(
            rule,
            caller="KLM.fit",
            name="classes",
            got=f"{n_present} x {n_classes}, which need {need / 1e9:.1f} GB",
            remedy="Use a detector without such a matrix, such as GEN or Entropy",
        )
        raise ValueError(msg)
