r"""Operations that blend an image with a poorer one, the `degenerate` :math:`d`.

.. math:: x \mapsto \lfloor \operatorname{clip}(d + f (x - d), 0, 255) \rfloor

Factor 0 gives the degenerate image, 1 the image itself, more exaggerates it. All is
computed in single precision, product first and sum second, as Pillow does.
"""

from openset import _extras
from openset.train.augment import _images
from openset.train.augment._images import Value

with _extras.importing("openset.train.augment", "torch"):
    import torch
    from torch import Tensor


def color(images: Tensor, factor: Value) -> Tensor:
    """Blend with the grey image: 0 takes all colour away, 1 changes nothing.

    Examples
    --------
    >>> red = torch.tensor([255, 0, 0], dtype=torch.uint8).reshape(1, 3, 1, 1)
    >>> color(red, 0).flatten()
    tensor([76, 76, 76], dtype=torch.uint8)
    """
    images = _images.check("color", images)
    return _blend("color", _grey(images), images, factor)


def contrast(images: Tensor, factor: Value) -> Tensor:
    """Blend with the mean grey of the image, rounded: 0 leaves a grey area.

    Examples
    --------
    >>> pair = torch.tensor([0, 201], dtype=torch.uint8).expand(1, 3, 1, 2)
    >>> contrast(pair, 0.5)[0, 0, 0]
    tensor([ 50, 151], dtype=torch.uint8)
    """
    images = _images.check("contrast", images)
    n = images.shape[2] * images.shape[3]
    total = _grey(images).sum((2, 3), keepdim=True, dtype=torch.int64)
    mean = (2 * total + n).div(2 * n, rounding_mode="floor")
    return _blend("contrast", mean, images, factor)


def brightness(images: Tensor, factor: Value) -> Tensor:
    """Blend with black: 0 is black, 1 changes nothing.

    Examples
    --------
    >>> brightness(torch.full((1, 3, 1, 1), 101, dtype=torch.uint8), 0.5).flatten()
    tensor([50, 50, 50], dtype=torch.uint8)
    """
    images = _images.check("brightness", images)
    black = images.new_zeros((1, 1, 1, 1))
    return _blend("brightness", black, images, factor)


def sharpness(images: Tensor, factor: Value) -> Tensor:
    r"""Blend with a smoothed image: 0 smooths, 1 changes nothing, more sharpens.

    The smoothed image is the rounded mean of the 3 × 3 neighbourhood in which the
    pixel itself has weight 5 of 13; the frame of one pixel stays as it is.

    Examples
    --------
    >>> dot = torch.zeros(1, 3, 3, 3, dtype=torch.uint8)
    >>> dot[..., 1, 1] = 130
    >>> sharpness(dot, 0)[0, 0, 1]
    tensor([ 0, 50,  0], dtype=torch.uint8)
    """
    images = _images.check("sharpness", images)
    smooth = images.to(torch.int16)
    if min(images.shape[2:]) > 2:
        rows = smooth[:, :, :-2] + smooth[:, :, 1:-1] + smooth[:, :, 2:]
        sums = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
        sums = sums + 4 * smooth[:, :, 1:-1, 1:-1]
        # Rounding in integers is exact; a sum over 13 is never half way.
        smooth[:, :, 1:-1, 1:-1] = (2 * sums + 13).div(26, rounding_mode="floor")
    return _blend("sharpness", smooth, images, factor)


def _grey(images: Tensor) -> Tensor:
    """Return luma (ITU-R 601-2) in 16-bit fixed point, (n, 1, h, w)."""
    red, green, blue = images.to(torch.int32).unbind(1)
    luma = (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16
    return luma.unsqueeze(1)


def _blend(caller: str, degenerate: Tensor, images: Tensor, factor: Value) -> Tensor:
    share = _images.per_sample(caller, "factor", factor, images)
    share = _images.place(share, images, torch.float32)
    start = degenerate.float()
    # Not lerp or addcmul: a fused product and sum would round once instead of twice.
    mixed = (images - start).mul_(share).add_(start)
    return mixed.clamp_(0, 255).to(torch.uint8)
