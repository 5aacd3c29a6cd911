"""ARPL+CS: ARPL with generated images, which should be equally far from all points."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812  # its name everywhere
from torch import Tensor

from openset import _check
from openset.train.methods._base import Phase, full_precision
from openset.train.methods._gan import SIDES, WIDTH, Discriminator, Generator
from openset.train.methods._points import compare
from openset.train.methods.arpl import ARPL
from openset.train.networks import Network
from openset.train.networks.classifier32 import use_norms

_REMEDY = "Resize images to a side it can generate, such as side=32"


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

    F is 1/C where generated images are equally far from all points, at most 1
    elsewhere. They run through a second set of batch norms, which is not used at test
    time.

    Parameters
    ----------
    weight
        λ: weight of the term with the radius, as in ARPL.
    confusion
        β: weight of F, the certainty about generated images.
    side
        Side of the images: 32 or 64.
    mean, std
        What the images are normalised with, one number per channel: generated images
        are normalised alike, so that they cannot be recognised by their range. None:
        real images are in [0, 1].
    width
        Channels of the widest layer of G, a multiple of 8; the other layers of G and D
        are in proportion. 512 is the published size: on a CPU it takes hundreds of
        times as long as a tiny network, for which a narrower one will do.

    Notes
    -----
    The released code draws one noise for the updates of D and G; here each update draws
    its own. ARPL+CS updates the classifier twice as often as ARPL in the same number of
    epochs: compare at equal updates. Without `mean` and `std`, recipe "ceplus" has the
    range mismatch of the CE+ release: its discriminator could tell generated images by
    their range alone.

    References
    ----------
    Chen et al. (2021), Adversarial reciprocal points learning for open set recognition,
    section 4 on confusing samples; Adam with rate 2e-4 and betas (0.5, 0.999) for D and
    G.
    """

    name = "arpl_cs"
    title = "ARPL+CS"
    two_norms = True
    passes = (
        (
            Phase("discriminate", "discriminator"),
            Phase("generate", "generator"),
            Phase("confuse"),
        ),
        (Phase(),),
    )
    mean: Tensor
    std: Tensor

    def __init__(
        self,
        *,
        n_classes: int,
        network: Network,
        smoothing: float = 0.0,
        weight: float = 0.1,
        confusion: float = 0.1,
        side: int = 32,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        width: int = WIDTH,
    ) -> None:
        super().__init__(
            n_classes=n_classes, network=network, smoothing=smoothing, weight=weight
        )
        caller = f"method {self.name}"
        self.confusion = _check.number(
            caller, "confusion", confusion, low=0, open_high=True
        )
        if side not in SIDES:
            rule = "32 or 64"
            msg = _check.must(
                rule, caller=caller, name="side", got=side, remedy=_REMEDY
            )
            raise ValueError(msg)
        if _check.positive_int(caller, "width", width) % 8:
            rule = "a multiple of 8"
            raise ValueError(_check.must(rule, caller=caller, name="width", got=width))
        self.side = side
        self.register_buffer("mean", _channels(caller, "mean", mean, 0.0))
        self.register_buffer("std", _channels(caller, "std", std, 1.0))
        self.generator = Generator(side, width)
        self.discriminator = Discriminator(width)

    def loss(
        self, network: Network, inputs: Tensor, labels: Tensor, phase: str
    ) -> tuple[Tensor, Tensor]:
        """Loss of one of the four updates; only the classifier's return its logits."""
        if inputs.shape[1:] != (3, self.side, self.side):
            msg = _check.must(
                f"3×{self.side}×{self.side}",
                caller=f"method {self.name}",
                name="images",
                got="×".join(map(str, inputs.shape[1:])),
                remedy=_REMEDY,
            )
            raise ValueError(msg)
        if phase == "classify":
            return super().loss(network, inputs, labels, phase)
        n = labels.shape[0]
        if phase == "generate":
            fakes = self.fakes(n, inputs.device)
            fooling = binary(self.discriminator(fakes), target=1)
            loss = fooling + self.confusion * self.certainty(network, fakes)
            return loss, loss.new_zeros(n, self.n_classes)
        with torch.no_grad():  # the generator is not what moves
            fakes = self.fakes(n, inputs.device)
        if phase == "discriminate":
            real = binary(self.discriminator(inputs), target=1)
            loss = real + binary(self.discriminator(fakes), target=0)
            return loss, loss.new_zeros(n, self.n_classes)
        loss, logits = super().loss(network, inputs, labels, phase)
        return loss + self.confusion * self.certainty(network, fakes), logits

    def fakes(self, n: int, device: torch.device) -> Tensor:
        """Generate images in the range of the real ones."""
        return (self.generator.draw(n, device) - self.mean) / self.std

    def certainty(self, network: Network, fakes: Tensor) -> Tensor:
        """F: from 1/C, equally far from all points, to 1."""
        use_norms(network, 1)
        features = network.backbone(fakes)
        use_norms(network, 0)
        logs = compare(features, self.points)[0].log_softmax(dim=1)
        return (logs.exp() * logs).sum(dim=1).mean().exp()

    def optimiser(self, part: str) -> torch.optim.Optimizer:
        """Adam, for the generator or the discriminator."""
        if part not in ("generator", "discriminator"):
            return super().optimiser(part)
        parameters = list(self.get_submodule(part).parameters())
        return torch.optim.Adam(
            parameters,
            lr=2e-4,
            betas=(0.5, 0.999),
            capturable=parameters[0].is_cuda,  # its step may be in a CUDA graph
        )


def binary(logits: Tensor, *, target: int) -> Tensor:
    """Binary cross-entropy with one target for the whole batch."""
    logits = full_precision(logits)
    goal = torch.full_like(logits, target)
    return F.binary_cross_entropy_with_logits(logits, goal)


def _channels(
    caller: str, name: str, values: Sequence[float] | None, default: float
) -> Tensor:
    if values is None:
        return torch.full((3, 1, 1), default)
    if len(values) != 3:
        rule = "one number for each of 3 channels"
        msg = _check.must(rule, caller=caller, name=name, got=list(values))
        raise ValueError(msg)
    low = 0 if name == "std" else float("-inf")
    for value in values:
        _check.number(caller, name, value, low=low, open_low=name == "std")
    return torch.tensor(list(values), dtype=torch.float32).reshape(3, 1, 1)
