"""`Classifier32`: the small VGG-like network of the open-set papers."""

import os
from collections import OrderedDict
from contextlib import suppress
from importlib import import_module
from types import ModuleType

import torch
import torch.nn.functional as F  # noqa: N812  # its name everywhere
from torch import Tensor, nn

from openset.train.networks.network import Network

_kernels: ModuleType | None = None


def _load_kernels() -> None:
    """Import the kernels; Triton comes with PyTorch's builds for GPUs, not with all.

    Not at import time: asking for a GPU starts its driver, and processes forked from
    this one could not start it again.
    """
    global _kernels  # noqa: PLW0603  # compilers look a global up, not a call
    if _kernels is None and torch.cuda.is_available():
        with suppress(ImportError):
            _kernels = import_module("openset.train.networks.norm_kernels")


# Output channels and stride of the nine convolutions.
_LAYERS = ((64, 1), (64, 1), (128, 2), *((128, 1), (128, 1), (128, 2)) * 2)
_DROPPED = (1, 4, 7)  # convolutions with channel dropout before them


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
        moving = self.running_mean, self.running_var, self.num_batches_tracked
        numbers = self.momentum, self.eps, self.slope
        of_images = images, self.weight, self.bias
        return _kernels.FusedNormLeaky.apply(*of_images, *moving, *numbers)


class _ImageConv(nn.Conv2d):
    """A convolution of images, on a GPU with five black channels beside the colours.

    Tensor cores take channels by eight. With three, cuDNN's gradient of the weights
    falls back to a slow kernel without them.
    """

    def forward(self, images: Tensor) -> Tensor:
        if not images.is_cuda:
            return super().forward(images)
        more = (0, 0, 0, 0, 0, 8 - self.in_channels)
        weight = F.pad(self.weight, more)
        return F.conv2d(F.pad(images, more), weight, None, self.stride, self.padding)


class TwoNorms(nn.Module):
    """Two batch norms, of which one is used: 0 for real images, 1 for generated ones.

    :func:`use_norms` selects it in a whole network.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels) for _ in range(2)])
        self.on = 0

    def forward(self, images: Tensor) -> Tensor:
        """Normalise with the batch norm that is on."""
        return self.norms[self.on](images)


def use_norms(network: nn.Module, which: int) -> None:
    """Switch every `TwoNorms` of a network."""
    for module in network.modules():
        if isinstance(module, TwoNorms):
            module.on = which


class Classifier32(Network):
    """Nine 3×3 convolutions, global average pooling and a linear layer without bias.

    Each convolution is followed by batch norm and LeakyReLU(0.2); channels are dropped
    with probability 0.2 before the first (colour channels of the image), the fourth and
    the seventh. Images must have at least 8 × 8 pixels; there are 128 features.

    Parameters
    ----------
    n_classes
        Number of outputs.
    two_norms
        Two independent batch norms in place of each, as ARPL+CS needs.

    References
    ----------
    Neal et al. (2018), Open set learning with counterfactual images, and the releases
    of ARPL, CE+ and OpenAUC, which use it. Theirs declares a tenth batch norm that is
    never used (256 parameters more); ours does not.

    Examples
    --------
    >>> sum(p.numel() for p in Classifier32(6).parameters())
    999872
    """

    def __init__(self, n_classes: int, *, two_norms: bool = False) -> None:
        blocks: OrderedDict[str, nn.Module] = OrderedDict()
        width = 3
        for number, (n_out, stride) in enumerate(_LAYERS, start=1):
            parts: list[nn.Module] = [nn.Dropout2d(0.2)] if number in _DROPPED else []
            conv = _ImageConv if number == 1 else nn.Conv2d
            parts.append(conv(width, n_out, 3, stride, padding=1, bias=False))
            if two_norms:
                parts += [TwoNorms(n_out), nn.LeakyReLU(0.2)]
            else:
                parts.append(NormLeaky(n_out, slope=0.2))
            blocks[f"conv{number}"] = nn.Sequential(*parts)
            width = n_out
        blocks["pool"] = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        super().__init__(nn.Sequential(blocks), nn.Linear(width, n_classes, bias=False))
        self.backbone.apply(initialise)


def initialise(module: nn.Module, spread: float = 0.05) -> None:
    """Draw the weights of a convolution or a batch norm, as the releases do."""
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(module.weight, 0, spread)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1, 0.02)
        nn.init.zeros_(module.bias)
