"""Reductions over the rows of logits as GPU kernels, where they run."""

import warnings
from importlib import import_module
from typing import Any

from openset import _xp
from openset._types import Array

_problem: list[str] = []  # why they are not used


def call(name: str, logits: Array, *rest: Any, **options: Any) -> Any:
    """Call a kernel; None if it cannot run on these logits."""
    # Kernels compute in float32, one program a row, and pass no gradients on.
    if (
        _problem
        or not _xp.is_torch_array(logits)
        or logits.device.type != "cuda"
        or logits.dtype != _xp.array_namespace(logits).float32
        or logits.shape[0] == 0
        or logits.stride(1) != 1
        or logits.requires_grad
    ):
        return None
    try:
        # By name: Triton comes with PyTorch's builds for GPUs, not with all.
        module = import_module("openset.detectors._row_kernels")
        call = getattr(module, name)
        return call(logits, *rest, **options) if module.runs_on(logits) else None
    except Exception as error:  # compilers raise what they like
        # The plain path computes the same: a compiler that does not work must not stop
        # scoring. It is not tried again.
        _problem.append(repr(error))
        msg = f"GPU kernels for logits do not work here; scoring is slower: {error!r}"
        warnings.warn(msg, stacklevel=2)
        return None
