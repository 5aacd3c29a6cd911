"""Generator and discriminator of ARPL+CS, for images of 32 or 64 pixels."""

import torch
from torch import Tensor, nn

N_NOISE = 100
SIDES = (32, 64)
WIDTH = 512  # as published


class Generator(nn.Sequential):
    """Images in [0, 1] from Gaussian noise, by transposed 4×4 convolutions.

    `width` is the number of channels of the first one.

    Examples
    --------
    >>> Generator(32)(torch.zeros(2, N_NOISE)).shape
    torch.Size([2, 3, 32, 32])
    """

    def __init__(self, side: int, width: int = WIDTH) -> None:
        # Each layer but the first doubles the side, which starts at 4.
        widths = [width, width // 2, width // 4]
        if side == 64:
            widths.append(width // 8)
        parts: list[nn.Module] = [nn.Unflatten(1, (N_NOISE, 1, 1))]
        for n_in, n_out in zip([N_NOISE, *widths], widths, strict=False):
            stride, padding = (1, 0) if n_in == N_NOISE else (2, 1)
            parts += [
                nn.ConvTranspose2d(n_in, n_out, 4, stride, padding, bias=False),
                nn.BatchNorm2d(n_out),
                nn.ReLU(),
            ]
        last = nn.ConvTranspose2d(widths[-1], 3, 4, 2, 1, bias=False)
        super().__init__(*parts, last, nn.Sigmoid())
        self.apply(initialise)

    def draw(self, n: int, device: torch.device) -> Tensor:
        """Make `n` images from fresh noise."""
        return self(torch.randn(n, N_NOISE, device=device))


class Discriminator(nn.Sequential):
    """Logit of "this image is real"; the same layers for 32 and 64 pixels.

    `width` is the number of channels of the third convolution.

    Examples
    --------
    >>> Discriminator()(torch.zeros(2, 3, 64, 64)).shape
    torch.Size([2])
    """

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__(
            nn.Conv2d(3, width // 4, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width // 4, width // 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(width // 2),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width // 2, width, 4, 2, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 4, 1, 0, bias=False),
            nn.Sigmoid(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(2 * width, 1),
            nn.Flatten(0),
        )
        self.apply(initialise)


def initialise(module: nn.Module) -> None:
    """Draw convolutions from N(0, 0.02²), batch norms from N(1, 0.02²) and 0."""
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(module.weight, 0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1, 0.02)
        nn.init.zeros_(module.bias)
