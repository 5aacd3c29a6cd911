"""The last linear layer of a network: finding it, and recording what goes through."""

from collections.abc import Callable, Iterator, Mapping
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
Call = tuple[Tensor, Tensor]
"""Input and output of a layer."""


class Head(NamedTuple):
    """The last linear layer and its name in the model."""

    name: str
    layer: nn.Linear

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


def of_size(caller: str, model: nn.Module, **sizes: int | None) -> Head:
    """Return the only linear layer of a size: `n_classes`, `n_features`."""
    layers = linears(caller, model)
    wanted = {name: one for name, one in sizes.items() if one is not None}
    fits = []
    for one in layers:
        has = {"n_classes": one.layer.out_features, "n_features": one.layer.in_features}
        if wanted.items() <= has.items():
            fits.append(one)
    of = " and ".join(f"{name} {one}" for name, one in wanted.items())
    return _only(caller, fits, layers, f"the only linear layer with {of or 'any size'}")


def found(caller: str, model: nn.Module, run: Callable[[], Any]) -> Head:
    """Run a model once; return the linear layer whose output is the model's."""
    layers = linears(caller, model)
    made: dict[str, list[Tensor]] = {}

    def keep(name: str, _layer: nn.Module, _inputs: Any, output: Tensor) -> None:
        made.setdefault(name, []).append(output)

    with evaluating(model), ExitStack() as stack:
        for name, layer in layers:
            hook = layer.register_forward_hook(partial(keep, name))
            stack.callback(hook.remove)
        final = logits_of(caller, run())
    ran = [one for one in layers if one.name in made]
    fits = [one for one in ran if any(_is_same(a, final) for a in made[one.name])]
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
    if isinstance(output, Mapping):
        made = output.get("logits")
    elif isinstance(made, tuple | list) and made:
        made = made[0]
    if not isinstance(made, Tensor):
        rule = "a tensor, a tuple that starts with one, or have .logits"
        name, got = "what the model returns", type(output).__name__
        _check.fail(caller, name, rule, got, error=TypeError)
    return made


@contextmanager
def recording(head: Head) -> Iterator[list[Call]]:
    """Collect (features, logits) of every call of the last layer."""
    recorded: list[Call] = []

    def hook(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        recorded.append((inputs[0].detach(), output.detach()))

    handle = head.layer.register_forward_hook(hook)
    try:
        yield recorded
    finally:
        handle.remove()


def only_call(caller: str, head: Head, recorded: list[Call]) -> Call:
    """Return features and logits of a pass that called the layer once, on rows."""
    if len(recorded) != 1 or recorded[0][0].ndim != 2:
        shapes = ", ".join(str(tuple(features.shape)) for features, _ in recorded)
        rule = "called once per pass, on rows (n, d)"
        remedy = "Pool tokens or pixels before the last layer"
        got = f"calls on {shapes or 'none'}"
        _check.fail(caller, f"head {head.name!r}", rule, got, remedy)
    return recorded[0]


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
