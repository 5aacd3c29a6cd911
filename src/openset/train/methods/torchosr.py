"""Thresholded, Noise and Overlay Softmax, of torchosr and the class-imbalance study."""

import numpy as np
import torch
from torch import Tensor

from openset import _check
from openset.train.methods.base import Floats, Loss, Method, Response, full_precision
from openset.train.methods.mixing import other_class
from openset.train.networks import Network

_THRESHOLDS = (0.8, 0.6, 0.48, 0.35, 0.25, 0.2, 0.1, 0.05, 0.04)


class ThresholdedSoftmax(Method):
    r"""Cross-entropy on unit-norm logits; the score is the largest probability.

    .. math:: v = \frac{z}{\|z\| + 10^{-4}}, \qquad
              L = -\log \operatorname{softmax}_y(v)

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

    def loss(self, network: Network, inputs: Tensor, labels: Tensor) -> Loss:
        """Cross-entropy of the unit-norm logits."""
        logits = unit_norm(network(inputs))
        return self.cross_entropy(logits, labels), logits

    @classmethod
    def published_margin(cls, logits: Floats, known: Floats) -> Floats:
        """Largest probability minus the published threshold; it must be above it."""
        return known - np.nextafter(published_threshold(logits.shape[1]), 1)

    def logits(self, network: Network, features: Tensor) -> Tensor:
        """Logits of length (almost) one."""
        return unit_norm(network.head(features))


class _ExtraOutput(Method):
    r"""Cross-entropy over C + 1 unit-norm logits; synthetic images have the last label.

    .. math:: s(x) = 1 - \operatorname{softmax}_{C+1}(v), \qquad
              v = z / (\|z\| + 10^{-4})
    """

    paper = "torchosr (Komorniczak and Ksieniewicz 2024)"
    score = "custom"
    n_extra = 1
    has_linear_head = False

    def made(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return synthetic images, and a mask of those that count."""
        raise NotImplementedError

    def loss(self, network: Network, inputs: Tensor, labels: Tensor) -> Loss:
        """Cross-entropy of real and synthetic images, which run as one batch."""
        made, is_made = self.made(inputs, labels)
        outputs = unit_norm(network(torch.cat([inputs, made])))
        targets = torch.cat([labels, labels.new_full(is_made.shape, self.n_classes)])
        counts = torch.cat([torch.ones_like(labels, dtype=torch.bool), is_made])
        loss = self.cross_entropy(outputs, targets, counts)
        return loss, outputs[: labels.shape[0], : self.n_classes]

    @classmethod
    def published_margin(cls, logits: Floats, known: Floats) -> Floats:
        """Largest known logit minus the extra one, which follows from the score."""
        top = logits.max(axis=1)
        total = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
        with np.errstate(divide="ignore"):  # a probability of 0 or 1: ± infinity
            return top - (total + np.log1p(-known) - np.log(known))

    def respond(self, network: Network, features: Tensor) -> Response:
        """Logits of the known classes; 1 − probability of the extra output."""
        outputs = unit_norm(network.head(features))
        known = 1 - outputs.softmax(dim=1)[:, self.n_classes]
        return Response(outputs[:, : self.n_classes], known)


class Noise(_ExtraOutput):
    r"""Adds ⌊B/2⌋ images of noise, uniform from 0 to the batch's maximum, to B images.

    References
    ----------
    Komorniczak and Ksieniewicz (2024), torchosr.
    """

    title = "Noise Softmax"

    def made(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Draw them."""
        n = labels.shape[0] // 2
        made = inputs.amax() * torch.rand_like(inputs[:n])
        return made, torch.ones_like(labels[:n], dtype=torch.bool)


class Overlay(_ExtraOutput):
    r"""Adds ⌈B/2⌉ means of two images of different classes to a batch of B.

    The first ⌈B/2⌉ images of the batch each get a partner drawn evenly from those of
    other classes, as in the text; the library goes through pairs of classes in turn.

    References
    ----------
    Komorniczak and Ksieniewicz (2024), torchosr.
    """

    title = "Overlay Softmax"

    def made(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Draw them."""
        n = -(-labels.shape[0] // 2)
        partner, exists = other_class(labels)
        return (inputs[:n] + inputs[partner[:n]]) / 2, exists[:n]


def unit_norm(logits: Tensor) -> Tensor:
    """Divide each row by its length + 1e-4.

    Examples
    --------
    >>> unit_norm(torch.tensor([[3.0, 4.0]])).numpy().round(3)
    array([[0.6, 0.8]], dtype=float32)
    """
    logits = full_precision(logits)
    return logits / (torch.linalg.vector_norm(logits, dim=1, keepdim=True) + 1e-4)


def published_threshold(n_classes: int) -> float:
    """Return the threshold of Thresholded Softmax for 2 to 10 classes.

    From 8 classes on it is below 1/C, the lowest possible score, and rejects nothing;
    for 2 it is 99.5 % of the highest possible score and rejects nearly all samples.
    Choosing one on calibration data (`openset.thresholds`) is better.

    Examples
    --------
    >>> published_threshold(6)
    0.25
    """
    if not 2 <= n_classes <= 10:
        remedy = "Choose a threshold on calibration data (openset.thresholds)"
        rule = "in 2..10, where thresholds were published"
        _check.fail("published_threshold", "n_classes", rule, n_classes, remedy)
    return _THRESHOLDS[n_classes - 2]
