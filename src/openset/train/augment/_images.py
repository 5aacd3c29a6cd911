"""Checks of the arguments of augmentations, and how numbers reach a device."""

from functools import cache
from typing import Any

from openset import _check, _extras

with _extras.importing("openset.train.augment", "torch"):
    import torch
    from torch import Tensor

_CACHED = 2**20  # pixel values worked on at once by a CPU

Value = float | Tensor  # one for all samples, or one per sample


def check(caller: str, images: Any) -> Tensor:
    """Return `images`; raise unless they are a uint8 tensor (n, 3, h, w)."""
    rule = "a uint8 tensor (n, 3, h, w)"
    if not isinstance(images, Tensor):
        got = type(images).__name__
        remedy = "torch.from_numpy(array) makes one of a NumPy array"
        msg = _check.must(rule, caller=caller, name="images", got=got, remedy=remedy)
        raise TypeError(msg)
    if images.dtype != torch.uint8:
        got = f"dtype {str(images.dtype).removeprefix('torch.')}"
        remedy = "Augment first and normalise last: pixels are 0..255 until then"
        msg = _check.must(rule, caller=caller, name="images", got=got, remedy=remedy)
        raise TypeError(msg)
    if images.ndim != 4 or images.shape[1] != 3 or 0 in images.shape[2:]:
        shape = tuple(images.shape)
        remedy = ""
        if images.ndim == 4 and images.shape[1] == 1:
            remedy = "Grey images become RGB by images.expand(-1, 3, -1, -1)"
        elif images.ndim == 4 and images.shape[3] == 3:
            remedy = "Channels come second: images.permute(0, 3, 1, 2)"
        msg = _check.must(
            rule, caller=caller, name="images", got=f"shape {shape}", remedy=remedy
        )
        raise ValueError(msg)
    return images


def check_generator(caller: str, generator: Any) -> torch.Generator:
    """Return `generator`; raise unless it is a generator on the CPU."""
    rule = "a torch.Generator of the CPU"
    if not isinstance(generator, torch.Generator):
        got = type(generator).__name__
        raise TypeError(_check.must(rule, caller=caller, name="generator", got=got))
    if generator.device.type != "cpu":
        msg = _check.must(
            rule,
            caller=caller,
            name="generator",
            got=f"one of {generator.device}",
            remedy="Numbers are drawn on the CPU: all devices then give one result",
        )
        raise ValueError(msg)
    return generator


def per_sample(caller: str, name: str, value: Value, images: Tensor) -> Tensor:
    """Return `value` as doubles (n or 1, 1, 1, 1), on the device where it is."""
    if not isinstance(value, Tensor):
        number = _check.number(caller, name, value)
        return torch.full((1, 1, 1, 1), number, dtype=torch.float64)
    n = images.shape[0]
    if tuple(value.shape) not in {(), (n,)}:
        rule = f"a number, or one per sample ({n})"
        got = f"shape {tuple(value.shape)}"
        raise ValueError(_check.must(rule, caller=caller, name=name, got=got))
    return value.to(torch.float64).reshape(-1, 1, 1, 1)


def place(values: Tensor, images: Tensor, dtype: torch.dtype) -> Tensor:
    """Move parameters to the images' device without waiting for it.

    Everything derived from parameters is computed on the host, where they were drawn:
    many small steps cost a device more than the images do.
    """
    values = values.to(dtype)
    if images.device.type != "cuda" or values.device.type != "cpu":
        return values.to(images.device)
    if values.numel() == 1:  # filled, not copied
        return images.new_full(values.shape, values.item(), dtype=dtype)
    return values.pin_memory().to(images.device, non_blocking=True)


def pieces(images: Tensor, start: int = 0, stop: int | None = None) -> list[slice]:
    """Divide the samples `start` to `stop` into pieces that are processed at once.

    A CUDA device takes them all. A CPU is several times faster on pieces that stay in
    its cache than on temporaries that are fetched from the system and given back.
    """
    stop = images.shape[0] if stop is None else stop
    is_cpu = images.device.type == "cpu"
    size = _CACHED // images.shape[1:].numel() if is_cpu else stop - start
    size = max(size, 1)
    return [slice(at, min(at + size, stop)) for at in range(start, stop, size)]


@cache
def constants(
    numbers: tuple[float, ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return one number per channel, shaped (1, 3, 1, 1)."""
    return torch.tensor(numbers, dtype=dtype, device=device).reshape(1, -1, 1, 1)
