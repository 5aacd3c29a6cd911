"""Base of GCPL, RPL and ARPL: one learnable point per class, no linear layer."""

import torch
from torch import Tensor, nn

from openset import _check
from openset.train.methods._base import Method, full_precision
from openset.train.networks import Network


class PointMethod(Method, register=False):
    r"""Logits from distances to points; a penalty on the distance to the class's point.

    .. math:: L = \text{CE}(z, y) + \lambda \, \text{penalty}(d(x, p_y)), \qquad
              d(x, p) = \|x - p\|^2 / \dim x

    The linear layer of the network is not used: it is frozen, so that no optimiser and
    no exchange of gradients between processes waits for it.

    Parameters
    ----------
    weight
        λ.
    """

    has_linear_head = False

    def __init__(
        self,
        *,
        n_classes: int,
        network: Network,
        smoothing: float = 0.0,
        weight: float = 0.1,
    ) -> None:
        super().__init__(n_classes=n_classes, network=network, smoothing=smoothing)
        caller = f"method {self.name}"
        self.weight = _check.number(caller, "weight", weight, low=0, open_high=True)
        self.points = nn.Parameter(0.1 * torch.randn(n_classes, network.n_features))
        network.head.requires_grad_(requires_grad=False)

    def loss(
        self, network: Network, inputs: Tensor, labels: Tensor, phase: str
    ) -> tuple[Tensor, Tensor]:
        """Cross-entropy over the points and the weighted penalty."""
        distances, products = compare(network.backbone(inputs), self.points)
        logits = self.from_points(distances, products)
        own = distances.gather(1, labels[:, None]).squeeze(1)
        loss = self.cross_entropy(logits, labels) + self.weight * self.penalty(own)
        return loss, logits

    def logits(self, network: Network, features: Tensor) -> Tensor:
        """Logits of the known classes, from the points."""
        return self.from_points(*compare(features, self.points))

    def from_points(self, distances: Tensor, products: Tensor) -> Tensor:
        """Logits, from what `compare` returns."""
        raise NotImplementedError

    def penalty(self, own: Tensor) -> Tensor:
        """Penalty, from each sample's distance to the point of its class."""
        raise NotImplementedError


def compare(features: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean squared distances and dot products with the points, each (n, C).

    Examples
    --------
    >>> x, p = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 0.0], [1.0, -1.0]])
    >>> distances, products = compare(x, p)
    >>> distances.tolist(), products.tolist()
    ([[2.5, 4.5]], [[0.0, -1.0]])
    """
    features = full_precision(features)
    # The difference of large squares is no business for bfloat16.
    with torch.autocast(features.device.type, enabled=False):
        products = features @ points.T
    squares = (features**2).sum(dim=1, keepdim=True) + (points**2).sum(dim=1)
    return (squares - 2 * products) / features.shape[1], products
