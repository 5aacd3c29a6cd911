"""RandAugment: a few operations per image, drawn at random, all at one magnitude."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from openset import _check, _io
from openset.train.augment import _images, ops

with _io.importing("openset.train.augment", "torch"):
    import torch
    from torch import Tensor

_CALLER = "rand_augment"
_STRONGEST = 30.0


@dataclass(frozen=True, slots=True)
class _Draws:
    """What was drawn for the samples of one group, each (n,)."""

    sign: Tensor  # -1 or 1
    x: Tensor  # in [0, 1)
    y: Tensor


@dataclass(frozen=True, slots=True)
class _Operation:
    """A row of the table: value at magnitude 0, at 30, and what is done with it."""

    low: float
    high: float
    run: Callable[[Tensor, float, _Draws], Tensor]

    def value(self, magnitude: float) -> float:
        return (magnitude / _STRONGEST) * (self.high - self.low) + self.low


def _cutout(images: Tensor, value: float, draws: _Draws) -> Tensor:
    h, w = images.shape[2:]
    return ops.cutout_abs(images, value, draws.x * w, draws.y * h)


_TABLE = {
    "autocontrast": _Operation(0, 1, lambda i, _v, _d: ops.autocontrast(i)),
    "equalize": _Operation(0, 1, lambda i, _v, _d: ops.equalize(i)),
    "invert": _Operation(0, 1, lambda i, _v, _d: ops.invert(i)),
    "rotate": _Operation(0, 30, lambda i, v, d: ops.rotate(i, d.sign * v)),
    "posterize": _Operation(0, 4, lambda i, v, _d: ops.posterize(i, max(v, 1.0))),
    "solarize": _Operation(0, 256, lambda i, v, _d: ops.solarize(i, v)),
    "solarize_add": _Operation(0, 110, lambda i, v, _d: ops.solarize_add(i, v)),
    "color": _Operation(0.1, 1.9, lambda i, v, _d: ops.color(i, v)),
    "contrast": _Operation(0.1, 1.9, lambda i, v, _d: ops.contrast(i, v)),
    "brightness": _Operation(0.1, 1.9, lambda i, v, _d: ops.brightness(i, v)),
    "sharpness": _Operation(0.1, 1.9, lambda i, v, _d: ops.sharpness(i, v)),
    "shear_x": _Operation(0, 0.3, lambda i, v, d: ops.shear_x(i, d.sign * v)),
    "shear_y": _Operation(0, 0.3, lambda i, v, d: ops.shear_y(i, d.sign * v)),
    "cutout_abs": _Operation(0, 40, _cutout),
    "translate_x": _Operation(0, 100, lambda i, v, d: ops.translate_x(i, d.sign * v)),
    "translate_y": _Operation(0, 100, lambda i, v, d: ops.translate_y(i, d.sign * v)),
}

OPERATIONS = tuple(_TABLE)
"""The names of all operations, as `without` takes them."""


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
        uint8, (n, 3, h, w), on any device. Pixels are counted at this resolution.
    n_ops
        Operations per image.
    magnitude
        In [0, 30].
    generator
        Of the CPU, whatever the device of the images: the same state gives the same
        result on all of them.
    without
        Names of operations to leave out, see `OPERATIONS`.

    Returns
    -------
    Tensor
        uint8, of the same shape and device; a new one.

    Examples
    --------
    >>> images = torch.full((4, 3, 8, 8), 100, dtype=torch.uint8)
    >>> others = [name for name in OPERATIONS if name != "invert"]
    >>> out = rand_augment(images, 1, 6, torch.Generator().manual_seed(0), others)
    >>> out.unique()
    tensor([155], dtype=torch.uint8)
    """
    images = _images.check(_CALLER, images)
    n_ops = _check.positive_int(_CALLER, "n_ops", n_ops)
    magnitude = check_magnitude(_CALLER, magnitude)
    generator = _images.check_generator(_CALLER, generator)
    names = check_without(_CALLER, without)
    for _ in range(n_ops):
        images = _one_each(images, magnitude, generator, names)
    return images


def _one_each(
    images: Tensor, magnitude: float, generator: torch.Generator, names: list[str]
) -> Tensor:
    """Apply one operation to every image."""
    n = images.shape[0]
    # Drawn and counted on the host, so that the device is never waited for.
    chosen = torch.randint(len(names), (n,), generator=generator)
    sign = torch.randint(2, (n,), generator=generator) * 2 - 1
    centre = torch.rand((2, n), generator=generator, dtype=torch.float64)
    sizes = torch.bincount(chosen, minlength=len(names)).tolist()
    order = torch.argsort(chosen, stable=True)
    # One transfer: a double holds every index there is.
    drawn = torch.cat([order[None].double(), sign[order][None].double(), centre])
    drawn = _images.send(drawn, images.device)
    rows = drawn[0].long()
    grouped = images.index_select(0, rows)
    start = 0
    for name, size in zip(names, sizes, strict=True):
        operation = _TABLE[name]
        value = operation.value(magnitude)
        for some in _images.pieces(grouped, start, start + size):
            draws = _Draws(drawn[1, some], drawn[2, some], drawn[3, some])
            grouped[some] = operation.run(grouped[some], value, draws)
        start += size
    return torch.empty_like(grouped).index_copy_(0, rows, grouped)


def check_magnitude(caller: str, magnitude: float) -> float:
    """Return a magnitude as a float, or say in which interval it must be."""
    return _check.number(caller, "magnitude", magnitude, low=0.0, high=_STRONGEST)


def check_without(caller: str, without: Iterable[str]) -> list[str]:
    """Return the operations that are left to draw from."""
    if isinstance(without, str):
        rule, got = "a collection of names", repr(without)
        raise TypeError(_check.must(rule, caller=caller, name="without", got=got))
    dropped = {_check.one_of(caller, "without", name, OPERATIONS) for name in without}
    names = [name for name in OPERATIONS if name not in dropped]
    if not names:
        rule, got = "shorter than the list of operations", "all of them"
        raise ValueError(_check.must(rule, caller=caller, name="without", got=got))
    return names
