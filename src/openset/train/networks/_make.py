"""Networks by name: of openset, torchvision or timm; or the caller's own module."""

import copy
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from openset import _check, _extras
from openset.extract import head as heads
from openset.train.networks._network import Network
from openset.train.networks.classifier32 import Classifier32, TwoNorms
from openset.train.networks.mlp import MLP
from openset.train.networks.osrci import OSRCI
from openset.train.networks.weight_files import fill, read_weights

_CALLER = "train.fit"
FOREIGN = ("timm:", "torchvision:")
"""Beginnings of the names of networks that other libraries make."""
_DROPOUTS = (
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)
_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def names() -> tuple[str, ...]:
    """Return the names of the networks that come with openset.

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
    dropout: float | None = None,
    pretrained: bool | Path = False,
) -> Network:
    """Make a network for a batch of inputs like `example`.

    Parameters
    ----------
    network
        One of :func:`names`; ``"torchvision:resnet18"``, ``"timm:convnext_tiny"``; or
        a model of your own, whose last linear layer must have `n_outputs` outputs (a
        copy of it is taken).
    n_outputs
        Outputs of the last layer.
    example
        Some inputs: images (n, 3, h, w) or rows (n, d).
    two_norms
        See `Classifier32`; our other networks have no batch norms and stay as they are.
        A model of your own must have `TwoNorms` for its batch norms.
    dropout
        Probability of all its dropout layers. Default: as the network has them.
    pretrained
        Of torchvision and timm: True for the published weights, from the cache or
        downloaded, or a file of weights by name. The last layer is new in any case.
        Default: random weights.

    Examples
    --------
    >>> import torch
    >>> make("classifier32", 6, torch.zeros(1, 3, 32, 32)).n_features
    128
    """
    made = _make(
        network, n_outputs, example, two_norms=two_norms, pretrained=pretrained
    )
    if dropout is not None:
        for module in made.modules():
            if isinstance(module, _DROPOUTS):
                module.p = dropout
    return made


def _make(
    network: str | nn.Module,
    n_outputs: int,
    example: Tensor,
    *,
    two_norms: bool,
    pretrained: bool | Path,
) -> Network:
    if isinstance(network, nn.Module):
        return _of_module(network, n_outputs, example, two_norms=two_norms)
    if two_norms and network not in names():
        rule = (
            "'classifier32', which has two sets of batch norms, or 'osrci', which has "
            "none"
        )
        msg = _check.must(rule, caller=_CALLER, name="network", got=repr(network))
        raise ValueError(msg)
    is_image = example.ndim == 4
    if network == "mlp":
        return MLP(n_outputs, example=example)
    if is_image and network == "classifier32":
        return Classifier32(n_outputs, two_norms=two_norms)
    if is_image and network == "osrci":
        return _osrci(n_outputs, example)
    source, _, name = str(network).partition(":")
    if is_image and source in ("torchvision", "timm") and name:
        model = _foreign(source, name, n_outputs)
        if pretrained:
            state = (
                read_weights(pretrained, caller=_CALLER)
                if isinstance(pretrained, Path)
                else _published(source, name)
            )
            _fill(model, state, example)
        return _split(model, example)
    ours = f"one of {', '.join(names())}, torchvision:NAME, timm:NAME, or an nn.Module"
    rule = ours if is_image else "'mlp' or an nn.Module for rows of numbers"
    kind = network.__name__ if isinstance(network, type) else ""
    msg = _check.must(
        rule,
        caller=_CALLER,
        name="network",
        got=repr(network),
        remedy=f"Pass an object of the class: {kind}(...)" if kind else "",
    )
    raise ValueError(msg)


def _of_module(
    given: nn.Module, n_outputs: int, example: Tensor, *, two_norms: bool
) -> Network:
    made = copy.deepcopy(given)  # the caller's own stays as it is
    network = made if isinstance(made, Network) else _split(made, example)
    if two_norms:
        _check_norms(network)
    return _right_size(network, n_outputs)


def _osrci(n_outputs: int, images: Tensor) -> OSRCI:
    _, channels, height, side = images.shape
    if height != side:
        msg = _check.must(
            "square for network 'osrci'",
            caller=_CALLER,
            name="images",
            got=f"{height}×{side}",
            remedy="Resize them: side=32",
        )
        raise ValueError(msg)
    return OSRCI(n_outputs, side=side, channels=channels)


def _foreign(source: str, name: str, n_outputs: int) -> nn.Module:
    library = _extras.library(_CALLER, source)
    try:
        if source == "timm":
            return library.create_model(name, num_classes=n_outputs)
        return library.models.get_model(name, num_classes=n_outputs)
    except (ValueError, RuntimeError) as error:
        msg = f"{_CALLER}: network must be a model of {source}, got {name!r} ({error})"
        raise ValueError(msg) from error


def _published(source: str, name: str) -> Mapping[str, Tensor]:
    """Return the published weights, from the cache or downloaded."""
    library = _extras.library(_CALLER, source)
    try:
        if source == "timm":
            return library.create_model(name, pretrained=True).state_dict()
        return library.models.get_model(name, weights="DEFAULT").state_dict()
    except Exception as error:  # several libraries, each with classes of its own
        msg = (
            f"{_CALLER}: pretrained must be weights that are here or can be "
            f"downloaded, got none for {source}:{name} ({_extras.first_line(error)}). "
            "Give a file of weights instead"
        )
        raise ValueError(msg) from error


def _fill(model: nn.Module, state: Mapping[str, Tensor], example: Tensor) -> None:
    """Put weights into a network, but for its last layer, which has other classes."""
    first = example[:2].float()
    with heads.evaluating(model):
        head = heads.found(_CALLER, model, lambda: model(first))
    fill(model, state, caller=_CALLER, name="pretrained", but=head.name)
    # timm draws the layer of some networks the larger the fewer classes there are: up
    # to 1 / sqrt(6) for six. The first steps would then spoil the features.
    head.layer.reset_parameters()


def normalisation(network: str) -> dict[str, tuple[float, ...]]:
    """Return mean and deviation of the pixels a published network was trained with."""
    source, _, name = network.partition(":")
    if source == "timm":
        found = _extras.library(_CALLER, "timm").get_pretrained_cfg(
            name
        )  # None without weights
        if found is not None:
            return {"mean": tuple(found.mean), "std": tuple(found.std)}
    return {"mean": _IMAGENET_MEAN, "std": _IMAGENET_STD}


def _split(model: nn.Module, example: Tensor) -> Network:
    """Take the last linear layer off: what is left makes the features."""
    first = example[:2].float()
    with heads.evaluating(model):
        head = heads.found(
            _CALLER,
            model,
            lambda: model(first),
            remedy="Return the logits as the last linear layer makes them (no softmax "
            "after it), or give a Network(backbone, head)",
        )
    if head.layer is model:
        return Network(nn.Identity(), head.layer)
    parent, _, name = head.name.rpartition(".")
    setattr(model.get_submodule(parent), name, nn.Identity())
    with heads.evaluating(model):
        features = model(first)
    is_tensor = isinstance(features, Tensor)
    if not is_tensor or features.shape != (len(first), head.layer.in_features):
        kind = f"a {type(features).__name__}"
        shown = f"shape {tuple(features.shape)}" if is_tensor else kind
        msg = _check.must(
            "a model that returns logits (n, C), made by its last layer of rows (n, d)",
            caller=_CALLER,
            name="network",
            got=f"{shown} in place of the features",
            remedy="Wrap it in a module that returns logits, or give a "
            "Network(backbone, head)",
        )
        raise TypeError(msg)
    return Network(model, head.layer)


def _check_norms(network: nn.Module) -> None:
    paired = {id(n) for m in network.modules() if isinstance(m, TwoNorms)
              for n in m.norms}  # fmt: skip
    for name, module in network.named_modules():
        if isinstance(module, _BATCH_NORMS) and id(module) not in paired:
            msg = _check.must(
                "a model with TwoNorms for its batch norms",
                caller=_CALLER,
                name="network",
                got=f"a {type(module).__name__}, {name}",
                remedy="Generated images need batch norms of their own",
            )
            raise ValueError(msg)


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
