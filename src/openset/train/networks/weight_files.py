"""Weights by name, read from a file without running code from it."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from openset import _check, _extras
from openset._types import ArtefactError

_INNER = ("state_dict", "model", "net")  # where checkpoints keep the weights
_SHOWN = 3  # names in a message


def read_weights(path: Path, *, caller: str, name: str = "weights") -> dict[str, Any]:
    """Read a ``.safetensors`` or ``.pth`` file; its tensors by name."""
    if not path.exists():
        msg = f"{caller}: {name} must be a file, got {path}, which does not exist"
        raise FileNotFoundError(msg)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file  # noqa: PLC0415

            return dict(load_file(path))
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # several libraries, each with classes of its own
        rule = "a .safetensors or .pth file of tensors"
        got = f"{path} ({_extras.first_line(error)})"
        msg = _check.must(rule, caller=caller, name=name, got=got)
        raise ArtefactError(msg) from error
    while isinstance(state, Mapping) and not _are_tensors(state):
        inner = [state[n] for n in _INNER if n in state]
        if not inner:
            rule = "tensors by name, or hold them as state_dict or model"
            got = ", ".join(map(str, list(state)[:6]))
            _check.fail(caller, name, rule, got, error=ArtefactError)
        state = inner[0]
    return {str(name).removeprefix("module."): one for name, one in state.items()}


def fill(
    model: nn.Module,
    state: Mapping[str, Any],
    *,
    caller: str,
    name: str,
    but: str | None = None,
) -> None:
    """Load weights into a network; raise unless names and shapes match.

    Parameters
    ----------
    model, state
        The network, and weights by name.
    caller, name
        For errors.
    but
        A layer that keeps its weights.
    """
    start = f"{but}."
    is_left = {n for n in (*state, *model.state_dict()) if but and n.startswith(start)}
    given = {n: one for n, one in state.items() if n not in is_left}
    own = {n: tuple(one.shape) for n, one in model.state_dict().items()}
    other = [n for n in given if n in own and own[n] != tuple(given[n].shape)]
    if other:
        first, rule = other[0], "weights of the network"
        shape = tuple(given[first].shape)
        got = f"{first} of shape {shape}, which is {own[first]} in it"
        _check.fail(caller, name, rule, got, error=ArtefactError)
    found = model.load_state_dict(given, strict=False)
    missing = [n for n in found.missing_keys if n not in is_left]
    if missing or found.unexpected_keys:
        rule = f"weights with the names of the network's ({_some(own)})"
        extra = _some(found.unexpected_keys)
        got = f"{extra} which it does not have, and {_some(missing)} missing"
        remedy = "Rename them, or choose the network they were made for"
        _check.fail(caller, name, rule, got, remedy, ArtefactError)


def _some(names: Collection[str]) -> str:
    """Return the first names, and how many more there are."""
    shown = ", ".join([*names][:_SHOWN]) or "none"
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def _are_tensors(state: Mapping[Any, Any]) -> bool:
    return all(isinstance(one, torch.Tensor) for one in state.values())
