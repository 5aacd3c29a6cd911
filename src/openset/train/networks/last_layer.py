"""The last linear layer of a network: finding it, and recording what goes through."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from openset import _check, _extras

with _extras.importing("openset.train", "torch"):
    import torch
    from torch import Tensor, nn

_SHOWN = 6  # layers in a message: a large network has hundreds
_REMEDY = "Name the layer: head='fc' (see model.named_modules())"


_NO_LAYER = (
    "It must end in one. For another kind of last layer, collect the arrays yourself: "
    "Outputs(logits=..., features=...)"
)


@dataclass(frozen=True, eq=False)
class Head:
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
        rule, got = "an nn.Module", type(model).__name__
        raise TypeError(_check.must(rule, caller=caller, name="model", got=got))


def named(caller: str, model: nn.Module, head: str | nn.Module) -> Head:
    """Return the layer that a caller gave, or gave the name of."""
    if isinstance(head, nn.Module):
        names = [name for name, module in model.named_modules() if module is head]
        if not names:
            got = f"a {type(head).__name__} that is no part of it"
            msg = _check.must(
                "a layer of the model", caller=caller, name="head", got=got
            )
            raise ValueError(msg)
        return _linear(caller, names[0], head)
    try:
        layer = model.get_submodule(head)
    except AttributeError:
        known = ", ".join(name for name, _ in linears(model)) or "none"
        rule = f"the name of a linear layer of the model ({known})"
        msg = _check.must(rule, caller=caller, name="head", got=repr(head))
        raise ValueError(msg) from None
    return _linear(caller, head, layer)


def _linear(caller: str, name: str, layer: nn.Module) -> Head:
    if not isinstance(layer, nn.Linear):
        got = f"{name!r}, a {type(layer).__name__}"
        msg = _check.must("an nn.Linear", caller=caller, name="head", got=got)
        raise TypeError(msg)
    return Head(name, layer)


def linears(model: nn.Module) -> list[tuple[str, nn.Linear]]:
    """Return the names and linear layers of a model."""
    return [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Linear)]


def by_shape(
    caller: str,
    model: nn.Module,
    *,
    n_classes: int | None = None,
    n_features: int | None = None,
) -> Head:
    """Return the only linear layer of these sizes; several or none are an error."""
    everyone = linears(model)
    fits = [
        (name, layer)
        for name, layer in everyone
        if n_classes in (None, layer.out_features)
        and n_features in (None, layer.in_features)
    ]
    if len(fits) == 1:
        return Head(*fits[0])
    sizes = {"outputs": n_classes, "inputs": n_features}
    asked = " and ".join(f"{n} {what}" for what, n in sizes.items() if n is not None)
    rule = f"the only linear layer with {asked}" if asked else "the only linear layer"
    if fits:
        got = f"{len(fits)}: {_listed(fits)}"
        remedy = f"{_REMEDY}, or give example=, an input to find it with"
    else:
        got = f"none among {_listed(everyone)}" if everyone else "no linear layer"
        remedy = "Use the model whose outputs the rejector was calibrated on"
    msg = _check.must(rule, caller=caller, name="the head", got=got, remedy=remedy)
    raise ValueError(msg)


def by_running(
    caller: str, model: nn.Module, run: Any, *, remedy: str = _REMEDY
) -> Head:
    """Run the model once and return the linear layer whose output is the model's."""
    made: dict[str, list[Tensor]] = {}
    handles = [
        layer.register_forward_hook(
            lambda _module, _inputs, output, name=name: made.setdefault(
                name, []
            ).append(output)
        )
        for name, layer in linears(model)
    ]
    try:
        final = logits_of(caller, run())
    finally:
        for handle in handles:
            handle.remove()
    fits = [
        name
        for name, outputs in made.items()
        if any(is_same(output, final) for output in outputs)
    ]
    if len(fits) != 1:
        last = ", ".join([*made][-_SHOWN:])
        among = f" among {last}" if len(made) <= _SHOWN else f"; the last are {last}"
        msg = _check.must(
            "the linear layer whose output is the model's",
            caller=caller,
            name="the head",
            got=f"{', '.join(fits) or 'none'}{among if made else ': no nn.Linear ran'}",
            # A layer that is not there cannot be named.
            remedy=remedy if made or remedy != _REMEDY else _NO_LAYER,
        )
        raise ValueError(msg)
    return named(caller, model, fits[0])


def warn_of_changed_logits(
    caller: str, head: Head, output: Any, logits: Tensor
) -> None:
    """Warn if a model returned other logits than those of its head."""
    several = output if isinstance(output, tuple | list) else [output]
    if isinstance(output, Mapping):
        several = list(output.values())
    elif hasattr(output, "logits"):
        several = [output.logits]
    if any(_are_logits(one, logits) for one in several):
        return
    msg = (
        f"{caller}: the model changes the output of {head.name!r} before it returns "
        f"it, and the logits kept are those of {head.name!r}: scores such as MSP or "
        "energy are not those of the model. If it scales them, let the weights of the "
        "layer include the scale; otherwise collect the arrays yourself: "
        "Outputs(logits=..., features=...)"
    )
    warnings.warn(msg, stacklevel=5)


def _are_logits(output: Any, logits: Tensor) -> bool:
    """Whether a model returns these logits, or their softmax or log-softmax."""
    if not isinstance(output, Tensor) or output.shape != logits.shape:
        return False
    output, logits = output.detach().float(), logits.float()
    probabilities = logits.softmax(dim=-1), logits.log_softmax(dim=-1)
    return any(
        torch.allclose(output, one, rtol=1e-3, atol=1e-3)
        for one in (logits, *probabilities)
    )


def is_same(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors are the same numbers in memory, perhaps reshaped."""
    return a is b or (
        a.data_ptr() == b.data_ptr() and a.numel() == b.numel() and a.dtype == b.dtype
    )


def logits_of(caller: str, output: Any) -> Tensor:
    """Return the logits from whatever a model returns."""
    found = output
    if isinstance(output, Mapping):
        found = output.get("logits")
    elif hasattr(output, "logits"):
        found = output.logits
    elif isinstance(output, tuple | list) and output:
        found = output[0]
    if not isinstance(found, Tensor):
        rule = "a tensor, a tuple that starts with one, or have .logits"
        got = type(output).__name__
        msg = _check.must(rule, caller=caller, name="what the model returns", got=got)
        raise TypeError(msg)
    return found


def check_recorded(
    caller: str, head: Head, recorded: list[tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """Return features and logits of one pass, with exactly one call of the layer."""
    if len(recorded) != 1:
        got = f"{len(recorded)} calls"
        msg = _check.must(
            "called once per pass", caller=caller, name=f"head {head.name!r}", got=got
        )
        raise ValueError(msg)
    features, logits = recorded[0]
    if features.ndim != 2:
        msg = _check.must(
            "of shape (n, d)",
            caller=caller,
            name=f"the input of {head.name!r}",
            got=f"shape {tuple(features.shape)}",
            remedy="Pool tokens or pixels before the last layer",
        )
        raise ValueError(msg)
    return features, logits


@contextmanager
def recording(head: Head) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Collect (features, logits) of every call of the last layer."""
    recorded: list[tuple[Tensor, Tensor]] = []

    def hook(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        recorded.append((inputs[0].detach(), output.detach()))

    handle = head.layer.register_forward_hook(hook)
    try:
        yield recorded
    finally:
        handle.remove()


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


def _listed(layers: list[tuple[str, nn.Linear]]) -> str:
    return ", ".join(
        f"{name} ({layer.in_features} to {layer.out_features})"
        for name, layer in layers
    )
