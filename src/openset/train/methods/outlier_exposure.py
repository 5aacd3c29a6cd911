"""Outlier Exposure: negatives should get equal probabilities."""

from torch import Tensor

from openset import _check
from openset.train.methods._negatives import WithNegatives, to_uniform
from openset.train.networks import Network


class OutlierExposure(WithNegatives):
    r"""Cross-entropy, and λ times that of negatives to equal probabilities.

    .. math:: L = \frac1n \sum_x -\log p_y(x)
              + \lambda \frac1m \sum_u -\tfrac1C \sum_c \log p_c(u)

    over n known samples x and m negatives u; the score is the largest probability.

    Parameters
    ----------
    weight
        λ; 0.5 for images, as published.
    ratio
        Negatives per known sample: 256 beside 128 in the authors' code.

    Notes
    -----
    It differs from the entropic open-set loss in the weight of the negatives alone:
    with λ = m/n the two losses are proportional.

    References
    ----------
    Hendrycks et al. (2019), Deep anomaly detection with outlier exposure, for
    classifiers of images; trained from scratch ("OE scratch") or fine-tuned.

    Examples
    --------
    >>> import torch
    >>> from openset.train.methods import make
    >>> from openset.train.networks import MLP
    >>> rows = torch.eye(4)
    >>> network = MLP(3, example=rows)
    >>> method = make("outlier_exposure", n_classes=3, network=network)
    >>> method.n_negatives(128)
    256
    """

    name = "outlier_exposure"
    title = "Outlier Exposure"
    paper = "Outlier Exposure (Hendrycks et al. 2019)"
    score = "msp"

    def __init__(
        self,
        *,
        n_classes: int,
        network: Network,
        smoothing: float = 0.0,
        weight: float = 0.5,
        ratio: float = 2.0,
    ) -> None:
        super().__init__(
            n_classes=n_classes, network=network, smoothing=smoothing, ratio=ratio
        )
        caller = f"method {self.name}"
        self.weight = _check.number(caller, "weight", weight, low=0, open_high=True)

    def loss(
        self,
        network: Network,
        inputs: Tensor,
        labels: Tensor,
        phase: str,
        negatives: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Cross-entropy of known samples, and of negatives to equal probabilities."""
        n = labels.shape[0]
        _, logits = self.together(network, inputs, negatives)
        known = self.cross_entropy(logits[:n], labels)
        return known + self.weight * to_uniform(logits[n:]).mean(), logits[:n]
