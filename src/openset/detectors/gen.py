"""Generalised entropy of the largest probabilities."""

from dataclasses import dataclass

import numpy as np

from openset import _check, _xp
from openset._types import Array, InvalidSamplesError
from openset.detectors import _fused
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.detectors.constraints import POSITIVE, Integer


@dataclass(frozen=True, kw_only=True)
class GEN(Detector):
    r"""Minus the generalised entropy of the `top` largest softmax probabilities.

    .. math:: s(x) = -\sum_{c \in \text{top-}M} p_c^\gamma (1 - p_c)^\gamma

    With a small exponent, probabilities far below the smallest float32 still matter
    (:math:`(10^{-40})^{0.1} = 10^{-4}`), so logarithms are used throughout, and 1 - p
    of the predicted class is computed as the sum of the other probabilities. With one
    class, s = 0. So it is, up to rounding, where the largest logit leads by more than
    745 / gamma (float32: 103 / gamma). Logits so large that their own rounding exceeds
    1 raise an error: their probabilities are noise.

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

    name = "gen"
    score_needs = ("logits",)
    score_cost = "C + M log M"
    paper = "Liu et al. 2023"
    score_scale = "-entropy"
    constraints = {"gamma": POSITIVE, "top": Integer(low=1)}

    gamma: float = 0.1
    top: int = 100

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.logits)
        largest = 1 / float(xp.finfo(batch.logits.dtype).eps)
        sizes = xp.abs(batch.top_logit)
        is_noise = xp.isfinite(sizes) & (sizes >= largest)
        if not _xp.is_traced(sizes) and bool(xp.any(is_noise)):
            msg = _check.must(
                f"below {largest:.2g} in size, or probabilities are rounding errors",
                caller="GEN.score",
                name="logits",
                got=f"{float(xp.max(sizes[is_noise])):.3g}",
            )
            rows = np.flatnonzero(_xp.to_numpy(is_noise))
            raise InvalidSamplesError(msg, batch.numbers(rows).tolist())
        # In a graph, which cannot raise, they are invalid.
        log_total = xp.log1p(xp.where(is_noise, xp.nan, batch.other_mass))
        # The predicted class: p = 1 / (1 + others), 1 - p = others / (1 + others).
        first = xp.exp(self.gamma * (batch.log_other_mass - 2 * log_total))
        kept = min(self.top, batch.logits.shape[1])
        if kept == 1:
            return -first
        energy = batch.top_logit + log_total
        fused = _fused.entropy_of_others(
            batch.logits, batch.top_class, energy, kept=kept - 1, gamma=self.gamma
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
