"""RPL: each class has a reciprocal point, which stands for all other classes."""

import torch
from torch import Tensor, nn

from openset.train.methods._points import PointMethod
from openset.train.networks import Network


class RPL(PointMethod):
    r"""The farther a sample is from a class's reciprocal point, the larger the logit.

    .. math:: z_c = d(x, p_c), \qquad
              L = \text{CE}(z, y) + \lambda \, \overline{(d(x, p_y) - R)^2}

    with :math:`d(x, p) = \|x - p\|^2 / \dim x` and one learnable R, at first 0; the
    score is the largest probability.

    Parameters
    ----------
    weight
        λ: weight of the term with the radius.

    References
    ----------
    Chen et al. (2020), Learning open set network with discriminative reciprocal points.
    One point per class, as in the release.
    """

    name = "rpl"
    title = "RPL"
    paper = "Reciprocal points (Chen et al. 2020)"
    score = "msp"

    def __init__(
        self,
        *,
        n_classes: int,
        network: Network,
        smoothing: float = 0.0,
        weight: float = 0.1,
    ) -> None:
        super().__init__(
            n_classes=n_classes, network=network, smoothing=smoothing, weight=weight
        )
        self.radius = nn.Parameter(torch.zeros(()))

    def from_points(self, distances: Tensor, products: Tensor) -> Tensor:
        """Return the distances: far samples get large logits."""
        return distances

    def penalty(self, own: Tensor) -> Tensor:
        """Mean squared gap to the radius."""
        return ((own - self.radius) ** 2).mean()
