"""Operations that map each pixel value by itself: by a curve, or by a histogram."""

from openset import _extras
from openset.train.augment import _images
from openset.train.augment._images import Value

with _extras.importing("openset.train.augment", "torch"):
    import torch
    from torch import Tensor


def autocontrast(images: Tensor) -> Tensor:
    r"""Stretch every channel of every image to the full range 0..255.

    .. math:: x \mapsto \lfloor 255 (x - lo) / (hi - lo) \rfloor

    with the smallest and largest value of the channel; a constant channel stays.

    Examples
    --------
    >>> autocontrast(torch.tensor([10, 20, 60], dtype=torch.uint8).expand(1, 3, 1, 3))[
    ...     0, 0, 0
    ... ]
    tensor([  0,  51, 255], dtype=torch.uint8)
    """
    images = _images.check("autocontrast", images)
    least, most = images.flatten(2).aminmax(dim=2)
    low, high = least.double()[..., None, None], most.double()[..., None, None]
    is_flat = high <= low
    # In double precision and in this order, as Pillow's table is computed: the last
    # step cuts off, so that 254.99999999999997 is another grey than 255. (A Python
    # number over a tensor would be a product with the reciprocal.)
    scale = torch.where(is_flat, 1.0, torch.full_like(high, 255.0) / (high - low))
    offset = torch.where(is_flat, 0.0, -low * scale)
    return images.double().mul_(scale).add_(offset).clamp_(0, 255).to(torch.uint8)


def equalize(images: Tensor) -> Tensor:
    r"""Flatten the histogram of every channel of every image.

    With :math:`h` the histogram, :math:`m` the largest value that occurs and
    :math:`s = \lfloor (\sum h - h_m) / 255 \rfloor`,

    .. math:: x \mapsto \min\bigl(255,
              \lfloor (\lfloor s/2 \rfloor + \sum_{i<x} h_i) / s \rfloor\bigr)

    and a channel with :math:`s = 0` (fewer than 255 pixels below its maximum) stays.

    Examples
    --------
    >>> dark = torch.zeros(1, 3, 16, 16, dtype=torch.uint8)
    >>> dark[..., 15, 15] = 9  # 255 pixels lie below it: s = 1
    >>> equalize(dark)[0, 0, 15, 14:]
    tensor([  0, 255], dtype=torch.uint8)
    """
    images = _images.check("equalize", images)
    values = images.flatten(2).long()
    counts = values.new_zeros((*values.shape[:2], 256), dtype=torch.int32)
    ones = counts.new_ones(()).expand_as(values)
    counts.scatter_add_(2, values, ones)
    highest = images.flatten(2).amax(2, keepdim=True).long()
    n = values.shape[2]
    step = (n - counts.gather(2, highest)).div(255, rounding_mode="floor")
    below = counts.cumsum(2, dtype=torch.int32) - counts
    table = (step // 2 + below).div(step.clamp(min=1), rounding_mode="floor")
    same = torch.arange(256, dtype=torch.int32, device=images.device)
    table = torch.where(step > 0, table.clamp_(max=255), same).to(torch.uint8)
    return table.gather(2, values).reshape(images.shape)


def invert(images: Tensor) -> Tensor:
    """Turn every value `x` into ``255 - x``.

    Examples
    --------
    >>> invert(torch.zeros(1, 3, 1, 1, dtype=torch.uint8)).flatten()
    tensor([255, 255, 255], dtype=torch.uint8)
    """
    return 255 - _images.check("invert", images)


def posterize(images: Tensor, bits: Value) -> Tensor:
    """Keep the `bits` highest bits of every value (the integer part, within 0..8).

    Examples
    --------
    >>> posterize(torch.full((1, 3, 1, 1), 255, dtype=torch.uint8), 1).flatten()
    tensor([128, 128, 128], dtype=torch.uint8)
    """
    images = _images.check("posterize", images)
    kept = _images.per_sample("posterize", "bits", bits, images)
    dropped = 8 - kept.long().clamp(0, 8)
    mask = 256 - torch.ones_like(dropped).bitwise_left_shift(dropped)
    return images & _images.place(mask, images, torch.uint8)


def solarize(images: Tensor, threshold: Value) -> Tensor:
    """Invert the values that are not below `threshold`.

    Examples
    --------
    >>> solarize(torch.full((1, 3, 1, 1), 200, dtype=torch.uint8), 128).flatten()
    tensor([55, 55, 55], dtype=torch.uint8)
    """
    images = _images.check("solarize", images)
    limit = _images.per_sample("solarize", "threshold", threshold, images)
    # For integers x < t is x < ceil(t), and integers need no double per pixel.
    limit = _images.place(limit.ceil().clamp(0, 256), images, torch.int16)
    return torch.where(images < limit, images, 255 - images)


def solarize_add(images: Tensor, addition: Value) -> Tensor:
    """Add the integer part of `addition`, clip to 0..255, then solarize at 128.

    Examples
    --------
    >>> dark = torch.tensor([10, 100, 250], dtype=torch.uint8).expand(1, 3, 1, 3)
    >>> solarize_add(dark, 40)[0, 0, 0]
    tensor([ 50, 115,   0], dtype=torch.uint8)
    """
    caller = "solarize_add"
    images = _images.check(caller, images)
    more = _images.per_sample(caller, "addition", addition, images)
    more = _images.place(more.floor().clamp(-256, 256), images, torch.int16)
    return solarize((images + more).clamp_(0, 255).to(torch.uint8), 128)
