"""Networks by name: our own, torchvision's, timm's, or a module of the caller's."""

from typing import Any

from torch import Tensor, nn

from openset import _check, _io
from openset.train import _head
from openset.train.networks._network import Network
from openset.train.networks.classifier32 import Classifier32
from openset.train.networks.mlp import MLP
from openset.train.networks.osrci import OSRCI

_CALLER = "train.fit"


def names() -> tuple[str, ...]:
    """Return the names of our own networks.

    Examples
    --------
    >>> names()
    ('classifier32', 'mlp', 'osrci')
    """
    return ("classifier32", "mlp", "osrci")


def make(
    network: str | nn.Module,
    n_outputs: int,
    example: Tensor,
    *,
    two_norms: bool = False,
) -> Network:
    """Make a network for a batch of inputs like `example`.

    Parameters
    ----------
    network
        One of :func:`names`; ``"torchvision:resnet18"``, ``"timm:convnext_tiny"``
        (random weights); or a model of your own, whose last linear layer must have
        `n_outputs` outputs.
    n_outputs
        Outputs of the last layer.
    example
        Some inputs: images (n, 3, h, w) or rows (n, d).
    two_norms
        See `Classifier32`; other networks have no such variant.

    Examples
    --------
    >>> import torch
    >>> make("classifier32", 6, torch.zeros(1, 3, 32, 32)).n_features
    128
    """
    if isinstance(network, nn.Module):
        if not isinstance(network, Network):
            network = _split(network, example)
        return _right_size(network, n_outputs)
    if two_norms and network != "classifier32":
        rule = "'classifier32', the one with two batch norms for each"
        msg = _check.must(rule, caller=_CALLER, name="network", got=repr(network))
        raise ValueError(msg)
    is_image = example.ndim == 4
    if network == "mlp":
        return MLP(n_outputs, example=example)
    if is_image and network == "classifier32":
        return Classifier32(n_outputs, two_norms=two_norms)
    if is_image and network == "osrci":
        return OSRCI(n_outputs, side=example.shape[-1], channels=example.shape[1])
    source, _, name = str(network).partition(":")
    if is_image and source in ("torchvision", "timm") and name:
        return _split(_foreign(source, name, n_outputs), example)
    ours = f"one of {', '.join(names())}, torchvision:NAME, timm:NAME, or an nn.Module"
    rule = ours if is_image else "'mlp' or an nn.Module for rows of numbers"
    msg = _check.must(rule, caller=_CALLER, name="network", got=repr(network))
    raise ValueError(msg)


def _foreign(source: str, name: str, n_outputs: int) -> nn.Module:
    library: Any = _io.optional(_CALLER, source, name="vision")
    try:
        if source == "timm":
            return library.create_model(name, num_classes=n_outputs)
        return library.models.get_model(name, num_classes=n_outputs)
    except (ValueError, RuntimeError) as error:
        msg = f"{_CALLER}: network must be a model of {source}, got {name!r} ({error})"
        raise ValueError(msg) from error


def _split(model: nn.Module, example: Tensor) -> Network:
    """Take the last linear layer off: what is left makes the features."""
    first = example[:2].float()
    with _head.evaluating(model):
        head = _head.by_running(_CALLER, model, lambda: model(first))
    parent, _, name = head.name.rpartition(".")
    setattr(model.get_submodule(parent), name, nn.Identity())
    return Network(model, head.layer)


def _right_size(network: Network, n_outputs: int) -> Network:
    if network.head.out_features != n_outputs:
        msg = _check.must(
            f"a model with {n_outputs} outputs",
            caller=_CALLER,
            name="network",
            got=f"{network.head.out_features}",
            remedy="One output per known class, and what the method adds to them",
        )
        raise ValueError(msg)
    return network
