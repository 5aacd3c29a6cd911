"""Checkpoints: weights, optimisers and epoch, in one safetensors file."""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openset import _extras, _io
from openset._types import ArtefactError
from openset.train.jobs._fingerprint import bytes_of

with _extras.importing("openset.train", "torch"):
    import torch
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save_file
    from torch import Tensor, nn

_SCHEMA = "2"


def save(
    path: Path,
    learner: nn.Module,
    optimisers: Mapping[str, Any],
    *,
    epoch: int,
    spec: Mapping[str, Any],
) -> None:
    """Write the state after `epoch` epochs; an old file stays until it is complete."""
    tensors = {f"learner/{k}": v for k, v in learner.state_dict().items()}
    for part, optimiser in optimisers.items():
        for number, state in optimiser.state_dict()["state"].items():
            for name, value in state.items():
                if isinstance(value, Tensor):
                    tensors[f"optimiser/{part}/{number}/{name}"] = value
    # Cloned: the format refuses tensors that share memory, as tied weights do.
    contiguous = torch.contiguous_format
    held = {
        k: v.detach().cpu().clone(memory_format=contiguous) for k, v in tensors.items()
    }
    meta = {
        "kind": "openset.Checkpoint",
        "schema": _SCHEMA,
        "epoch": str(epoch),
        "spec": json.dumps(spec, sort_keys=True),
    }
    meta["crc32"] = _sum(held, meta)
    with _io.replacing(path) as temporary:
        try:
            save_file(held, str(temporary), metadata=meta)
        except SafetensorError as error:  # of a full disk, for example
            raise OSError(str(error)) from error


def read_spec(path: Path) -> tuple[int, dict[str, Any]]:
    """Return the number of epochs of a checkpoint, and the spec of its run."""
    meta = _open(path)[1]
    return int(meta["epoch"]), json.loads(meta["spec"])


def load(path: Path, learner: nn.Module, optimisers: Mapping[str, Any]) -> int:
    """Load a checkpoint into learner and optimisers; return its number of epochs."""
    tensors, meta = _open(path)
    states: dict[str, dict[int, dict[str, Tensor]]] = {}
    weights: dict[str, Tensor] = {}
    for key, value in tensors.items():
        kind, _, rest = key.partition("/")
        if kind == "learner":
            weights[rest] = value
        else:
            part, number, name = rest.split("/")
            states.setdefault(part, {}).setdefault(int(number), {})[name] = value
    try:
        learner.load_state_dict(weights)
    except RuntimeError as error:
        msg = f"train: checkpoint {path} does not fit the network ({error})"
        raise ArtefactError(msg) from error
    for part, optimiser in optimisers.items():
        groups = optimiser.state_dict()["param_groups"]
        state = {"state": states.get(part, {}), "param_groups": groups}
        optimiser.load_state_dict(state)
        _as_the_weights(optimiser)
    return int(meta["epoch"])


def _as_the_weights(optimiser: Any) -> None:
    """Give buffers the memory format of their weights, which files do not keep.

    The fused optimisers of CUDA refuse a contiguous buffer beside a weight in
    channels-last format.
    """
    for weight, state in optimiser.state.items():
        for name, value in state.items():
            if isinstance(value, Tensor) and value.shape == weight.shape:
                state[name] = torch.empty_like(weight, dtype=value.dtype).copy_(value)


def _sum(tensors: Mapping[str, Tensor], meta: Mapping[str, str]) -> str:
    """Return a checksum: training would continue from a flipped bit unnoticed."""
    words = {name: text for name, text in meta.items() if name != "crc32"}
    found = zlib.crc32(json.dumps(words, sort_keys=True).encode())
    for name in sorted(tensors):
        found = zlib.crc32(bytes_of(tensors[name]), zlib.crc32(name.encode(), found))
    return f"{found:08x}"


def _open(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as opened:
            meta = opened.metadata() or {}
            tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118  # no mapping
    except (SafetensorError, OSError) as error:
        msg = (
            f"train: checkpoint {path} is damaged ({error}). Delete it to start "
            "from the beginning"
        )
        raise ArtefactError(msg) from error
    if meta.get("kind") != "openset.Checkpoint" or meta.get("schema") != _SCHEMA:
        msg = (
            f"train: {path} must be a checkpoint of schema {_SCHEMA}, got "
            f"{meta.get('kind', 'another file')} {meta.get('schema', '')}"
        )
        raise ArtefactError(msg)
    if meta.get("crc32") != _sum(tensors, meta):
        msg = (
            f"train: checkpoint {path} is damaged (wrong checksum). Delete it to start "
            "from the beginning"
        )
        raise ArtefactError(msg)
    return tensors, meta
