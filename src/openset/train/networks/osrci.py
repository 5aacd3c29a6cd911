"""`OSRCI`: the small network of the class-imbalance paper."""

from collections import OrderedDict

from torch import nn

from openset.train.networks.network import Network


class OSRCI(Network):
    """Two 5×5 convolutions with max pooling and dropout, then 64 features.

    Parameters
    ----------
    n_classes
        Number of outputs.
    side
        Side of the images: at least 16.
    channels
        Channels of the images.

    References
    ----------
    Class-imbalance paper (2024), section 4: convolutions to 10 and 20 channels,
    Dropout2d(0.5) before the second pooling.

    Examples
    --------
    >>> import torch
    >>> OSRCI(6, side=28)(torch.zeros(2, 3, 28, 28)).shape
    torch.Size([2, 6])
    """

    def __init__(self, n_classes: int, *, side: int = 32, channels: int = 3) -> None:
        left = ((side - 4) // 2 - 4) // 2
        parts: OrderedDict[str, nn.Module] = OrderedDict(
            conv1=nn.Sequential(nn.Conv2d(channels, 10, 5), nn.MaxPool2d(2), nn.ReLU()),
            conv2=nn.Sequential(
                nn.Conv2d(10, 20, 5), nn.Dropout2d(0.5), nn.MaxPool2d(2), nn.ReLU()
            ),
            full=nn.Sequential(nn.Flatten(), nn.Linear(20 * left**2, 64), nn.ReLU()),
        )
        super().__init__(nn.Sequential(parts), nn.Linear(64, n_classes))
