"""ARPL+CS: ARPL with generated images, which should be equally far from all points."""

from functools import partial
from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812  # its name everywhere
from torch import Tensor, nn, optim

from openset import _check
from openset.train.methods.arpl import ARPL, compare
from openset.train.methods.base import Loss, full_precision
from openset.train.networks import Network
from openset.train.networks.classifier32 import initialise, use_norms

N_NOISE = 100
_initialise = partial(initialise, spread=0.02)


class ARPLCS(ARPL):
    r"""ARPL and a generator of confusing samples G, against a discriminator D.

    Two passes over the data per epoch; the first makes three updates with each batch,
    the second is ordinary ARPL:

    .. math::
        D &: \text{BCE}(D(x), 1) + \text{BCE}(D(G(n)), 0) \\
        G &: \text{BCE}(D(G(n)), 1) + \beta F(G(n)) \\
        \text{classifier} &: L_\text{ARPL}(x) + \beta F(G(n)) \\
        F(u) &= \exp \overline{\textstyle\sum_c q_c \ln q_c}, \qquad
        q = \operatorname{softmax}_c d(u, p_c)

    F is 1/C where generated images are equally far from all points. They run through a
    second set of batch norms, which is not used at test time, and are normalised like
    the real ones, so that D cannot tell them by their range.

    Parameters
    ----------
    confusion
        β.
    side
        Side of the images: 32 or 64; `fit` sets it, and `mean` and `std`.
    width
        Channels of the widest layer of G, a multiple of 8; 512 is the published size.

    References
    ----------
    Chen et al. (2021), Adversarial reciprocal points learning for open set recognition,
    section 4; Adam with rate 2e-4 and betas (0.5, 0.999) for D and G.
    """

    name = "arpl_cs"
    title = "ARPL+CS"
    two_norms = True
    centre: Tensor
    spread: Tensor
    passes = (("discriminate", "generate", "confuse"), ("loss",))
    parts: ClassVar = {"discriminate": "discriminator", "generate": "generator"}
    confusion: float = 0.1
    side: int = 32
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    width: int = 512

    def check(self, caller: str, network: Network) -> None:
        """Raise for images of a size that G does not make."""
        if self.side not in (32, 64):
            remedy = "Images are brought to that size by the recipe's side"
            _check.fail(caller, "side", "32 or 64", self.side, remedy)

    def build(self, network: Network) -> None:
        """Make points, generator and discriminator."""
        super().build(network)
        centre = torch.tensor(self.mean or (0.0, 0.0, 0.0)).reshape(3, 1, 1)
        spread = torch.tensor(self.std or (1.0, 1.0, 1.0)).reshape(3, 1, 1)
        self.register_buffer("centre", centre)
        self.register_buffer("spread", spread)
        self.generator = generator(self.side, self.width)
        self.discriminator = discriminator(self.width)

    def discriminate(self, network: Network, inputs: Tensor, labels: Tensor) -> Loss:
        """Loss of D: real images are 1, generated ones 0."""
        with torch.no_grad():  # the generator is not what moves
            fakes = self.fakes(inputs)
        loss = self.judged(inputs, 1) + self.judged(fakes, 0)
        return loss, loss.new_zeros(len(labels), self.n_classes)

    def generate(self, network: Network, inputs: Tensor, labels: Tensor) -> Loss:
        """Loss of G: fool D and the classifier."""
        fakes = self.fakes(inputs)
        loss = self.judged(fakes, 1) + self.confusion * self.certainty(network, fakes)
        return loss, loss.new_zeros(len(labels), self.n_classes)

    def confuse(self, network: Network, inputs: Tensor, labels: Tensor) -> Loss:
        """ARPL, and uncertainty about generated images."""
        with torch.no_grad():
            fakes = self.fakes(inputs)
        loss, logits = self.loss(network, inputs, labels)
        return loss + self.confusion * self.certainty(network, fakes), logits

    def fakes(self, like: Tensor) -> Tensor:
        """Generate as many images, in the range of the real ones."""
        noise = torch.randn(len(like), N_NOISE, 1, 1, device=like.device)
        return (self.generator(noise) - self.centre) / self.spread

    def judged(self, images: Tensor, target: float) -> Tensor:
        """Binary cross-entropy of D."""
        logits = full_precision(self.discriminator(images))
        goal = torch.full_like(logits, target)
        return F.binary_cross_entropy_with_logits(logits, goal)

    def certainty(self, network: Network, fakes: Tensor) -> Tensor:
        """F: from 1/C, equally far from all points, to 1."""
        use_norms(network, 1)
        features = network.backbone(fakes)
        use_norms(network, 0)
        logs = compare(features, self.points)[0].log_softmax(dim=1)
        return (logs.exp() * logs).sum(dim=1).mean().exp()

    def optimiser(self, part: str) -> optim.Optimizer:
        """Adam, for the generator or the discriminator."""
        weights = list(self.get_submodule(part).parameters())
        on_gpu = weights[0].is_cuda  # its step may be in a CUDA graph
        return optim.Adam(weights, lr=2e-4, betas=(0.5, 0.999), capturable=on_gpu)


def generator(side: int, width: int) -> nn.Sequential:
    """Images in [0, 1] from noise; each layer but the first doubles the side."""
    widths = [N_NOISE, *(width // 2**i for i in range(3 if side == 32 else 4))]
    parts: list[nn.Module] = []
    for i, (n_in, n_out) in enumerate(pairwise(widths)):
        stride, padding = (2, 1) if i else (1, 0)
        conv = nn.ConvTranspose2d(n_in, n_out, 4, stride, padding, bias=False)
        parts += [conv, nn.BatchNorm2d(n_out), nn.ReLU()]
    last = nn.ConvTranspose2d(widths[-1], 3, 4, 2, 1, bias=False)
    return nn.Sequential(*parts, last, nn.Sigmoid()).apply(_initialise)


def discriminator(width: int) -> nn.Sequential:
    """Logit of "this image is real"; the same layers for 32 and 64 pixels."""
    half, quarter = width // 2, width // 4
    return nn.Sequential(
        *(nn.Conv2d(3, quarter, 4, 2, 1, bias=False), nn.LeakyReLU(0.2)),
        *(nn.Conv2d(quarter, half, 4, 2, 1, bias=False), nn.BatchNorm2d(half)),
        *(nn.LeakyReLU(0.2), nn.Conv2d(half, width, 4, 2, 1, bias=False)),
        *(nn.BatchNorm2d(width), nn.LeakyReLU(0.2)),
        *(nn.Conv2d(width, 2 * width, 4, 1, 0, bias=False), nn.Sigmoid()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 1)),
        nn.Flatten(0),
    ).apply(_initialise)
