"""Batch norm and its activation in one module."""

import os
from contextlib import suppress
from importlib import import_module
from types import ModuleType

import torch
import torch.nn.functional as F  # noqa: N812  # its name everywhere
from torch import Tensor, nn

_kernels: ModuleType | None = None


def _load_kernels() -> None:
    """Import the kernels; Triton comes with PyTorch's builds for GPUs, not with all.

    Not at import time: asking for a GPU starts its driver, and processes forked from
    this one could not start it again.
    """
    global _kernels  # noqa: PLW0603  # compilers look a global up, not a call
    if _kernels is None and torch.cuda.is_available():
        with suppress(ImportError):
            _kernels = import_module("openset.train.networks._norm_kernels")


class NormLeaky(nn.BatchNorm2d):
    """Batch norm, then LeakyReLU.

    In training on a GPU both run as one Triton kernel, with fewer passes over memory
    than PyTorch's. ``OPENSET_NORM_KERNELS=0`` in the environment, when a network is
    made, turns that off.
    """

    def __init__(self, channels: int, *, slope: float = 0.2) -> None:
        super().__init__(channels)
        self.slope = slope
        self.uses_kernels = os.environ.get("OPENSET_NORM_KERNELS", "1") != "0"
        if self.uses_kernels:
            _load_kernels()

    def forward(self, images: Tensor) -> Tensor:
        """Normalise, and scale negative values by the slope."""
        if not (
            self.uses_kernels
            and self.training
            and images.is_cuda
            and _kernels is not None
            and _kernels.fits(images)
        ):
            return F.leaky_relu(super().forward(images), self.slope)
        return _kernels.FusedNormLeaky.apply(
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
