"""Additional samples that run through a network together with a batch."""

from typing import Any

import torch
from torch import Tensor

from openset.train.networks import Network


class WithExtraSamples:
    """A network for one call of a method's loss, which also runs additional samples.

    It is used like the network itself. The first pass through the backbone also runs
    the additional samples, in one batch, so that batch norm treats them like the
    others; they are removed again before the method gets the result. It is not a
    module: it has no parameters and exists for one update.

    Parameters
    ----------
    network
        The network.
    more
        The additional samples.

    Examples
    --------
    >>> from openset.train.networks import MLP
    >>> rows = torch.eye(4)
    >>> both = WithExtraSamples(MLP(3, example=rows), rows[:1])
    >>> both(rows).shape, both.features(4).shape
    (torch.Size([4, 3]), torch.Size([5, 64]))
    """

    def __init__(self, network: Network, more: Tensor) -> None:
        self._network = network
        self._n_more = more.shape[0]
        # Each is there for a while only: at the door, half way, at the end.
        self._waiting: Tensor | None = more
        self._hidden: Tensor | None = None
        self._features: Tensor | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)  # sizes, places, the head

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return the logits of the method's samples."""
        return self._network.head(self.backbone(inputs))

    def backbone(self, inputs: Tensor) -> Tensor:
        """Return the features of the method's samples."""
        if self._waiting is None:
            return self._network.backbone(inputs)
        together, self._waiting = torch.cat([inputs, self._waiting]), None
        return self._arrived(self._network.backbone(together))

    def before(self, inputs: Tensor, place: str) -> Tensor:
        """Run the part of the backbone that lies before `place`."""
        if self._waiting is None:
            return self._network.before(inputs, place)
        together, self._waiting = torch.cat([inputs, self._waiting]), None
        hidden = self._network.before(together, place)
        self._hidden = hidden[-self._n_more :]
        return hidden[: -self._n_more]

    def after(self, hidden: Tensor, place: str) -> Tensor:
        """Run the part of the backbone behind `place`; return features."""
        if self._hidden is None:
            return self._network.after(hidden, place)
        together, self._hidden = torch.cat([hidden, self._hidden]), None
        return self._arrived(self._network.after(together, place))

    def _arrived(self, features: Tensor) -> Tensor:
        self._features = features
        return features[: -self._n_more]

    def features(self, n: int) -> Tensor:
        """Return the features of the first `n` samples, then of the additional ones.

        The first samples of a method are those of its batch; synthetic ones follow
        them.
        """
        found = self._features
        if found is None:
            msg = (
                "train.fit: auxiliary must be 'none' for a method whose loss does not "
                "run the network it is given (network(inputs), network.backbone, or "
                "network.before and network.after)"
            )
            raise TypeError(msg)
        if found.shape[0] == n + self._n_more:
            return found
        return torch.cat([found[:n], found[-self._n_more :]])
