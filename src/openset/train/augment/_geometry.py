r"""Operations that move pixels; what comes from outside is black.

Output pixel :math:`(x, y)` is the input pixel that contains

.. math:: (a (x + ½) + b (y + ½) + c,\; d (x + ½) + e (y + ½) + f),

in fixed point with 16 binary places, as Pillow computes it.
"""

import math

from openset import _extras
from openset.train.augment import _images
from openset.train.augment._images import Value

with _extras.importing("openset.train.augment", "torch"):
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
    angle = _images.per_sample("rotate", "degrees", degrees, images)
    return move(images, rotation(angle, images.shape[2], images.shape[3]))


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
    slope = _images.per_sample("shear_x", "slope", slope, images)
    return move(images, shearing_x(slope))


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
    slope = _images.per_sample("shear_y", "slope", slope, images)
    return move(images, shearing_y(slope))


def translate_x(images: Tensor, pixels: Value) -> Tensor:
    """Take pixel ``(x, y)`` from ``(x + pixels, y)``, rounded: positive moves left.

    Examples
    --------
    >>> row = torch.tensor([1, 2, 3], dtype=torch.uint8).expand(1, 3, 1, 3)
    >>> translate_x(row, 1)[0, 0], translate_x(row, -1)[0, 0]
    (tensor([[2, 3, 0]], dtype=torch.uint8), tensor([[0, 1, 2]], dtype=torch.uint8))
    """
    images = _images.check("translate_x", images)
    by = _images.per_sample("translate_x", "pixels", pixels, images)
    return move(images, translation_x(by))


def translate_y(images: Tensor, pixels: Value) -> Tensor:
    """Take pixel ``(x, y)`` from ``(x, y + pixels)``, rounded: positive moves up.

    Examples
    --------
    >>> column = torch.tensor([1, 2, 3], dtype=torch.uint8).reshape(3, 1)
    >>> translate_y(column.expand(1, 3, 3, 1), 1.4)[0, 0].flatten()
    tensor([2, 3, 0], dtype=torch.uint8)
    """
    images = _images.check("translate_y", images)
    by = _images.per_sample("translate_y", "pixels", pixels, images)
    return move(images, translation_y(by))


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
    size = _images.per_sample(caller, "side", side, images)
    edges = []
    for name, centre in (("x", x), ("y", y)):
        middle = _images.per_sample(caller, name, centre, images).to(size.device)
        first = (middle - size / 2).clamp(min=0).floor()
        edges += [first, (first + size).floor()]
    box = torch.stack([edge.expand(len(images), 1, 1, 1) for edge in edges])
    left, right, top, bottom = _images.place(box, images, torch.int32)
    rows, columns = _grid(images, torch.int32)
    is_inside = ((columns >= left) & (columns <= right)) & (
        (rows >= top) & (rows <= bottom)
    )
    grey = _images.constants(GREY, torch.uint8, images.device)
    return torch.where(is_inside, grey, images)


# Moves are six integers a, b, c, d, e, f in fixed point, on a new last axis. The
# numbers they are made of are doubles, in Pillow's order of operations.


def rotation(degrees: Tensor, h: int, w: int) -> Tensor:
    """Return the move that rotates images of this size about their centre."""
    angle = degrees.remainder(360) * (-math.pi / 180)
    cos, sin = angle.cos(), angle.sin()
    x, y = w / 2, h / 2
    across = (cos, sin, cos * -x + sin * -y + x)
    down = (-sin, cos, -sin * -x + cos * -y + y)
    return _fixed(across, down)


def shearing_x(slope: Tensor) -> Tensor:
    """Return the move of :func:`shear_x`."""
    one, zero = torch.ones_like(slope), torch.zeros_like(slope)
    return _fixed((one, slope, zero), (zero, one, zero))


def shearing_y(slope: Tensor) -> Tensor:
    """Return the move of :func:`shear_y`."""
    one, zero = torch.ones_like(slope), torch.zeros_like(slope)
    return _fixed((one, zero, zero), (slope, one, zero))


def translation_x(pixels: Tensor) -> Tensor:
    """Return the move of :func:`translate_x`: by whole pixels, halves upwards."""
    one, zero = torch.ones_like(pixels), torch.zeros_like(pixels)
    return _fixed((one, zero, (pixels + 0.5).floor()), (zero, one, zero))


def translation_y(pixels: Tensor) -> Tensor:
    """Return the move of :func:`translate_y`: by whole pixels, halves upwards."""
    one, zero = torch.ones_like(pixels), torch.zeros_like(pixels)
    return _fixed((one, zero, zero), (zero, one, (pixels + 0.5).floor()))


def _fixed(
    across: tuple[Tensor, Tensor, Tensor], down: tuple[Tensor, Tensor, Tensor]
) -> Tensor:
    numbers = []
    for a, b, c in (across, down):
        # A pixel is met in its middle: half a step is part of the offset.
        numbers += [a, b, c + a * 0.5 + b * 0.5]
    return (torch.stack(numbers, dim=-1) * 65536.0 + 0.5).floor().long()


def move(images: Tensor, moves: Tensor) -> Tensor:
    """Take every pixel from the place that `moves` (n or 1, 1, 1, 1, 6) gives."""
    n, channels, h, w = images.shape
    rows, columns = _grid(images, torch.int64)
    a, b, c, d, e, f = _images.place(moves, images, torch.int64).unbind(-1)
    x = (b * rows + c + a * columns).bitwise_right_shift_(16)
    y = (e * rows + f + d * columns).bitwise_right_shift_(16)
    within_x, within_y = x.clamp(0, w - 1), y.clamp(0, h - 1)
    is_inside = (x == within_x) & (y == within_y)
    places = torch.add(within_x, within_y, alpha=w).expand(n, 1, h, w)
    places = places.reshape(n, 1, h * w).expand(n, channels, h * w)
    taken = images.reshape(n, channels, h * w).gather(2, places)
    return taken.reshape(images.shape).mul_(is_inside)


def _grid(images: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the row numbers (1, 1, h, 1) and column numbers (1, 1, 1, w)."""
    h, w = images.shape[2:]
    rows = torch.arange(h, dtype=dtype, device=images.device)
    columns = torch.arange(w, dtype=dtype, device=images.device)
    return rows.reshape(1, 1, h, 1), columns.reshape(1, 1, 1, w)
