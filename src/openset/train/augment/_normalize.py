"""From pixel values to the numbers a network is fed."""

from collections.abc import Sequence

from openset import _check, _io
from openset.train.augment import _images

with _io.importing("openset.train.augment", "torch"):
    import torch
    from torch import Tensor

_CALLER = "normalize"


def normalize(
    images: Tensor,
    mean: Sequence[float] = (0.0, 0.0, 0.0),
    std: Sequence[float] = (1.0, 1.0, 1.0),
    dtype: torch.dtype = torch.float32,
    *,
    memory_format: torch.memory_format = torch.contiguous_format,
) -> Tensor:
    r"""Scale to [0, 1], then centre and scale every channel.

    .. math:: x \mapsto (x / 255 - mean) / std

    computed in single precision and rounded to `dtype` at the end.

    Parameters
    ----------
    images
        uint8, (n, 3, h, w), on any device.
    mean, std
        One number per channel; the default leaves [0, 1].
    dtype
        Of the result: float32, bfloat16, ...
    memory_format
        Of the result; ``torch.channels_last`` is what tensor cores like.

    Examples
    --------
    >>> images = torch.full((1, 3, 1, 1), 255, dtype=torch.uint8)
    >>> normalize(images, (0.5, 0.5, 0.0), (0.5, 0.25, 1.0)).flatten()
    tensor([1., 2., 1.])
    """
    images = _images.check(_CALLER, images)
    mean, std = _three("mean", mean), _three("std", std, low=0.0)
    if not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        rule, got = "a floating-point torch.dtype", repr(dtype)
        raise TypeError(_check.must(rule, caller=_CALLER, name="dtype", got=got))
    result = torch.empty_like(images, dtype=dtype, memory_format=memory_format)
    # Divisors are tensors: over a Python number CUDA multiplies by the reciprocal,
    # which is another last bit than the CPU's.
    full, centre, spread = (
        _images.constants(numbers, torch.float32, images.device)
        for numbers in ((255.0,), mean, std)
    )
    for some in _images.pieces(images):
        scaled = images[some].div(full)
        if mean != (0.0, 0.0, 0.0):
            scaled.sub_(centre)
        if std != (1.0, 1.0, 1.0):
            scaled.div_(spread)
        result[some] = scaled
    return result


def _three(
    name: str, numbers: Sequence[float], low: float = float("-inf")
) -> tuple[float, ...]:
    if len(numbers) != 3:
        rule, got = "one number per channel (3)", f"{len(numbers)}"
        raise ValueError(_check.must(rule, caller=_CALLER, name=name, got=got))
    return tuple(
        _check.number(_CALLER, name, number, low=low, open_low=True, open_high=True)
        for number in numbers
    )
