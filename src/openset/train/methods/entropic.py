"""Entropic open-set loss: equal probabilities for samples of no known class."""

from torch import Tensor

from openset.train.methods._negatives import WithNegatives, mean_over_both, to_uniform
from openset.train.networks import Network


class Entropic(WithNegatives):
    r"""Cross-entropy; the target of negatives is the same probability for each class.

    .. math:: L(x) = \begin{cases}
              -\log p_y & x \text{ known} \\
              -\tfrac1C \sum_c \log p_c & x \text{ negative}
              \end{cases}

    averaged over all samples of both kinds; the score is the largest probability.

    Parameters
    ----------
    ratio
        Negatives per known sample. The paper shuffles both data sets into one, so that
        their sizes decide; here each batch has as many of both.

    References
    ----------
    Dhamija et al. (2018), Reducing network agnostophobia.

    Examples
    --------
    >>> import torch
    >>> from openset.train.methods import make
    >>> from openset.train.networks import MLP
    >>> rows = torch.eye(4)
    >>> network = MLP(3, example=rows)
    >>> method = make("entropic", n_classes=3, network=network)
    >>> labels = torch.tensor([0, 1, 2])
    >>> loss, logits = method.loss(network, rows[:3], labels, "classify", rows[3:])
    >>> logits.shape
    torch.Size([3, 3])
    """

    name = "entropic"
    title = "Entropic open-set loss"
    paper = "Network agnostophobia (Dhamija et al. 2018)"
    score = "msp"

    def loss(
        self,
        network: Network,
        inputs: Tensor,
        labels: Tensor,
        phase: str,
        negatives: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Mean of the cross-entropies of known samples and negatives."""
        n = labels.shape[0]
        _, logits = self.together(network, inputs, negatives)
        known = self.cross_entropy(logits[:n], labels)
        negative = to_uniform(logits[n:]).mean()
        m = logits.shape[0] - n
        return mean_over_both(known, negative, n, m), logits[:n]
