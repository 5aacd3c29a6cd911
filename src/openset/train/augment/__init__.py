"""Augmentation of whole batches of uint8 images, on the device they are on.

Every image is augmented differently, without a loop over images. Random numbers are
drawn on the CPU, so that one seed gives the same result on every device.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F  # noqa: N812  # its name everywhere
from torch import Tensor, nn

from openset import _check
from openset.train.augment import ops
from openset.train.augment.ops import sent

__all__ = ["Normalize", "Pipeline", "crop_and_flip", "ops", "rand_augment", "resize"]

_CACHED = 2**20  # pixel values that a CPU works on at once


def rand_augment(
    images: Tensor,
    n_ops: int,
    magnitude: float,
    generator: torch.Generator,
    without: Iterable[str] = (),
) -> Tensor:
    r"""Apply `n_ops` random operations to every image, each with its own draw.

    Operations are drawn uniformly and with replacement; each has the value

    .. math:: v = lo + \tfrac{M}{30} (hi - lo)

    at magnitude :math:`M`, with a random sign where the table says ±.

    ============================================  ============  =====================
    operation                                     lo..hi        meaning of v
    ============================================  ============  =====================
    autocontrast, equalize, invert                              none
    rotate                                        ±0..30        degrees
    posterize                                     0..4          bits kept, at least 1
    solarize                                      0..256        threshold
    solarize_add                                  0..110        added
    color, contrast, brightness, sharpness        0.1..1.9      factor
    shear_x, shear_y                              ±0..0.3       slope
    cutout_abs                                    0..40         side in pixels
    translate_x, translate_y                      ±0..100       pixels
    ============================================  ============  =====================

    Small magnitudes are the strong ones for posterize and solarize, and 15 is the
    identity for the four factors. After Cubuk et al., "RandAugment" (2020), in the
    variant of Vaze et al., "Open-set recognition: a good closed-set classifier is all
    you need?" (2022).

    Parameters
    ----------
    images
        uint8, (n, 3, h, w), on any device.
    n_ops
        Operations per image.
    magnitude
        In [0, 30].
    generator
        A generator on the CPU, whatever the device of the images.
    without
        Names of operations to leave out, of ``ops.TABLE``.

    Examples
    --------
    >>> images = torch.full((4, 3, 8, 8), 100, dtype=torch.uint8)
    >>> others = [name for name in ops.TABLE if name != "invert"]
    >>> out = rand_augment(images, 1, 6, torch.Generator().manual_seed(0), others)
    >>> out.unique()
    tensor([155], dtype=torch.uint8)
    """
    names = [name for name in ops.TABLE if name not in set(without)]
    for _ in range(n_ops):
        images = _one_each(images, magnitude, generator, names)
    return images


def _one_each(
    images: Tensor, magnitude: float, generator: torch.Generator, names: list[str]
) -> Tensor:
    # Drawn, sorted and counted on the host: the device is never waited for. A draw is
    # an operation and a sign. NumPy sorts bytes much faster than torch does.
    drawn = torch.randint(2 * len(names), (len(images),), generator=generator)
    order = torch.from_numpy(drawn.byte().numpy().argsort(kind="stable"))
    sizes = torch.bincount(drawn, minlength=2 * len(names)).tolist()
    rows = sent(order, images.device)
    left = images[rows]
    done: list[Tensor] = []
    for name, plus, minus in zip(names, sizes[::2], sizes[1::2], strict=True):
        run, low, high, is_signed = ops.TABLE[name]
        value = low + magnitude / 30 * (high - low)
        mine, left = left[: plus + minus], left[plus + minus :]
        if run is None:
            centres = torch.rand(
                (2, len(mine)), generator=generator, dtype=torch.float64
            )
            x, y = centres[0] * images.shape[3], centres[1] * images.shape[2]
            done.append(ops.cutout_abs(mine, value, x, y))
            continue
        parts = [(mine, value)]
        if is_signed:
            parts = [(mine[:plus], value), (mine[plus:], -value)]
        done += [run(piece, v) for part, v in parts for piece in _pieces(part)]
    return torch.empty_like(images).index_copy_(0, rows, torch.cat(done))


def _pieces(images: Tensor) -> Sequence[Tensor]:
    """Cut a batch for a CPU, which is several times faster on what fits its cache."""
    if images.is_cuda or not len(images):
        return [images]
    return images.split(max(1, _CACHED // images[0].numel()))


def crop_and_flip(
    images: Tensor, padding: int = 4, *, generator: torch.Generator, flip: bool = True
) -> Tensor:
    r"""Shift every image by up to `padding` pixels in a black frame; mirror half.

    With p the padding, a crop of the original size is taken from the framed image, at
    one of :math:`(2p + 1)^2` places; left and right are exchanged with probability ½.

    Examples
    --------
    >>> images = torch.tensor([1, 2, 3], dtype=torch.uint8).expand(4, 3, 1, 3)
    >>> crop_and_flip(images, 0, generator=torch.Generator().manual_seed(0))[:, 0, 0]
    tensor([[1, 2, 3],
            [3, 2, 1],
            [3, 2, 1],
            [1, 2, 3]], dtype=torch.uint8)
    """
    n, channels, h, w = images.shape
    # One draw per image is one of all (top, left, mirrored).
    places = 2 * padding + 1
    drawn = torch.randint(places**2 * (1 + flip), (n, 1), generator=generator)
    drawn = sent(drawn, images.device)
    left, top = drawn % places, drawn // places % places
    is_flipped = drawn // places**2 > 0
    columns = torch.arange(w, device=images.device)
    columns = torch.where(is_flipped, w - 1 - columns, columns) + left
    rows = torch.arange(h, device=images.device) + top
    framed = F.pad(images, (padding,) * 4)
    # Rows, then columns: two small index tensors, read again for every channel.
    rows = rows[:, None, :, None].expand(n, channels, h, framed.shape[3])
    columns = columns[:, None, None, :].expand(n, channels, h, w)
    return framed.gather(2, rows).gather(3, columns)


def resize(images: Tensor, side: int) -> Tensor:
    r"""Bring images to `side` × `side` pixels, bilinearly, equal to Pillow's result.

    A triangle of half-width :math:`\max(1, \text{old} / side)` weighs the old pixels,
    along the rows and then along the columns, rounded after each.

    Examples
    --------
    >>> pair = torch.tensor([0, 100], dtype=torch.uint8).expand(1, 3, 2, 2)
    >>> resize(pair, 4)[0, 0, 0]
    tensor([  0,  25,  75, 100], dtype=torch.uint8)
    """
    for axis in (3, 2):
        if images.shape[axis] != side:
            weights = _weights(images.shape[axis], side, images.device)
            # Integers below 2^53 in doubles: exact in any order, on every device.
            sums = images.movedim(axis, 3).double() @ weights
            rounded = sums.div_(2**22).add_(0.5).floor_().clamp_(0, 255)
            images = rounded.to(torch.uint8).movedim(3, axis)
    return images.contiguous()


@cache
def _weights(old: int, new: int, device: torch.device) -> Tensor:
    """Return Pillow's weights (old, new) of one axis, in 22 binary places."""
    # Term by term as Pillow has it: many results lie half way between two greys, and
    # the last bit of a weight decides them.
    scale = old / new
    centres = (torch.arange(new, dtype=torch.float64) + 0.5) * scale
    places = torch.arange(old, dtype=torch.float64)[:, None]
    narrow = 1.0 / max(scale, 1.0)
    weights = (1 - ((places - centres + 0.5) * narrow).abs()).clamp_(min=0)
    weights /= weights.cumsum(0)[-1].clone()  # a sum from left to right
    return (weights * 2**22).add_(0.5).floor_().to(device)


class Normalize(nn.Module):
    r"""Scale bytes to [0, 1], then centre and scale every channel.

    .. math:: x \mapsto (x / 255 - mean) / std

    On a GPU the result is in ``channels_last`` order, which convolutions are fastest
    with. Computed in float32; ``Normalize(...).to(torch.float64)`` changes that.

    Examples
    --------
    >>> images = torch.full((1, 3, 1, 1), 255, dtype=torch.uint8)
    >>> Normalize((0.5, 0.5, 0.0), (0.5, 0.25, 1.0))(images).flatten()
    tensor([1., 2., 1.])
    """

    scale: Tensor
    shift: Tensor

    def __init__(
        self, mean: Sequence[float] | None = None, std: Sequence[float] | None = None
    ) -> None:
        super().__init__()
        centre = torch.tensor(mean or (0.0, 0.0, 0.0)).reshape(1, 3, 1, 1)
        spread = torch.tensor(std or (1.0, 1.0, 1.0)).reshape(1, 3, 1, 1)
        # One multiplication and one addition per pixel.
        self.register_buffer("scale", 1 / (255 * spread), persistent=False)
        self.register_buffer("shift", -centre / spread, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Normalise uint8 images (n, 3, h, w)."""
        scaled = images.to(self.scale.dtype) * self.scale + self.shift
        if scaled.is_cuda:
            return scaled.contiguous(memory_format=torch.channels_last)
        return scaled


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """RandAugment, resize, crop, flip, normalise: in this order, each only if set.

    Attributes
    ----------
    n_ops, magnitude, without
        Arguments of :func:`rand_augment`, at the original size of the images;
        ``n_ops=0`` leaves it out.
    side
        Height and width after :func:`resize`; None keeps the size.
    padding
        Argument of :func:`crop_and_flip`; 0 does not crop.
    flip
        Whether to mirror each image with probability ½.
    mean, std
        Arguments of :class:`Normalize`; None leaves [0, 1].

    Examples
    --------
    >>> images = torch.zeros(2, 3, 28, 28, dtype=torch.uint8)
    >>> pipeline = Pipeline(n_ops=1, magnitude=8, side=32, padding=4, flip=True)
    >>> augmented = pipeline.augment(images, torch.Generator().manual_seed(0))
    >>> augmented.shape, augmented.dtype
    (torch.Size([2, 3, 32, 32]), torch.uint8)
    >>> pipeline.normalizer()(augmented).dtype
    torch.float32
    """

    n_ops: int = 0
    magnitude: float = 0.0
    without: tuple[str, ...] = ()
    side: int | None = None
    padding: int = 0
    flip: bool = False
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        for name in ("n_ops", "padding"):
            _check.integer("Pipeline", name, getattr(self, name), low=0)
        _check.number("Pipeline", "magnitude", self.magnitude, low=0, high=30)
        _check.boolean("Pipeline", "flip", self.flip)
        if self.side is not None:
            _check.positive_int("Pipeline", "side", self.side)
        for name in self.without:
            _check.one_of("Pipeline", "without", name, tuple(ops.TABLE))

    def augment(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return augmented images, still as bytes: everything but normalisation."""
        if self.n_ops:
            images = rand_augment(
                images, self.n_ops, self.magnitude, generator, self.without
            )
        images = self.resized(images)
        if self.padding or self.flip:
            images = crop_and_flip(
                images, self.padding, generator=generator, flip=self.flip
            )
        return images

    def resized(self, images: Tensor) -> Tensor:
        """Return the images at the network's size, as bytes."""
        return images if self.side is None else resize(images, self.side)

    def normalizer(self) -> Normalize:
        """Return the module that turns bytes into the network's input."""
        return Normalize(self.mean, self.std)
