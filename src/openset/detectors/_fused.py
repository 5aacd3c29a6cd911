"""Use the GPU kernels of `_row_kernels` where they run; else return None."""

import os
from importlib import import_module
from types import ModuleType
from typing import Any

from openset import _xp
from openset._types import Array


class _Kernels:
    """The kernels, loaded on first use; `problem` says why they are not used."""

    def __init__(self) -> None:
        self.module: ModuleType | None = None
        self.problem = ""
        if os.environ.get("OPENSET_ROW_KERNELS", "1") == "0":
            self.problem = "turned off by OPENSET_ROW_KERNELS=0"

    def load(self) -> ModuleType | None:
        if self.module is None and not self.problem:
            try:
                # By name: Triton comes with PyTorch's builds for GPUs, not with all.
                self.module = import_module("openset.detectors._row_kernels")
            except ImportError as error:
                self.problem = repr(error)
        return self.module

    def call(self, name: str, logits: Array, *rest: Any, **options: Any) -> Any:
        """Call a kernel; None if it cannot run on these logits."""
        if self.problem or not _is_on_cuda(logits):
            return None
        kernels = self.load()
        if kernels is None or not _fits(kernels, logits):
            return None
        try:
            return getattr(kernels, name)(logits, *rest, **options)
        except Exception as error:  # compilers raise what they like
            # The plain path computes the same: a compiler that does not work must
            # not stop scoring. It is not tried again.
            self.problem = repr(error)
            return None


KERNELS = _Kernels()


def reduce_rows(logits: Array) -> Any:
    """Return all row reductions in one pass, or None."""
    return KERNELS.call("reduce_rows", logits)


def entropy_of_others(
    logits: Array, top_class: Array, energy: Array, *, kept: int, gamma: float
) -> Array | None:
    """Return the GEN terms of the `kept` largest other logits in one pass, or None."""
    options = {"kept": kept, "gamma": gamma}
    return KERNELS.call("entropy_of_others", logits, top_class, energy, **options)


def _is_on_cuda(array: Array) -> bool:
    return _xp.is_torch_array(array) and array.device.type == "cuda"


def _fits(kernels: ModuleType, logits: Array) -> bool:
    n, n_columns = logits.shape
    # Kernels compute in float32, one program a row, and pass no gradients on.
    return bool(
        n > 0
        and n_columns <= kernels.MAX_COLUMNS
        and logits.dtype == _xp.array_namespace(logits).float32
        and logits.stride(1) == 1
        and not logits.requires_grad
        and kernels.is_current(logits)
    )
