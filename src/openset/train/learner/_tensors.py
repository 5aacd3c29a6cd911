"""Inputs of a data set as the tensors a learner takes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from openset import _check
from openset.datasets import lazy_inputs

_IMAGES = "images as uint8, shape (n, h, w) or (n, h, w, 3)"


def as_tensor(
    inputs: Any, kind: str, side: int | None, *, caller: str = "train.fit"
) -> Tensor:
    """Return images as uint8 (n, 3, h, w), or rows of numbers as float32 (n, d)."""
    if kind == "text":
        msg = _check.must(
            "images or rows of numbers",
            caller=caller,
            name="data",
            got="texts",
            remedy="Embed the texts first and train on the table of embeddings",
        )
        raise TypeError(msg)
    if kind == "table":
        rows = _rows(inputs, caller)
        if not np.isfinite(rows).all():
            rule, got = "finite numbers", "NaN or infinity"
            remedy = "Fill in missing values, or leave those samples out"
            msg = _check.must(rule, caller=caller, name="data", got=got, remedy=remedy)
            raise ValueError(msg)
        return _from_numpy(rows)
    pixels = _pixels(inputs, side, caller)
    if pixels.ndim == 3:
        pixels = pixels[..., None]
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[-1] not in (1, 3):
        got = f"dtype {pixels.dtype}, shape {pixels.shape}"
        raise TypeError(_check.must(_IMAGES, caller=caller, name="data", got=got))
    images = _from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))
    return images.expand(-1, 3, -1, -1).contiguous()


def _from_numpy(array: NDArray[Any]) -> Tensor:
    """Share the memory of an array, unless it is read-only: tensors are not."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _rows(inputs: Any, caller: str) -> NDArray[np.float32]:
    try:
        return np.ascontiguousarray(inputs, dtype=np.float32)
    except (TypeError, ValueError) as error:
        msg = _check.must(
            "rows of numbers, all of one length",
            caller=caller,
            name="data",
            got=f"{type(inputs).__name__} ({error})",
        )
        raise TypeError(msg) from error


def _pixels(inputs: Any, side: int | None, caller: str) -> Any:
    if isinstance(inputs, np.ndarray | Tensor):
        return np.asarray(inputs.cpu() if isinstance(inputs, Tensor) else inputs)
    is_listed = hasattr(inputs, "__len__") and hasattr(inputs, "__getitem__")
    is_listed &= not isinstance(inputs, str | bytes | Mapping)
    if not is_listed or (len(inputs) and np.asarray(inputs[0]).dtype != np.uint8):
        got = repr(inputs)[:40]
        remedy = "Read image files with datasets.load(folder)"
        msg = _check.must(_IMAGES, caller=caller, name="data", got=got, remedy=remedy)
        raise TypeError(msg)
    if side is None:
        msg = _check.must(
            "given for image files that are not all squares of one size",
            caller=caller,
            name="side",
            got=None,
            remedy="Choose the side to resize them to, such as side=64",
        )
        raise ValueError(msg)
    return lazy_inputs.resize(inputs, side, channels=3)


def blank(shape: tuple[int, ...]) -> Tensor:
    """Return two black images, or two rows of zeros, of the given sample shape."""
    dtype = torch.uint8 if len(shape) == 3 else torch.float32
    return torch.zeros(2, *shape, dtype=dtype)
