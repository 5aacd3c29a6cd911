"""Thresholded Softmax: cross-entropy on logits of length one."""

import math

import numpy as np
import torch
from torch import Tensor

from openset import _check
from openset.train.methods._base import Floats, Method, full_precision
from openset.train.networks import Network

_PUBLISHED = {
    2: 0.8,
    3: 0.6,
    4: 0.48,
    5: 0.35,
    6: 0.25,
    7: 0.2,
    8: 0.1,
    9: 0.05,
    10: 0.04,
}


class ThresholdedSoftmax(Method):
    r"""Cross-entropy on unit-norm logits; the score is the largest probability.

    .. math:: v = \frac{z}{\|z\| + 10^{-4}}, \qquad
              L = -\log \operatorname{softmax}_y(v)

    The logits it returns are v, so :func:`highest_probability` bounds the score.

    References
    ----------
    Komorniczak and Ksieniewicz (2024), torchosr, and the class-imbalance study made
    with it: known iff the score is above :func:`published_threshold`.
    """

    name = "tsoftmax"
    title = "Thresholded Softmax"
    paper = "torchosr (Komorniczak and Ksieniewicz 2024)"
    score = "msp"
    has_linear_head = False  # dividing by the length is not linear

    def loss(
        self, network: Network, inputs: Tensor, labels: Tensor, phase: str
    ) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the unit-norm logits."""
        logits = unit_norm(network(inputs))
        return self.cross_entropy(logits, labels), logits

    @classmethod
    def published_margin(cls, logits: Floats, known: Floats) -> Floats:
        """Largest probability minus the published threshold; it must be above it."""
        return known - np.nextafter(published_threshold(logits.shape[1]), 1)

    def logits(self, network: Network, features: Tensor) -> Tensor:
        """Unit-norm logits."""
        return unit_norm(network.head(features))


def unit_norm(logits: Tensor) -> Tensor:
    """Divide each row by its length + 1e-4.

    Examples
    --------
    >>> unit_norm(torch.tensor([[3.0, 4.0]])).numpy().round(3)
    array([[0.6, 0.8]], dtype=float32)
    """
    logits = full_precision(logits)
    return logits / (torch.linalg.vector_norm(logits, dim=1, keepdim=True) + 1e-4)


def highest_probability(n_classes: int) -> float:
    r"""Return the largest probability that logits of length one can give.

    .. math:: 1 / \bigl(1 + (C - 1) e^{-\sqrt{C / (C - 1)}}\bigr)

    Examples
    --------
    >>> round(highest_probability(10), 3)
    0.242
    """
    others = n_classes - 1
    return 1 / (1 + others * math.exp(-math.sqrt(n_classes / others)))


def published_threshold(n_classes: int) -> float:
    """Return the threshold on the score that comes with the method.

    From 8 classes on it is below 1/C, the lowest possible score, and rejects nothing;
    for 2 it is 99.5 % of the highest possible score and rejects nearly all samples.
    Choosing one on calibration data (`openset.thresholds`) is better.

    Examples
    --------
    >>> published_threshold(6)
    0.25
    """
    if n_classes not in _PUBLISHED:
        msg = _check.must(
            "in 2..10, where thresholds were published",
            caller="published_threshold",
            name="n_classes",
            got=n_classes,
            remedy="Choose a threshold on calibration data (openset.thresholds)",
        )
        raise ValueError(msg)
    return _PUBLISHED[n_classes]
