"""Weights by name, read from a file without running anything in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from openset import _io
from openset._types import ArtefactError

_INNER = ("state_dict", "model", "net")  # where checkpoints keep the weights


def read_weights(path: Path, *, caller: str) -> dict[str, Any]:
    """Read a ``.safetensors`` or ``.pth`` file; its tensors by name."""
    if not path.exists():
        msg = f"{caller}: weights must be a file, got {path}, which does not exist"
        raise FileNotFoundError(msg)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file  # noqa: PLC0415

            return dict(load_file(path))
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # several libraries, each with classes of its own
        msg = (
            f"{caller}: weights must be a .safetensors or .pth file of tensors, got "
            f"{path} ({_io.first_line(error)})"
        )
        raise ArtefactError(msg) from error
    while isinstance(state, Mapping) and not _are_tensors(state):
        inner = [state[n] for n in _INNER if n in state]
        if not inner:
            msg = (
                f"{caller}: weights must be tensors by name, or hold them as "
                f"state_dict or model, got {', '.join(map(str, list(state)[:6]))}"
            )
            raise ArtefactError(msg)
        state = inner[0]
    return {str(name).removeprefix("module."): one for name, one in state.items()}


def _are_tensors(state: Mapping[Any, Any]) -> bool:
    return all(isinstance(one, torch.Tensor) for one in state.values())
