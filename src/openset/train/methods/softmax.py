"""Softmax and CE+: cross-entropy, with different recipes and scores."""

from torch import Tensor

from openset.train.methods._base import Method
from openset.train.networks import Network


class Softmax(Method):
    r"""Cross-entropy; the score is the largest probability.

    .. math:: L = -\log p_y(x), \qquad p = \operatorname{softmax}(z)

    References
    ----------
    Chen et al. (2021), Adversarial reciprocal points learning for open set recognition:
    the baseline of its tables, trained by recipe "arpl".
    """

    name = "softmax"
    title = "Softmax"
    paper = "ARPL (Chen et al. 2021), baseline"
    score = "msp"

    def loss(
        self, network: Network, inputs: Tensor, labels: Tensor, phase: str
    ) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the batch."""
        logits = network(inputs)
        return self.cross_entropy(logits, labels), logits


class CEPlus(Softmax):
    """Cross-entropy with a strong recipe; the score is the largest raw logit.

    References
    ----------
    Vaze et al. (2022), Open-set recognition: a good closed-set classifier is all you
    need. Recipe "ceplus": long cosine schedule with restarts, RandAugment, label
    smoothing.
    """

    name = "ceplus"
    title = "CE+"
    paper = "Good closed-set classifier (Vaze et al. 2022)"
    score = "maxlogit"
