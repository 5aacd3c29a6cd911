"""The sixteen operations of RandAugment on batches of uint8 images (n, 3, h, w).

Each equals Pillow's own result, pixel by pixel, on a CPU and on CUDA: that is what the
published recipes were tuned with. Values are plain numbers, the same for the batch.

Examples
--------
>>> row = torch.tensor([1, 2, 3], dtype=torch.uint8).expand(1, 3, 1, 3)
>>> translate_x(row, 1)[0, 0], translate_x(row, -1)[0, 0]
(tensor([[2, 3, 0]], dtype=torch.uint8), tensor([[0, 1, 2]], dtype=torch.uint8))
"""

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

GREY = (125, 123, 114)  # the mean colour of ImageNet, as the releases cut out


# Operations on each value by itself.


def autocontrast(images: Tensor, _value: float = 0) -> Tensor:
    r"""Stretch every channel to 0..255; a constant channel stays.

    .. math:: x \mapsto \lfloor 255 (x - lo) / (hi - lo) \rfloor

    with the smallest and largest value of the channel.

    Examples
    --------
    >>> ramp = torch.tensor([10, 20, 60], dtype=torch.uint8).expand(1, 3, 1, 3)
    >>> autocontrast(ramp)[0, 0, 0]
    tensor([  0,  51, 255], dtype=torch.uint8)
    """
    low, high = (x.double()[..., None, None] for x in images.flatten(2).aminmax(dim=2))
    is_flat = high <= low
    # Doubles in this order, as in Pillow's table: the last step cuts off.
    scale = torch.where(is_flat, 1.0, torch.full_like(high, 255.0) / (high - low))
    offset = torch.where(is_flat, 0.0, -low * scale)
    return images.double().mul_(scale).add_(offset).clamp_(0, 255).to(torch.uint8)


def equalize(images: Tensor, _value: float = 0) -> Tensor:
    r"""Flatten the histogram h of every channel.

    With m the largest value that occurs and
    :math:`s = \lfloor (\sum h - h_m) / 255 \rfloor`,

    .. math:: x \mapsto \min\bigl(255,
              \lfloor (\lfloor s/2 \rfloor + \sum_{i<x} h_i) / s \rfloor\bigr)

    A channel with s = 0 (fewer than 255 pixels below its maximum) stays.
    """
    values = images.flatten(2).long()
    counts = values.new_zeros((*values.shape[:2], 256), dtype=torch.int32)
    counts.scatter_add_(2, values, counts.new_ones(()).expand_as(values))
    of_highest = counts.gather(2, values.amax(2, keepdim=True))
    step = (values.shape[2] - of_highest).div(255, rounding_mode="floor")
    below = counts.cumsum(2, dtype=torch.int32) - counts
    table = (step // 2 + below).div(step.clamp(min=1), rounding_mode="floor")
    same = torch.arange(256, dtype=torch.int32, device=images.device)
    table = torch.where(step > 0, table.clamp_(max=255), same).to(torch.uint8)
    return table.gather(2, values).reshape(images.shape)


def invert(images: Tensor, _value: float = 0) -> Tensor:
    """Turn every value x into 255 - x."""
    return 255 - images


def posterize(images: Tensor, bits: float) -> Tensor:
    """Keep the highest bits of every value, at least one.

    Examples
    --------
    >>> posterize(torch.full((1, 3, 1, 1), 255, dtype=torch.uint8), 1).flatten()
    tensor([128, 128, 128], dtype=torch.uint8)
    """
    return images & (256 - (1 << 8 - max(int(bits), 1)))


def solarize(images: Tensor, threshold: float) -> Tensor:
    """Invert the values that are not below the threshold."""
    return torch.where(images.short() < math.ceil(threshold), images, 255 - images)


def solarize_add(images: Tensor, addition: float) -> Tensor:
    """Add to every value, then solarize at 128.

    Examples
    --------
    >>> dark = torch.tensor([10, 100, 250], dtype=torch.uint8).expand(1, 3, 1, 3)
    >>> solarize_add(dark, 40)[0, 0, 0]
    tensor([ 50, 115,   0], dtype=torch.uint8)
    """
    more = images.short() + math.floor(addition)
    return solarize(more.clamp_(0, 255).to(torch.uint8), 128)


# Blends ⌊clip(d + f (x - d), 0, 255)⌋ with a poorer image d: factor 0 gives that one,
# 1 the image itself, more exaggerates it.


def color(images: Tensor, factor: float) -> Tensor:
    """Blend with the grey image."""
    return _blend(_luma(images), images, factor)


def contrast(images: Tensor, factor: float) -> Tensor:
    """Blend with the mean grey of the image, rounded.

    Examples
    --------
    >>> pair = torch.tensor([0, 201], dtype=torch.uint8).expand(1, 3, 1, 2)
    >>> contrast(pair, 0.5)[0, 0, 0]
    tensor([ 50, 151], dtype=torch.uint8)
    """
    n = images.shape[2] * images.shape[3]
    total = _luma(images).sum((2, 3), keepdim=True, dtype=torch.int64)
    return _blend((2 * total + n).div(2 * n, rounding_mode="floor"), images, factor)


def brightness(images: Tensor, factor: float) -> Tensor:
    """Blend with black."""
    return _blend(images.new_zeros(1, 1, 1, 1), images, factor)


def sharpness(images: Tensor, factor: float) -> Tensor:
    """Blend with 3 × 3 means, in which the pixel itself has weight 5 of 13."""
    smooth = images.short()
    if min(images.shape[2:]) > 2:
        rows = smooth[:, :, :-2] + smooth[:, :, 1:-1] + smooth[:, :, 2:]
        sums = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
        sums = sums + 4 * smooth[:, :, 1:-1, 1:-1]
        smooth[:, :, 1:-1, 1:-1] = (2 * sums + 13).div(26, rounding_mode="floor")
    return _blend(smooth, images, factor)


def _luma(images: Tensor) -> Tensor:
    """Return ITU-R 601-2 luma in 16-bit fixed point, (n, 1, h, w)."""
    red, green, blue = images.int().unbind(1)
    return ((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16).unsqueeze(1)


def _blend(poorer: Tensor, images: Tensor, factor: float) -> Tensor:
    start = poorer.float()
    # Not lerp: a fused product and sum would round once instead of twice.
    mixed = (images - start).mul_(images.new_full((), factor, dtype=torch.float32))
    return mixed.add_(start).clamp_(0, 255).to(torch.uint8)


# Moves of pixels; what comes from outside is black. Output pixel (x, y) is the input
# pixel that contains (a (x + ½) + b (y + ½) + c, d (x + ½) + e (y + ½) + f).


def rotate(images: Tensor, degrees: float) -> Tensor:
    """Rotate counter-clockwise about the centre.

    Examples
    --------
    >>> one = torch.zeros(1, 3, 3, 3, dtype=torch.uint8)
    >>> one[..., 0, 1] = 7  # top
    >>> rotate(one, 90)[0, 0]
    tensor([[0, 0, 0],
            [7, 0, 0],
            [0, 0, 0]], dtype=torch.uint8)
    """
    angle = -math.radians(degrees % 360)
    cos, sin = math.cos(angle), math.sin(angle)
    x, y = images.shape[3] / 2, images.shape[2] / 2
    matrix = (cos, sin, cos * -x + sin * -y + x, -sin, cos, sin * x + cos * -y + y)
    return _moved(images, matrix)


def shear_x(images: Tensor, slope: float) -> Tensor:
    """Take pixel (x, y) from (x + slope · y, y)."""
    return _moved(images, (1.0, slope, 0.0, 0.0, 1.0, 0.0))


def shear_y(images: Tensor, slope: float) -> Tensor:
    """Take pixel (x, y) from (x, y + slope · x)."""
    return _moved(images, (1.0, 0.0, 0.0, slope, 1.0, 0.0))


def translate_x(images: Tensor, pixels: float) -> Tensor:
    """Take pixel (x, y) from (x + pixels, y), rounded: positive moves left."""
    return _moved(images, (1.0, 0.0, math.floor(pixels + 0.5), 0.0, 1.0, 0.0))


def translate_y(images: Tensor, pixels: float) -> Tensor:
    """Take pixel (x, y) from (x, y + pixels), rounded: positive moves up."""
    return _moved(images, (1.0, 0.0, 0.0, 0.0, 1.0, math.floor(pixels + 0.5)))


def _moved(images: Tensor, matrix: tuple[float, ...]) -> Tensor:
    places, is_inside = _places(*images.shape[2:], matrix, images.device)
    taken = images.flatten(2).index_select(2, places).reshape(images.shape)
    return taken.mul_(is_inside)


@cache
def _places(
    h: int, w: int, matrix: tuple[float, ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return where each pixel comes from, in Pillow's fixed point of 16 places."""
    rows, columns = torch.arange(h)[:, None], torch.arange(w)
    source = []
    for across, down, start in (matrix[:3], matrix[3:]):
        numbers = (across, down, start + across * 0.5 + down * 0.5)  # of its middle
        a, b, c = (math.floor(v * 65536.0 + 0.5) for v in numbers)
        source.append((a * columns + b * rows + c) >> 16)
    x, y = source[0].clamp(0, w - 1), source[1].clamp(0, h - 1)
    is_inside = (x == source[0]) & (y == source[1])
    return (x + w * y).flatten().to(device), is_inside.to(device)


def cutout_abs(images: Tensor, side: float, x: Tensor, y: Tensor) -> Tensor:
    r"""Paint a grey square about the centres (x, y), one per image.

    .. math:: x_0 = \lfloor \max(0, x - side / 2) \rfloor, \qquad
              x_0 \le \text{column} \le x_0 + side

    and rows alike. Both ends belong to it, as they do to Pillow's rectangle.

    Examples
    --------
    >>> black = torch.zeros(1, 3, 1, 5, dtype=torch.uint8)
    >>> cutout_abs(black, 2, torch.tensor([2.5]), torch.tensor([0.0]))[0, 0]
    tensor([[  0, 125, 125, 125,   0]], dtype=torch.uint8)
    """
    is_inside = []
    for centre, n in ((x, images.shape[3]), (y, images.shape[2])):
        first = (centre[:, None] - side / 2).clamp(min=0).floor()
        at = torch.arange(n)
        inside = (at >= first) & (at <= (first + side).floor())
        is_inside.append(sent(inside, images.device))
    across, down = is_inside
    is_grey = across[:, None, None, :] & down[:, None, :, None]
    return torch.where(is_grey, _grey(images.device), images)


@cache
def _grey(device: torch.device) -> Tensor:
    return torch.tensor(GREY, dtype=torch.uint8, device=device)[:, None, None]


def sent(values: Tensor, device: torch.device) -> Tensor:
    """Copy from the host to a device, without waiting for the device's queue."""
    if device.type != "cuda":
        return values
    return values.pin_memory().to(device, non_blocking=True)


Operation = Callable[[Tensor, float], Tensor]
# By name: what is done, its value at magnitude 0 and at 30, and whether it has a sign.
TABLE: dict[str, tuple[Operation | None, float, float, bool]] = {
    "autocontrast": (autocontrast, 0, 1, False),
    "equalize": (equalize, 0, 1, False),
    "invert": (invert, 0, 1, False),
    "posterize": (posterize, 0, 4, False),
    "solarize": (solarize, 0, 256, False),
    "solarize_add": (solarize_add, 0, 110, False),
    "color": (color, 0.1, 1.9, False),
    "contrast": (contrast, 0.1, 1.9, False),
    "brightness": (brightness, 0.1, 1.9, False),
    "sharpness": (sharpness, 0.1, 1.9, False),
    "cutout_abs": (None, 0, 40, False),  # it draws a centre for every image
    "rotate": (rotate, 0, 30, True),
    "shear_x": (shear_x, 0, 0.3, True),
    "shear_y": (shear_y, 0, 0.3, True),
    "translate_x": (translate_x, 0, 100, True),
    "translate_y": (translate_y, 0, 100, True),
}
