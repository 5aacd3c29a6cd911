"""The training methods by name."""

from typing import Any

from openset import _check
from openset.train.methods._base import Method
from openset.train.methods.arpl import ARPL
from openset.train.methods.arpl_cs import ARPLCS
from openset.train.methods.gcpl import GCPL
from openset.train.methods.noise import Noise
from openset.train.methods.objectosphere import Objectosphere
from openset.train.methods.openauc import AccAUC, OpenAUC
from openset.train.methods.overlay import Overlay
from openset.train.methods.proser import PROSER
from openset.train.methods.rpl import RPL
from openset.train.methods.softmax import CEPlus, Softmax
from openset.train.methods.tsoftmax import ThresholdedSoftmax
from openset.train.networks import Network

REGISTRY: dict[str, type[Method]] = {
    method.name: method
    for method in (
        Softmax,
        CEPlus,
        GCPL,
        RPL,
        ARPL,
        ARPLCS,
        AccAUC,
        OpenAUC,
        ThresholdedSoftmax,
        Noise,
        Overlay,
        Objectosphere,
        PROSER,
    )
}


def names() -> tuple[str, ...]:
    """Return the names of all methods.

    Examples
    --------
    >>> "openauc" in names()
    True
    """
    return tuple(REGISTRY)


def find(name: str) -> type[Method]:
    """Return the method of this name."""
    return REGISTRY[_check.one_of("train.fit", "method", name, names())]


def make(name: str, *, n_classes: int, network: Network, **options: Any) -> Method:
    """Make the method of this name; an option it does not have is an error.

    Examples
    --------
    >>> import torch
    >>> from openset.train.networks import MLP
    >>> network = MLP(3, example=torch.eye(4))
    >>> make("arpl", n_classes=3, network=network, weight=0.2).points.shape
    torch.Size([3, 64])
    """
    method = find(name)
    for option in options:
        _check.one_of(f"method {name}", "option", option, tuple(method.options()))
    return method(n_classes=n_classes, network=network, **options)
