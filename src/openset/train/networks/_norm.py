"""Batch norm and its activation in one module."""

from contextlib import suppress
from types import ModuleType

import torch
import torch.nn.functional as F  # noqa: N812  # its name everywhere
from torch import Tensor, nn

# Triton comes with PyTorch's builds for GPUs, but not with all of them.
_kernels: ModuleType | None = None
if torch.cuda.is_available():
    with suppress(ImportError):
        from openset.train.networks import _norm_kernels as _kernels


class NormLeaky(nn.BatchNorm2d):
    """Batch norm, then LeakyReLU.

    In training on a GPU both are one: apart from its convolutions, a small network does
    little else, and kernels of our own make fewer passes over memory than PyTorch's.
    """

    def __init__(self, channels: int, *, slope: float = 0.2) -> None:
        super().__init__(channels)
        self.slope = slope

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
