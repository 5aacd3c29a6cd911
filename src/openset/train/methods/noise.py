"""Noise Softmax: images of noise as an additional class."""

import torch
from torch import Tensor

from openset import _check
from openset.train.methods._extra import ExtraOutput
from openset.train.networks import Network

RANGES = ("zero_max", "min_max")


class Noise(ExtraOutput):
    r"""Adds ⌊B/2⌋ images of uniform noise to a batch of B, as class C + 1.

    .. math:: u \sim U[0, \max x]^{\dim x}, \qquad
              L = \overline{-\log \operatorname{softmax}_{y}(v)}
              \text{ over } \{(x, y)\} \cup \{(u, C + 1)\}

    with unit-norm logits :math:`v = z / (\|z\| + 10^{-4})` over C + 1 outputs; the
    score is 1 − the probability of the last.

    Parameters
    ----------
    ratio
        Synthetic images per real one.
    noise_range
        "zero_max": from 0 to the largest value in the batch, as published; "min_max":
        from the smallest, which on mean-free pixels is the whole range.

    References
    ----------
    Komorniczak and Ksieniewicz (2024), torchosr.
    """

    name = "noise"
    title = "Noise Softmax"
    paper = "torchosr (Komorniczak and Ksieniewicz 2024)"

    def __init__(
        self,
        *,
        n_classes: int,
        network: Network,
        smoothing: float = 0.0,
        ratio: float = 0.5,
        noise_range: str = "zero_max",
    ) -> None:
        super().__init__(
            n_classes=n_classes, network=network, smoothing=smoothing, ratio=ratio
        )
        caller = f"method {self.name}"
        self.noise_range = _check.one_of(caller, "noise_range", noise_range, RANGES)

    def make(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """⌊ratio · B⌋ images of noise."""
        n_made = labels.shape[0] * self.part // self.whole
        made = noise_like(inputs[:n_made], inputs, self.noise_range)
        return made, torch.ones_like(labels[:n_made], dtype=torch.bool)


def noise_like(shape: Tensor, inputs: Tensor, noise_range: str) -> Tensor:
    """Draw uniform noise in the shape of one tensor and the range of another.

    Examples
    --------
    >>> noise = noise_like(torch.zeros(100), torch.tensor([-1.0, 0.5]), "zero_max")
    >>> bool((0 <= noise).all() & (noise <= 0.5).all())
    True
    """
    high = inputs.amax()
    low = inputs.amin() if noise_range == "min_max" else torch.zeros_like(high)
    return low + (high - low) * torch.rand_like(shape)
