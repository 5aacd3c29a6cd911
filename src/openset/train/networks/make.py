"""Networks by name: of openset or timm; or the caller's own module."""

import copy
from pathlib import Path

from torch import Tensor, nn

from openset import _check, _io
from openset._optional import optional
from openset.extract import head as heads
from openset.extract.linear_head import read_tensors
from openset.train.networks.classifier32 import Classifier32, TwoNorms
from openset.train.networks.mlp import MLP
from openset.train.networks.network import Network
from openset.train.networks.osrci import OSRCI

_CALLER = "train.fit"
TIMM = "timm:"
"""Beginning of the names of networks that timm makes."""
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def names() -> tuple[str, ...]:
    """Return the names of the networks that come with openset.

    Examples
    --------
    >>> names()
    ('classifier32', 'mlp', 'osrci')
    """
    return ("classifier32", "mlp", "osrci")


def make(
    network: str | nn.Module | None,
    n_outputs: int,
    example: Tensor,
    *,
    two_norms: bool = False,
    dropout: float | None = None,
    pretrained: bool | str | Path = False,
) -> Network:
    """Make a network for a batch of inputs like `example`.

    Parameters
    ----------
    network
        One of :func:`names`; ``"timm:convnext_tiny"``; or a model of your own, whose
        last linear layer must have `n_outputs` outputs (a copy of it is taken).
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
        Of timm: True for the published weights, from the cache or downloaded, or a file
        of weights by name. The last layer is new in any case. Default: random weights.

    Examples
    --------
    >>> import torch
    >>> make("classifier32", 6, torch.zeros(1, 3, 32, 32)).n_features
    128
    """
    is_image = example.ndim == 4
    if isinstance(network, nn.Module):
        own = copy.deepcopy(network)  # the caller's stays as it is
        made = own if isinstance(own, Network) else _split(own, example)
    elif network == "mlp":
        made = MLP(n_outputs, example=example)
    elif is_image and network == "classifier32":
        made = Classifier32(n_outputs, two_norms=two_norms)
    elif is_image and network == "osrci":
        made = OSRCI(n_outputs, side=example.shape[-1], channels=example.shape[1])
    elif is_image and str(network).startswith(TIMM):
        made = _timm(str(network), n_outputs, example, pretrained=pretrained)
    else:
        rule = f"one of {', '.join(names())}, {TIMM}NAME, or an nn.Module"
        if not is_image:
            rule = "'mlp' or an nn.Module for rows of numbers"
        _check.fail(_CALLER, "network", rule, repr(network))
    if two_norms:
        _check_norms(made)
    if made.head.out_features != n_outputs:
        rule = f"a model with {n_outputs} outputs"
        remedy = "One output per known class, and what the method adds to them"
        _check.fail(_CALLER, "network", rule, made.head.out_features, remedy)
    for module in made.modules():
        if dropout is not None and isinstance(module, _DROPOUTS):
            module.p = dropout
    return made


def _timm(
    name: str, n_outputs: int, example: Tensor, *, pretrained: bool | str | Path
) -> Network:
    """Return a model of timm, with published weights, or those of a file."""
    model: nn.Module = optional("timm").create_model(
        name.removeprefix(TIMM), pretrained=pretrained is True, num_classes=n_outputs
    )
    head = _head_of(model, example)
    if not isinstance(pretrained, bool):  # not by timm, which would unpickle it
        state, path = model.state_dict(), Path(pretrained)
        own = {n: w for n, w in state.items() if n.startswith(f"{head.name}.")}
        with _io.naming(path):
            model.load_state_dict(read_tensors(path) | own)
    if pretrained:
        # timm draws the layer of some networks the larger the fewer classes there are:
        # up to 1 / sqrt(6) for six. The first steps would then spoil the features.
        head.layer.reset_parameters()
    return _split(model, example)


def normalisation(network: str) -> dict[str, tuple[float, ...]]:
    """Return mean and deviation of the pixels a model of timm was trained with."""
    config = optional("timm").get_pretrained_cfg(network.removeprefix(TIMM))
    if config is None:  # without published weights
        return {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    return {"mean": tuple(config.mean), "std": tuple(config.std)}


def _head_of(model: nn.Module, example: Tensor) -> heads.Head:
    return heads.found(_CALLER, model, lambda: model(example[:2].float()))


def _split(model: nn.Module, example: Tensor) -> Network:
    """Take the last linear layer off: what is left makes the features."""
    head = _head_of(model, example)
    backbone = heads.with_layer(model, head.name, nn.Identity())
    with heads.evaluating(backbone):
        features = backbone(example[:2].float())
    shape = tuple(getattr(features, "shape", ()))
    if shape[1:] != (head.layer.in_features,):
        rule = "a model that returns logits (n, C), made by its last layer of rows"
        got = f"{type(features).__name__} {shape} in place of the features"
        remedy = "Return the logits as the last linear layer makes them (no softmax "
        remedy += "after it), or give a Network(backbone, head)"
        _check.fail(_CALLER, "network", rule, got, remedy, TypeError)
    return Network(backbone, head.layer)


def _check_norms(network: Network) -> None:
    """Refuse batch norms that generated images would share with real ones."""
    pairs = [m for m in network.modules() if isinstance(m, TwoNorms)]
    paired = {norm for pair in pairs for norm in pair.norms}
    for name, module in network.named_modules():
        if isinstance(module, _NORMS) and module not in paired:
            rule = "a model with TwoNorms for its batch norms"
            got = f"a {type(module).__name__}, {name}"
            remedy = "Generated images need batch norms of their own"
            _check.fail(_CALLER, "network", rule, got, remedy)
