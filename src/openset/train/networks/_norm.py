"""Batch norm and its activation in one module."""

from contextlib import suppress
from importlib import import_module
from types import ModuleType

import torch
import torch.nn.functional as F  # noqa: N812  # its name everywhere
from torch import Tensor, nn

_kernels: ModuleType | None = None


def _load_kernels() -> None:
    """Import the kernels; Triton comes with PyTorch's builds for GPUs, not with all.

    Not when this module is imported: to ask for a GPU starts its driver, and processes
    forked from this one could not start it again.
    """
    global _kernels  # noqa: PLW0603  # compilers look a global up, not a call
    if _kernels is None and torch.cuda.is_available():
        with suppress(ImportError):
            _kernels = import_module("openset.train.networks._norm_kernels")


class NormLeaky(nn.BatchNorm2d):
    """Batch norm, then LeakyReLU.

    In training on a GPU both are one: apart from its convolutions, a small network does
    little else, and kernels of our own make fewer passes over memory than PyTorch's.
    """

    def __init__(self, channels: int, *, slope: float = 0.2) -> None:
        super().__init__(channels)
        self.slope = slope
        _load_kernels()

    def forward(self, images: Tensor) -> Tensor:
        """Normalise, and shrink what is negative."""
        if not (
            self.training
            and images.is_cuda
            and _kernels is not None
            and _kernels.fits(images)
        ):
            return F.leaky_relu(super().forward(images), self.slope)
        return _kernels.NormLeaky.apply(
            images,
            self.weight,
            self.bias,
            self.running_mean,
            self.running_var,
            self.num_batches_tracked,
            self.momentum,
            self.eps,
            self.slope,
        )
