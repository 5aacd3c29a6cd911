"""How images are prepared for a network, with a description in words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from openset import _check, _extras
from openset.datasets import lazy_inputs

with _extras.importing("openset.integrations.networks", "torch"):
    import torch


@dataclass(frozen=True)
class Each:
    """Prepare images one by one, and stack them."""

    transform: Callable[[Any], Any]

    def __call__(self, samples: list[Any]) -> Any:
        return torch.stack([self.transform(one) for one in samples])


@dataclass(frozen=True)
class Pixels:
    """Resize, scale to [0, 1] and normalise; bytes stay bytes."""

    side: int | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: str = "float32"

    def __str__(self) -> str:
        size = "of one size" if self.side is None else f"resized to {self.side} pixels"
        if self.dtype == "uint8":
            return f"RGB, {size}, as bytes"
        return f"RGB, {size}, scaled to [0, 1], mean {self.mean}, std {self.std}"

    def __call__(self, samples: list[Any]) -> Any:
        if self.side is not None:
            samples = [one.resize((self.side, self.side)) for one in samples]
        sizes = {one.size for one in samples}
        if len(sizes) > 1:
            msg = _check.must(
                "given for images of several sizes",
                caller="Classifier.apply",
                name="side",
                got=f"none, and sizes {sorted(sizes)[0]} and {sorted(sizes)[1]}",
            )
            raise ValueError(msg)
        pixels = np.stack([np.asarray(one) for one in samples]).transpose(0, 3, 1, 2)
        if self.dtype == "uint8":
            return torch.from_numpy(np.ascontiguousarray(pixels))
        scaled = torch.from_numpy(pixels.astype(np.float32)) / 255
        mean, std = (
            torch.tensor(v)[None, :, None, None] for v in (self.mean, self.std)
        )
        return (scaled - mean) / std


def blank() -> Any:
    """Return a blank image, to try a network with."""
    return image(np.zeros((64, 64, 3), np.uint8))


def image(one: Any) -> Any:
    """Return an image as an RGB image of PIL."""
    images = _extras.optional("Classifier.apply", "PIL.Image", name="vision")
    if isinstance(one, np.ndarray):
        one = images.fromarray(one.squeeze())
    return lazy_inputs.converted(one)


def listed(values: Mapping[str, Any]) -> str:
    """Return settings as words."""
    return ", ".join(f"{key} {value}" for key, value in values.items())
