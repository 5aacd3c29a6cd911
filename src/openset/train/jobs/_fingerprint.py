"""Short hashes of the network and the samples of a run.

A folder with results must not be taken for that of another model, or of other data,
with the same name.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from openset.datasets import Cut, Samples, lazy_inputs

_WHOLE = 1 << 30  # bytes: of a larger part, not all inputs are hashed
_N_READ = 256  # but this many
_N_DECODED = 16  # of lazy inputs that are not plain files


def of_network(network: str | nn.Module) -> str:
    """Return the name of a network; with a model, its layers and weights hashed.

    Examples
    --------
    >>> of_network("mlp")
    'mlp'
    >>> one, other = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> of_network(one) == of_network(one), of_network(one) == of_network(other)
    (True, False)
    """
    if not isinstance(network, nn.Module):
        return str(network)
    found = hashlib.sha256(repr(network).encode() + of_weights(network).encode())
    return f"{type(network).__name__} {found.hexdigest()[:16]}"


def of_pretrained(pretrained: bool | Path) -> str:  # noqa: FBT001  # a value
    """Return which weights a network starts from; empty for random ones.

    Examples
    --------
    >>> of_pretrained(True)
    'published'
    """
    if not isinstance(pretrained, Path):
        return "published" if pretrained else ""
    with pretrained.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return f"{pretrained.name} {digest[:16]}"


def of_weights(model: nn.Module) -> str:
    """Return a hash of all parameters and buffers of a model."""
    found = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(bytes_of(tensor))
    return found.hexdigest()


def bytes_of(tensor: Tensor) -> bytes:
    """Return the bytes of a tensor of any dtype."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def of_cut(cut: Cut) -> str:
    """Return a hash of all labels and class names, and of the inputs of each part.

    Of inputs that take long to read, only some are hashed.
    """
    parts = (cut.train, cut.validation, cut.negative, cut.surrogate, *cut.tests)
    found = hashlib.sha256()
    for samples in parts:
        found.update(b"-" if samples is None else _of_samples(samples))
    return found.hexdigest()[:16]


def _of_samples(samples: Samples) -> bytes:
    found = hashlib.sha256(np.ascontiguousarray(samples.labels).tobytes())
    found.update("\n".join([*samples.groups.tolist(), *samples.classes]).encode())
    _add_inputs(found, samples.inputs)
    return found.digest()


def _add_inputs(found: Any, inputs: Any) -> None:
    if isinstance(inputs, lazy_inputs.Joined):
        for item in inputs.items:
            _add_inputs(found, item)
        return
    if _size(inputs) > _WHOLE:
        rows = np.linspace(0, len(inputs) - 1, min(len(inputs), _N_READ), dtype=int)
        inputs = lazy_inputs.take(inputs, rows)
    if isinstance(inputs, np.ndarray):
        found.update(repr((inputs.dtype.str, inputs.shape)).encode())
        found.update(np.ascontiguousarray(inputs).tobytes())
    elif isinstance(inputs, lazy_inputs.ImageFiles):
        for path in inputs.paths:
            found.update(Path(path).read_bytes())
    else:  # decoding takes longer: fewer of them
        for row in range(0, len(inputs), -(-len(inputs) // _N_DECODED) or 1):
            found.update(_bytes_of_input(inputs[row]))


def _size(inputs: Any) -> int:
    """Return the number of bytes to read; those of a lazy sequence are not known."""
    if isinstance(inputs, np.ndarray):
        return inputs.nbytes
    if isinstance(inputs, lazy_inputs.ImageFiles):
        return sum(Path(path).stat().st_size for path in inputs.paths)
    return 0


def _bytes_of_input(one: Any) -> bytes:
    return one.encode() if isinstance(one, str) else np.asarray(one).tobytes()
