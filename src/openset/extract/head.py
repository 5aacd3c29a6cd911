"""The last linear layer of a network: finding it, and recording what layers make."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

from numpy.typing import NDArray

from openset import _check
from openset._optional import needs
from openset._xp import to_numpy

with needs("torch"):
    import torch
    from torch import Tensor, nn

_SHOWN = 6  # layers in a message: a large network has hundreds
_REMEDY = (
    "Name it: head='fc' (see model.named_modules()); or collect the arrays yourself: "
    "Outputs(logits=..., features=...)"
)
Call = tuple[Any, Any]
"""Last input and output of a layer."""


class Head(NamedTuple):
    """The last linear layer and its name in the model."""

    name: str
    layer: nn.Linear

    @property
    def sizes(self) -> dict[str, int]:
        """Number of its outputs and inputs."""
        layer = self.layer
        return {"n_classes": layer.out_features, "n_features": layer.in_features}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return weight (C, d) and bias (C,): zeros if the layer has none."""
        weight, bias = self.layer.weight, self.layer.bias
        bias = weight.new_zeros(len(weight)) if bias is None else bias
        return {"weight": to_numpy(weight), "bias": to_numpy(bias)}


def linears(caller: str, model: Any) -> list[Head]:
    """Return the linear layers of a model; raise TypeError if it is none."""
    if not isinstance(model, nn.Module):
        got = type(model).__name__
        _check.fail(caller, "model", "an nn.Module", got, error=TypeError)
    layers = model.named_modules()
    return [Head(name, one) for name, one in layers if isinstance(one, nn.Linear)]


def named(caller: str, model: nn.Module, given: str | nn.Module) -> Head:
    """Return the linear layer that a caller gave, or gave the name of."""
    layers = linears(caller, model)
    fits = [one for one in layers if one.layer is given or one.name == given]
    return _only(caller, fits, layers, "a linear layer of the model")


def of_size(caller: str, model: nn.Module, sizes: Mapping[str, int | None]) -> Head:
    """Return the only linear layer of a size: `n_classes`, `n_features`."""
    layers = linears(caller, model)
    wanted = {name: size for name, size in sizes.items() if size is not None}
    fits = [one for one in layers if wanted.items() <= one.sizes.items()]
    of = " and ".join(f"{name} {size}" for name, size in wanted.items())
    return _only(caller, fits, layers, f"the only linear layer with {of}")


def found(caller: str, model: nn.Module, run: Callable[[], Any]) -> Head:
    """Run a model once; return the linear layer whose output is the model's."""
    layers = linears(caller, model)
    with evaluating(model), recording(dict(layers)) as calls:
        final = logits_of(caller, run())
    ran = [one for one in layers if one.name in calls]
    fits = [o for o in ran if any(_is_same(made, final) for _, made in calls[o.name])]
    return _only(caller, fits, ran, "the linear layer whose output is the model's")


def _only(caller: str, fits: list[Head], layers: list[Head], rule: str) -> Head:
    if len(fits) != 1:
        shown = [f"{name}: {layer}" for name, layer in (fits or layers)[-_SHOWN:]]
        got = f"{len(fits)} of {', '.join(shown) or 'no nn.Linear'}"
        _check.fail(caller, "the head", rule, got, _REMEDY)
    return fits[0]


def _is_same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are the same numbers in memory, perhaps reshaped."""
    return a is b or (
        a.data_ptr() == b.data_ptr() and a.numel() == b.numel() and a.dtype == b.dtype
    )


def logits_of(caller: str, output: Any) -> Tensor:
    """Return the logits from whatever a model returns."""
    made = getattr(output, "logits", output)
    made = made.get("logits") if isinstance(made, Mapping) else made
    made = made[0] if isinstance(made, tuple | list) and made else made
    if not isinstance(made, Tensor):
        rule = "a tensor, a tuple that starts with one, or have .logits"
        name, got = "what the model returns", type(output).__name__
        _check.fail(caller, name, rule, got, error=TypeError)
    return made


@contextmanager
def recording(layers: Mapping[str, nn.Module]) -> Iterator[dict[str, list[Call]]]:
    """Collect the calls of layers by name; clear it before the next pass."""
    calls: dict[str, list[Call]] = {}

    def keep(name: str, _layer: nn.Module, inputs: Any, output: Any) -> None:
        # Of a training method, which is called with the network and features, the last.
        calls.setdefault(name, []).append((inputs[-1] if inputs else None, output))

    with ExitStack() as stack:
        for name, layer in layers.items():
            stack.callback(layer.register_forward_hook(partial(keep, name)).remove)
        yield calls


def only_call(caller: str, name: str, recorded: list[Call]) -> Call:
    """Return features and logits of a pass that called the layer once, on rows."""
    if len(recorded) != 1 or recorded[0][0].ndim != 2:
        shapes = ", ".join(str(tuple(features.shape)) for features, _ in recorded)
        rule = "called once per pass, on rows (n, d)"
        remedy = "Pool tokens or pixels before the last layer"
        got = f"calls on {shapes or 'none'}"
        _check.fail(caller, f"head {name!r}", rule, got, remedy)
    return recorded[0]


def inner_layers(model: nn.Module, names: Sequence[str]) -> dict[str, nn.Module]:
    """Return layers by name, as in ``model.named_modules()``."""
    modules = dict(model.named_modules())
    for name in names:
        if name not in modules:
            near, rule = _check.near(name, [*modules]), "names in model.named_modules()"
            _check.fail("extract", "layers", rule, repr(name), near)
    return {name: modules[name] for name in names}


def inner_features(names: Sequence[str], calls: Mapping[str, list[Call]]) -> Tensor:
    """Return the means of the channels of layers, over pixels or tokens, in a row."""
    rows = []
    for name in names:
        recorded = [made for _, made in calls.get(name, [])]
        made = recorded[0] if len(recorded) == 1 else None
        while isinstance(made, tuple | list) and made:  # blocks of transformers
            made = made[0]
        if not isinstance(made, Tensor) or made.ndim < 2:
            rule = "called once per pass and return a tensor (n, channels, ...)"
            got = f"{len(recorded)} calls, {[type(one).__name__ for one in recorded]}"
            remedy = "Name the block that it is part of"
            _check.fail("extract", f"layer {name!r}", rule, got, remedy)
        made = made.transpose(1, 2) if made.ndim == 3 else made  # tokens
        rows.append(made.flatten(2).mean(dim=2) if made.ndim > 2 else made)
    return torch.cat(rows, dim=1)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode without gradients, and back to each module's mode."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def with_layer(model: nn.Module, name: str, layer: nn.Module) -> nn.Module:
    """Put a layer in the place of the one of that name; return the model."""
    if not name:
        return layer
    model.set_submodule(name, layer)
    return model
