"""`Network`: the interface of a model for training methods."""

from collections.abc import Iterator

from torch import Tensor, nn

from openset import _check


class Network(nn.Module):
    """A backbone that computes features, and the linear layer that computes logits.

    Hidden states can be taken out and put back in between: methods that mix samples
    inside the network (manifold mixup) call :meth:`before`, mix, and go on with
    :meth:`after`.

    Parameters
    ----------
    backbone
        Maps a batch of inputs to features of shape (n, d). If it is an
        ``nn.Sequential``, each child but the last is a place to mix at.
    head
        The last linear layer.

    Examples
    --------
    >>> import torch
    >>> network = Network(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), nn.Linear(3, 2))
    >>> network.places
    ('input', '0', 'penultimate')
    >>> x = torch.ones(1, 4)
    >>> hidden = network.before(x, "0")
    >>> bool((network.head(network.after(hidden, "0")) == network(x)).all())
    True
    """

    def __init__(self, backbone: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    @property
    def n_features(self) -> int:
        """Length of the features."""
        return self.head.in_features

    @property
    def places(self) -> tuple[str, ...]:
        """Where hidden states can be mixed, from the pixels to the features."""
        inside = [name for name, _ in self._children()][:-1]
        return ("input", *inside, "penultimate")

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits."""
        return self.head(self.backbone(inputs))

    def before(self, inputs: Tensor, place: str) -> Tensor:
        """Run the part of the backbone that lies before `place`."""
        if place == "input":
            return inputs
        for name, child in self._children():
            inputs = child(inputs)
            if name == place:
                return inputs
        return inputs

    def after(self, hidden: Tensor, place: str) -> Tensor:
        """Run the part of the backbone behind `place`; return features."""
        is_behind = place == "input"
        for name, child in self._children():
            if is_behind:
                hidden = child(hidden)
            is_behind = is_behind or name == place
        return hidden

    def check_place(self, caller: str, place: str) -> str:
        """Raise for a place that this network does not have."""
        return _check.one_of(caller, "place", place, self.places)

    def _children(self) -> Iterator[tuple[str, nn.Module]]:
        if isinstance(self.backbone, nn.Sequential):
            yield from self.backbone.named_children()
        else:
            yield "backbone", self.backbone
