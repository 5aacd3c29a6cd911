"""Bilinear resizing of whole batches, equal to Pillow's."""

from functools import cache

from openset import _check, _extras
from openset.train.augment import _images

with _extras.importing("openset.train.augment", "torch"):
    import torch
    from torch import Tensor

_BITS = 22  # of Pillow's fixed-point weights for 8-bit images


def resize(images: Tensor, side: int) -> Tensor:
    r"""Bring images to `side` × `side` pixels; the aspect ratio is not kept.

    A triangle of half-width :math:`\max(1, \text{old} / side)` weighs the old pixels,
    along the rows and then along the columns, rounded after each.

    Examples
    --------
    >>> pair = torch.tensor([0, 100], dtype=torch.uint8).expand(1, 3, 2, 2)
    >>> resize(pair, 4)[0, 0, 0]
    tensor([  0,  25,  75, 100], dtype=torch.uint8)
    """
    images = _images.check("resize", images)
    side = _check.positive_int("resize", "side", side)
    for axis in (3, 2):
        if images.shape[axis] != side:
            weights = _weights(images.shape[axis], side, images.device)
            images = _weighed(images.movedim(axis, 3), weights).movedim(3, axis)
    return images.contiguous()


def _weighed(images: Tensor, weights: Tensor) -> Tensor:
    # Integers below 2^53 in doubles: exact in any order of summation, so that all
    # devices agree, and a matrix product does the work.
    sums = images.double() @ weights
    return sums.div_(2**_BITS).add_(0.5).floor_().clamp_(0, 255).to(torch.uint8)


@cache
def _weights(old: int, new: int, device: torch.device) -> Tensor:
    """Return the fixed-point weights (old, new) of one axis."""
    # Term by term as Pillow has it: many results lie half way between two greys, and
    # the last bit of a weight decides them.
    scale = old / new
    narrow = 1.0 / max(scale, 1.0)
    centres = (torch.arange(new, dtype=torch.float64) + 0.5) * scale
    places = torch.arange(old, dtype=torch.float64)[:, None]
    weights = (1 - ((places - centres + 0.5) * narrow).abs()).clamp_(min=0)
    weights /= weights.cumsum(0)[-1].clone()  # a sum from left to right
    return (weights * 2**_BITS).add_(0.5).floor_().to(device)
