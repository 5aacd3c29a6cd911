r"""Operations that move pixels; what comes from outside is black.

Output pixel :math:`(x, y)` is the input pixel that contains

.. math:: (a (x + ½) + b (y + ½) + c,\; d (x + ½) + e (y + ½) + f),

in fixed point with 16 binary places, as Pillow computes it.
"""

import math

from openset import _io
from openset.train.augment import _images
from openset.train.augment._images import Value

with _io.importing("openset.train.augment", "torch"):
    import torch
    from torch import Tensor

GREY = (125, 123, 114)  # the mean colour of ImageNet, as the releases cut out


def rotate(images: Tensor, degrees: Value) -> Tensor:
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
    images = _images.check("rotate", images)
    angle = _images.per_sample("rotate", "degrees", degrees, images, torch.float64)
    angle = angle.remainder(360) * (-math.pi / 180)
    cos, sin = angle.cos(), angle.sin()
    x, y = images.shape[3] / 2, images.shape[2] / 2
    across = (cos, sin, cos * -x + sin * -y + x)
    down = (-sin, cos, -sin * -x + cos * -y + y)
    return _affine(images, across, down)


def shear_x(images: Tensor, slope: Value) -> Tensor:
    """Take pixel ``(x, y)`` from ``(x + slope · y, y)``: the top row stays about.

    Examples
    --------
    >>> row = torch.tensor([1, 2, 3], dtype=torch.uint8).expand(1, 3, 2, 3)
    >>> shear_x(row, 1.0)[0, 0]
    tensor([[2, 3, 0],
            [3, 0, 0]], dtype=torch.uint8)
    """
    images = _images.check("shear_x", images)
    slope = _images.per_sample("shear_x", "slope", slope, images, torch.float64)
    one, zero = torch.ones_like(slope), torch.zeros_like(slope)
    return _affine(images, (one, slope, zero), (zero, one, zero))


def shear_y(images: Tensor, slope: Value) -> Tensor:
    """Take pixel ``(x, y)`` from ``(x, y + slope · x)``: the left column stays about.

    Examples
    --------
    >>> column = torch.tensor([1, 2, 3], dtype=torch.uint8).reshape(3, 1)
    >>> shear_y(column.expand(1, 3, 3, 2), -1.0)[0, 0]
    tensor([[1, 0],
            [2, 1],
            [3, 2]], dtype=torch.uint8)
    """
    images = _images.check("shear_y", images)
    slope = _images.per_sample("shear_y", "slope", slope, images, torch.float64)
    one, zero = torch.ones_like(slope), torch.zeros_like(slope)
    return _affine(images, (one, zero, zero), (slope, one, zero))


def translate_x(images: Tensor, pixels: Value) -> Tensor:
    """Take pixel ``(x, y)`` from ``(x + pixels, y)``, rounded: positive moves left.

    Examples
    --------
    >>> row = torch.tensor([1, 2, 3], dtype=torch.uint8).expand(1, 3, 1, 3)
    >>> translate_x(row, 1)[0, 0], translate_x(row, -1)[0, 0]
    (tensor([[2, 3, 0]], dtype=torch.uint8), tensor([[0, 1, 2]], dtype=torch.uint8))
    """
    images = _images.check("translate_x", images)
    shift = _shift("translate_x", pixels, images)
    y, x = _grid(images)
    return _take(images, x + shift, y)


def translate_y(images: Tensor, pixels: Value) -> Tensor:
    """Take pixel ``(x, y)`` from ``(x, y + pixels)``, rounded: positive moves up.

    Examples
    --------
    >>> column = torch.tensor([1, 2, 3], dtype=torch.uint8).reshape(3, 1)
    >>> translate_y(column.expand(1, 3, 3, 1), 1.4)[0, 0].flatten()
    tensor([2, 3, 0], dtype=torch.uint8)
    """
    images = _images.check("translate_y", images)
    shift = _shift("translate_y", pixels, images)
    y, x = _grid(images)
    return _take(images, x, y + shift)


def cutout_abs(images: Tensor, side: Value, x: Value, y: Value) -> Tensor:
    r"""Paint a grey square (125, 123, 114) about the centre `(x, y)`.

    .. math:: x_0 = \lfloor \max(0, x - side / 2) \rfloor, \qquad
              x_0 \le \text{column} \le x_0 + side

    and rows alike. Both ends belong to it, as they do to Pillow's rectangle: it is
    :math:`\lfloor side \rfloor + 1` pixels wide where the image is.

    Examples
    --------
    >>> cutout_abs(torch.zeros(1, 3, 2, 5, dtype=torch.uint8), 2, 2.5, 0.0)[0, 0]
    tensor([[  0, 125, 125, 125,   0],
            [  0, 125, 125, 125,   0]], dtype=torch.uint8)
    """
    caller = "cutout_abs"
    images = _images.check(caller, images)
    size = _images.per_sample(caller, "side", side, images, torch.float64)
    rows, columns = _grid(images)
    is_inside = size >= 0
    for name, centre, places in (("x", x, columns), ("y", y, rows)):
        middle = _images.per_sample(caller, name, centre, images, torch.float64)
        start = (middle - size / 2).clamp(min=0).floor()
        is_inside = is_inside & (places >= start) & (places <= start + size)
    grey = _images.constants(GREY, images)
    return torch.where(is_inside, grey, images)


def _affine(
    images: Tensor,
    across: tuple[Tensor, Tensor, Tensor],
    down: tuple[Tensor, Tensor, Tensor],
) -> Tensor:
    y, x = _grid(images)
    places = []
    for a, b, c in (across, down):
        origin = _fixed(c + a * 0.5 + b * 0.5)
        places.append((origin + _fixed(b) * y + _fixed(a) * x) >> 16)
    return _take(images, places[0], places[1])


def _fixed(numbers: Tensor) -> Tensor:
    """Return numbers in fixed point with 16 binary places."""
    return (numbers * 65536.0 + 0.5).floor().to(torch.int32)


def _shift(caller: str, pixels: Value, images: Tensor) -> Tensor:
    by = _images.per_sample(caller, "pixels", pixels, images, torch.float64)
    limit = max(images.shape)  # beyond it all is black, and int32 may end
    return (by + 0.5).floor().clamp(-limit, limit).to(torch.int32)


def _grid(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return the row numbers (1, 1, h, 1) and column numbers (1, 1, 1, w)."""
    h, w = images.shape[2:]
    rows = torch.arange(h, dtype=torch.int32, device=images.device)
    columns = torch.arange(w, dtype=torch.int32, device=images.device)
    return rows.reshape(1, 1, h, 1), columns.reshape(1, 1, 1, w)


def _take(images: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return pixel (x, y) of every image, black where there is none."""
    n, channels, h, w = images.shape
    is_inside = (x >= 0) & (x < w) & (y >= 0) & (y < h)
    places = (y.clamp(0, h - 1) * w + x.clamp(0, w - 1)).long()
    places = places.expand(n, 1, h, w).reshape(n, 1, h * w).expand(n, channels, h * w)
    taken = images.reshape(n, channels, h * w).gather(2, places)
    return taken.reshape(images.shape) * is_inside
