"""The last linear layer of a network: finding it, and recording what goes through."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

from openset import _check, _extras

with _extras.importing("openset.extract", "torch"):
    import torch
    from torch import Tensor, nn

_SHOWN = 6  # layers in a message: a large network has hundreds
REMEDY = (
    "Name it: head='fc' (see model.named_modules()); or collect the arrays yourself: "
    "Outputs(logits=..., features=...)"
)
Call = tuple[Tensor, Tensor]
"""Input and output of a layer."""


class Head(NamedTuple):
    """The last linear layer and its name in the model."""

    name: str
    layer: nn.Linear

    def weight(self) -> Tensor:
        """Weights, shape (C, d), outside of the graph."""
        return self.layer.weight.detach()

    def bias(self) -> Tensor:
        """Biases, shape (C,): zeros if the layer has none."""
        if self.layer.bias is None:
            return self.weight().new_zeros(self.layer.out_features)
        return self.layer.bias.detach()


def check_module(caller: str, model: Any) -> None:
    """Raise TypeError unless `model` is a network."""
    if not isinstance(model, nn.Module):
        got = type(model).__name__
        _check.fail(caller, "model", "an nn.Module", got, error=TypeError)


def linears(model: nn.Module) -> list[Head]:
    """Return the linear layers of a model."""
    layers = model.named_modules()
    return [Head(name, one) for name, one in layers if isinstance(one, nn.Linear)]


def named(caller: str, model: nn.Module, given: str | nn.Module) -> Head:
    """Return the linear layer that a caller gave, or gave the name of."""
    layers = linears(model)
    fits = [one for one in layers if one.layer is given or one.name == given]
    if not fits:
        names = ", ".join(one.name for one in layers[-_SHOWN:]) or "none"
        got = repr(given) if isinstance(given, str) else type(given).__name__
        _check.fail(caller, "head", f"a linear layer of the model ({names})", got)
    return fits[0]


def of_size(caller: str, model: nn.Module, **sizes: int | None) -> Head:
    """Return the only linear layer of a size: `n_classes`, `n_features`."""
    layers = linears(model)
    fits = [
        one
        for one in layers
        if sizes.get("n_classes") in (None, one.layer.out_features)
        and sizes.get("n_features") in (None, one.layer.in_features)
    ]
    if len(fits) != 1:
        wanted = [f"{name} {one}" for name, one in sizes.items() if one is not None]
        rule = f"the only linear layer with {' and '.join(wanted) or 'any size'}"
        shown = [f"{one.name}: {one.layer}" for one in (fits or layers)[-_SHOWN:]]
        got = f"{len(fits) or 'none'} of {', '.join(shown) or 'none'}"
        remedy = "Name it: head='fc', or give example=, an input to find it with"
        if not fits:
            remedy = "Use the model whose outputs the rejector was calibrated on"
        _check.fail(caller, "the head", rule, got, remedy)
    return fits[0]


def found(
    caller: str,
    model: nn.Module,
    run: Callable[[], Any],
    *,
    remedy: str = REMEDY,
) -> Head:
    """Run a model once; return the linear layer whose output is the model's."""
    made: dict[str, list[Tensor]] = {}

    def keep(name: str, _layer: nn.Module, _inputs: Any, output: Tensor) -> None:
        made.setdefault(name, []).append(output)

    with evaluating(model), ExitStack() as stack:
        for name, layer in linears(model):
            hook = layer.register_forward_hook(partial(keep, name))
            stack.callback(hook.remove)
        final = logits_of(caller, run())
    fits = [
        one
        for one in linears(model)
        if any(_is_same(output, final) for output in made.get(one.name, ()))
    ]
    if len(fits) != 1:
        last = ", ".join([*made][-_SHOWN:])
        got = f"{', '.join(one.name for one in fits) or 'none'}; the last are {last}"
        got = got if made else "none: no nn.Linear ran"
        rule = "the linear layer whose output is the model's"
        _check.fail(caller, "the head", rule, got, remedy)
    return fits[0]


def _is_same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are the same numbers in memory, perhaps reshaped."""
    return a is b or (
        a.data_ptr() == b.data_ptr() and a.numel() == b.numel() and a.dtype == b.dtype
    )


def logits_of(caller: str, output: Any) -> Tensor:
    """Return the logits from whatever a model returns."""
    made = output
    if isinstance(output, Mapping):
        made = output.get("logits")
    elif hasattr(output, "logits"):
        made = output.logits
    elif isinstance(output, tuple | list) and output:
        made = output[0]
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
    name = f"head {head.name!r}"
    if len(recorded) != 1:
        _check.fail(caller, name, "called once per pass", f"{len(recorded)} calls")
    features, logits = recorded[0]
    if features.ndim != 2:
        remedy = "Pool tokens or pixels before the last layer"
        shape = f"shape {tuple(features.shape)}"
        _check.fail(caller, f"the input of {name}", "of shape (n, d)", shape, remedy)
    return features, logits


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
