"""GCPL, RPL and ARPL: one learnable point per class in place of a linear layer."""

import torch
from torch import Tensor, nn

from openset.train.methods.base import Loss, Method, full_precision
from openset.train.networks import Network


class _Points(Method):
    r"""Logits from distances to points; a penalty on the distance to the class's point.

    .. math:: L = \text{CE}(z, y) + \lambda \, \text{penalty}(d(x, p_y)), \qquad
              d(x, p) = \|x - p\|^2 / \dim x
    """

    has_linear_head = False
    weight: float = 0.1

    def build(self, network: Network) -> None:
        """Draw the points; freeze the linear layer, which is not used."""
        self.points = nn.Parameter(
            0.1 * torch.randn(self.n_classes, network.n_features)
        )
        network.head.requires_grad_(requires_grad=False)

    def loss(self, network: Network, inputs: Tensor, labels: Tensor) -> Loss:
        """Cross-entropy over the points and the weighted penalty."""
        distances, products = compare(network.backbone(inputs), self.points)
        logits = self.from_points(distances, products)
        own = distances.gather(1, labels[:, None]).squeeze(1)
        penalty = self.weight * self.penalty(own)
        return self.cross_entropy(logits, labels) + penalty, logits

    def logits(self, network: Network, features: Tensor) -> Tensor:
        """Logits of the known classes, from the points."""
        return self.from_points(*compare(features, self.points))

    def from_points(self, distances: Tensor, products: Tensor) -> Tensor:
        """Return logits."""
        raise NotImplementedError

    def penalty(self, own: Tensor) -> Tensor:
        """Return the penalty, from each sample's distance to the point of its class."""
        raise NotImplementedError


class GCPL(_Points):
    r"""Cross-entropy over distances to prototypes, and compact classes around them.

    .. math:: z_c = -d(x, p_c), \qquad
              L = \text{CE}(z, y) + \tfrac{\lambda}{2} \, \overline{d(x, p_y)}

    References
    ----------
    Yang et al. (2018), Robust classification with convolutional prototype learning; in
    the form of the ARPL release.
    """

    paper = "Convolutional prototypes (Yang et al. 2018)"
    score = "msp"

    def from_points(self, distances: Tensor, products: Tensor) -> Tensor:
        """Return the logits of the formula."""
        return -distances

    def penalty(self, own: Tensor) -> Tensor:
        """Return the penalty of the formula."""
        return own.mean() / 2


class RPL(_Points):
    r"""The farther a sample is from a class's reciprocal point, the larger the logit.

    .. math:: z_c = d(x, p_c), \qquad
              L = \text{CE}(z, y) + \lambda \, \overline{(d(x, p_y) - R)^2}

    with one learnable R, at first 0.

    References
    ----------
    Chen et al. (2020), Learning open set network with discriminative reciprocal points.
    """

    paper = "Reciprocal points (Chen et al. 2020)"
    score = "msp"

    def build(self, network: Network) -> None:
        """Make the points, and the radius."""
        super().build(network)
        self.radius = nn.Parameter(torch.zeros(()))

    def from_points(self, distances: Tensor, products: Tensor) -> Tensor:
        """Return the logits of the formula."""
        return distances

    def penalty(self, own: Tensor) -> Tensor:
        """Return the penalty of the formula."""
        return ((own - self.radius) ** 2).mean()


class ARPL(RPL):
    r"""Like RPL; the logits also contain the inner product with the reciprocal point.

    .. math:: z_c = d(x, p_c) - x \cdot p_c, \qquad L = \text{CE}(z, y) +
              \lambda \, \overline{\max(0, d(x, p_y) - R + 1)}

    Trained by the recipe "ceplus" it is "ARPL+". The margin 1 is that of the hinge in
    the released code; the paper has none.

    References
    ----------
    Chen et al. (2021), Adversarial reciprocal points learning for open set recognition.
    """

    paper = "ARPL (Chen et al. 2021)"
    score = "maxlogit"

    def from_points(self, distances: Tensor, products: Tensor) -> Tensor:
        """Return the logits of the formula."""
        return distances - products

    def penalty(self, own: Tensor) -> Tensor:
        """Return the penalty of the formula."""
        return (own - self.radius + 1).relu().mean()


def compare(features: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean squared distances and dot products with the points, each (n, C).

    Examples
    --------
    >>> points = torch.tensor([[0.0, 0.0], [1.0, -1.0]])
    >>> compare(torch.tensor([[1.0, 2.0]]), points)
    (tensor([[2.5000, 4.5000]]), tensor([[ 0., -1.]]))
    """
    features = full_precision(features)
    # The difference of large squares is no business for bfloat16.
    with torch.autocast(features.device.type, enabled=False):
        products = features @ points.T
    squares = (features**2).sum(dim=1, keepdim=True) + (points**2).sum(dim=1)
    return (squares - 2 * products) / features.shape[1], products
