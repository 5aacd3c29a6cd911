"""From pixel values to the inputs of a network."""

from collections.abc import Sequence

from openset import _check, _extras

with _extras.importing("openset.train.augment", "torch"):
    import torch
    from torch import Tensor, nn

_CALLER = "Normalize"


class Normalize(nn.Module):
    r"""Scale pixels to [0, 1], then centre and scale every channel.

    .. math:: x \mapsto (x / 255 - mean) / std

    On a GPU the result is in ``channels_last`` order, which convolutions are fastest
    with. Computed in float32; ``Normalize(...).to(torch.float64)`` changes that.

    Parameters
    ----------
    mean, std
        One number per channel; by default the result is in [0, 1].

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
        centre = _per_channel("mean", (0.0, 0.0, 0.0) if mean is None else mean)
        spread = _per_channel("std", (1.0, 1.0, 1.0) if std is None else std, low=0.0)
        # One multiplication and one addition per pixel.
        self.register_buffer("scale", 1 / (255 * spread), persistent=False)
        self.register_buffer("shift", -centre / spread, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Normalise uint8 images (n, 3, h, w)."""
        scaled = images.to(self.scale.dtype) * self.scale + self.shift
        if scaled.is_cuda:
            return scaled.contiguous(memory_format=torch.channels_last)
        return scaled


def _per_channel(
    name: str, numbers: Sequence[float], low: float = float("-inf")
) -> Tensor:
    if len(numbers) != 3:
        rule, got = "one number per channel (3)", f"{len(numbers)}"
        raise ValueError(_check.must(rule, caller=_CALLER, name=name, got=got))
    checked = [
        _check.number(_CALLER, name, number, low=low, open_low=True, open_high=True)
        for number in numbers
    ]
    return torch.tensor(checked).reshape(1, 3, 1, 1)
