"""Base of Noise Softmax and Overlay Softmax: one more output, for synthetic images."""

import numpy as np
import torch
from torch import Tensor

from openset import _check
from openset.train.methods._base import Floats, Method, Response
from openset.train.methods.tsoftmax import unit_norm
from openset.train.networks import Network


class ExtraOutput(Method, register=False):
    r"""Cross-entropy over C + 1 unit-norm logits; synthetic images have the last label.

    .. math:: v = \frac{z}{\|z\| + 10^{-4}} \in \mathbb{R}^{C+1}, \qquad
              s(x) = 1 - \operatorname{softmax}_{C+1}(v)

    Parameters
    ----------
    ratio
        Synthetic images per real one.
    """

    score = "custom"
    n_extra = 1
    has_linear_head = False  # dividing by the length is not linear

    def __init__(
        self,
        *,
        n_classes: int,
        network: Network,
        smoothing: float = 0.0,
        ratio: float = 0.5,
    ) -> None:
        super().__init__(n_classes=n_classes, network=network, smoothing=smoothing)
        caller = f"method {self.name}"
        exact = _check.rate(caller, "ratio", ratio, open_low=True)
        self.part, self.whole = exact.as_integer_ratio()

    def make(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return synthetic images, and a mask of those that count."""
        raise NotImplementedError

    def loss(
        self, network: Network, inputs: Tensor, labels: Tensor, phase: str
    ) -> tuple[Tensor, Tensor]:
        """Cross-entropy of real and synthetic images, which run as one batch."""
        made, is_made = self.make(inputs, labels)
        outputs = unit_norm(network(torch.cat([inputs, made])))
        targets = torch.cat([labels, labels.new_full(is_made.shape, self.n_classes)])
        counts = torch.cat([torch.ones_like(labels, dtype=torch.bool), is_made])
        loss = self.cross_entropy(outputs, targets, counts)
        return loss, outputs[: labels.shape[0], : self.n_classes]

    def logits(self, network: Network, features: Tensor) -> Tensor:
        """Unit-norm logits of the known classes."""
        return unit_norm(network.head(features))[:, : self.n_classes]

    @classmethod
    def published_margin(cls, logits: Floats, known: Floats) -> Floats:
        """Largest known logit minus the extra one: rejected if that is the argmax.

        The extra logit follows from the score, 1 − its probability.
        """
        top = logits.max(axis=1)
        total = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
        with np.errstate(divide="ignore"):  # a probability of 0 or 1: ± infinity
            extra = total + np.log1p(-known) - np.log(known)
        return top - extra

    def respond(self, network: Network, features: Tensor) -> Response:
        """Logits of the known classes; 1 − probability of the extra output."""
        outputs = unit_norm(network.head(features))
        known = 1 - outputs.softmax(dim=1)[:, self.n_classes]
        return Response(outputs[:, : self.n_classes], known)
