"""RandAugment: a few operations per image, drawn at random, all at one magnitude."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from openset import _check, _extras
from openset.train.augment import _geometry, _images, ops

with _extras.importing("openset.train.augment", "torch"):
    import torch
    from torch import Tensor

_CALLER = "rand_augment"
_STRONGEST = 30.0


@dataclass(frozen=True, slots=True)
class _Operation:
    """A row of the table: value at magnitude 0, at 30, and what is done with it.

    Moves (`move`) are described by six integers per image, whatever they are, and
    done in one go for all images that are moved. Others (`run`) have a value only.
    """

    low: float
    high: float
    run: Callable[[Tensor, float], Tensor] | None = None
    move: Callable[[Tensor, int, int], Tensor] | None = None

    def value(self, magnitude: float) -> float:
        return (magnitude / _STRONGEST) * (self.high - self.low) + self.low


_CUTOUT = "cutout_abs"  # the one with draws of its own

# Moves come last: they are one group.
_TABLE = {
    "autocontrast": _Operation(0, 1, lambda i, _v: ops.autocontrast(i)),
    "equalize": _Operation(0, 1, lambda i, _v: ops.equalize(i)),
    "invert": _Operation(0, 1, lambda i, _v: ops.invert(i)),
    "posterize": _Operation(0, 4, lambda i, v: ops.posterize(i, max(v, 1.0))),
    "solarize": _Operation(0, 256, ops.solarize),
    "solarize_add": _Operation(0, 110, ops.solarize_add),
    "color": _Operation(0.1, 1.9, ops.color),
    "contrast": _Operation(0.1, 1.9, ops.contrast),
    "brightness": _Operation(0.1, 1.9, ops.brightness),
    "sharpness": _Operation(0.1, 1.9, ops.sharpness),
    _CUTOUT: _Operation(0, 40),
    "rotate": _Operation(0, 30, move=_geometry.rotation),
    "shear_x": _Operation(0, 0.3, move=lambda v, _h, _w: _geometry.shearing_x(v)),
    "shear_y": _Operation(0, 0.3, move=lambda v, _h, _w: _geometry.shearing_y(v)),
    "translate_x": _Operation(
        0, 100, move=lambda v, _h, _w: _geometry.translation_x(v)
    ),
    "translate_y": _Operation(
        0, 100, move=lambda v, _h, _w: _geometry.translation_y(v)
    ),
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
        A generator on the CPU, whatever the device of the images: the same state gives
        the same result on every device.
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
    n, _, h, w = images.shape
    if n == 0:
        return images.clone()
    # Drawn, sorted and counted on the host: the device is never waited for. A draw is
    # an operation and a sign, even or odd.
    drawn = torch.randint(2 * len(names), (n,), generator=generator)
    sizes = torch.bincount(drawn, minlength=2 * len(names))
    # NumPy sorts bytes by counting, many times faster than torch sorts anything.
    order = torch.from_numpy(drawn.to(torch.uint8).numpy().argsort(kind="stable"))
    rows = _images.place(order, images, torch.int64)
    grouped = images.index_select(0, rows)
    done: list[Tensor] = []
    start = 0
    for name, size in zip(names, sizes.reshape(-1, 2).sum(1).tolist(), strict=True):
        operation = _TABLE[name]
        value = operation.value(magnitude)
        if operation.move is not None:
            break
        pieces = _images.pieces(grouped, start, start + size)
        if operation.run is not None:
            done += [operation.run(grouped[some], value) for some in pieces]
        else:
            places = torch.rand((2, size), generator=generator, dtype=torch.float64)
            for some in pieces:
                x, y = places[:, some.start - start : some.stop - start]
                done.append(ops.cutout_abs(grouped[some], value, x * w, y * h))
        start += size
    if start < n:
        table = _moves(tuple(names), magnitude, h, w)
        moves = table.repeat_interleave(sizes[-len(table) :], 0, output_size=n - start)
        done += [
            _geometry.move(grouped[some], moves[some.start - start : some.stop - start])
            for some in _images.pieces(grouped, start)
        ]
    return torch.empty_like(grouped).index_copy_(0, rows, torch.cat(done))


@cache
def _moves(names: tuple[str, ...], magnitude: float, h: int, w: int) -> Tensor:
    """Return two rows for each move among `names`: as it is, and the other way."""
    found = []
    for name in names:
        operation = _TABLE[name]
        if operation.move is not None:
            value = operation.value(magnitude)
            both = torch.tensor([value, -value], dtype=torch.float64)
            found.append(operation.move(both.reshape(2, 1, 1, 1), h, w))
    return torch.cat(found)


def check_magnitude(caller: str, magnitude: float) -> float:
    """Return a magnitude as a float; raise unless it is in its interval."""
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
