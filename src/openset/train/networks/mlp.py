"""`MLP`: a small network for tables, and for features of another network."""

from collections import OrderedDict

import torch
from torch import Tensor, nn

from openset.train.networks.network import Network


class _Standardise(nn.Module):
    """Flatten, shift and scale each column; the numbers belong to the network."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        # A constant column carries nothing: leave it at zero.
        self.register_buffer("scale", torch.where(std > 0, 1 / std, 0.0))

    def forward(self, rows: Tensor) -> Tensor:
        return (rows.flatten(1) - self.mean) * self.scale


class MLP(Network):
    """Standardised columns, two hidden layers with ReLU, a linear layer.

    Parameters
    ----------
    n_classes
        Number of outputs.
    example
        Training inputs, whose mean and spread standardise the columns of a table, shape
        (n, d). Images, which are flattened, have one mean and one spread: otherwise a
        pixel that is black in all examples would be divided by almost zero.
    width
        Size of the hidden layers.

    Examples
    --------
    >>> MLP(3, example=torch.eye(4), width=8)(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(self, n_classes: int, *, example: Tensor, width: int = 64) -> None:
        rows = example.flatten(1).to(torch.float64)
        mean, spread = rows.mean(dim=0), rows.std(dim=0, correction=0)
        if example.ndim > 2:
            mean = rows.mean().expand_as(mean).clone()
            spread = rows.std(correction=0).expand_as(spread).clone()
        parts: OrderedDict[str, nn.Module] = OrderedDict(
            standard=_Standardise(mean.float(), spread.float()),
            full1=nn.Sequential(nn.Linear(rows.shape[1], width), nn.ReLU()),
            full2=nn.Sequential(nn.Linear(width, width), nn.ReLU()),
        )
        super().__init__(nn.Sequential(parts), nn.Linear(width, n_classes))
