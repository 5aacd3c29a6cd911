"""Softmax, CE+ and LogitNorm: cross-entropy, with different recipes, scores, scales."""

from typing import Any

from torch import Tensor

from openset import _check
from openset.train.methods.base import Loss, Method, full_precision
from openset.train.networks import Network


class Softmax(Method):
    r"""Cross-entropy; the score is the largest probability.

    .. math:: L = -\log p_y(x), \qquad p = \operatorname{softmax}(z)

    References
    ----------
    Chen et al. (2021), Adversarial reciprocal points learning for open set recognition:
    the baseline of its tables, trained by recipe "arpl".
    """

    paper = "ARPL (Chen et al. 2021), baseline"
    score = "msp"

    def loss(self, network: Network, inputs: Tensor, labels: Tensor) -> Loss:
        """Cross-entropy of the batch."""
        logits = network(inputs)
        return self.cross_entropy(logits, labels), logits


class CEPlus(Softmax):
    """Cross-entropy with a strong recipe; the score is the largest raw logit.

    References
    ----------
    Vaze et al. (2022), Open-set recognition: a good closed-set classifier is all you
    need.
    """

    title = "CE+"
    paper = "Good closed-set classifier (Vaze et al. 2022)"
    score = "maxlogit"


class LogitNorm(Method):
    r"""Cross-entropy of the logits divided by their length and a temperature.

    .. math:: L = -\log \operatorname{softmax}_y
              \left( \frac{z}{\tau (\|z\| + 10^{-7})} \right)

    At test time the logits stay as they are; the score is their largest probability.

    Parameters
    ----------
    temperature
        τ; 0.04 is the authors' choice for CIFAR-10.

    References
    ----------
    Wei et al. (2022), Mitigating neural network overconfidence with logit
    normalization.
    """

    paper = "LogitNorm (Wei et al. 2022)"
    score = "msp"
    temperature: float = 0.04

    def check(self, caller: str, network: Network) -> None:
        """Raise for a temperature of 0."""
        bounds: Any = {"low": 0, "open_low": True, "open_high": True}
        _check.number(caller, "temperature", self.temperature, **bounds)

    def loss(self, network: Network, inputs: Tensor, labels: Tensor) -> Loss:
        """Cross-entropy of logits of length 1/τ."""
        logits = full_precision(network(inputs))
        lengths = logits.norm(dim=1, keepdim=True) + 1e-7
        return self.cross_entropy(logits / lengths / self.temperature, labels), logits
