"""Pipelines as data: what happens to an image before the network sees it."""

from dataclasses import dataclass, replace

from openset import _check, _extras
from openset.train.augment import _images
from openset.train.augment._crop import crop_and_flip
from openset.train.augment._normalize import Normalize
from openset.train.augment._randaugment import (
    check_magnitude,
    check_without,
    rand_augment,
)
from openset.train.augment._resize import resize

with _extras.importing("openset.train.augment", "torch"):
    import torch
    from torch import Tensor

CIFAR_MEAN = (0.4914, 0.4822, 0.4465)
CIFAR_STD = (0.2023, 0.1994, 0.2010)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """RandAugment, resize, crop, flip, normalise: in this order, each only if set.

    Attributes
    ----------
    n_ops, magnitude, without
        Arguments of :func:`rand_augment`, at the original size of the images;
        ``n_ops=0`` leaves it out.
    side
        Height and width after :func:`resize`; None keeps the size.
    padding
        Argument of :func:`crop_and_flip`; 0 does not crop.
    flip
        Whether to mirror each image with probability ½.
    mean, std
        Arguments of :class:`Normalize`; None leaves [0, 1].

    Examples
    --------
    >>> images = torch.zeros(2, 3, 28, 28, dtype=torch.uint8)
    >>> pipeline = Pipeline(n_ops=1, magnitude=8, side=32, padding=4, flip=True)
    >>> augmented = pipeline.augment(images, torch.Generator().manual_seed(0))
    >>> augmented.shape, augmented.dtype
    (torch.Size([2, 3, 32, 32]), torch.uint8)
    >>> pipeline.normalizer()(augmented).dtype
    torch.float32
    """

    n_ops: int = 0
    magnitude: float = 0.0
    without: tuple[str, ...] = ()
    side: int | None = None
    padding: int = 0
    flip: bool = False
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        caller = "Pipeline"
        for name in ("n_ops", "padding"):
            value = _check.integer(caller, name, getattr(self, name), low=0)
            object.__setattr__(self, name, value)
        check_magnitude(caller, self.magnitude)
        check_without(caller, self.without)
        _check.boolean(caller, "flip", self.flip)
        if self.side is not None:
            _check.positive_int(caller, "side", self.side)

    def augment(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return augmented images, still as uint8: everything but normalisation."""
        _images.check("Pipeline.augment", images)
        if self.n_ops:
            images = rand_augment(
                images, self.n_ops, self.magnitude, generator, self.without
            )
        images = self.resized(images)
        if self.padding or self.flip:
            images = crop_and_flip(
                images, self.padding, generator=generator, flip=self.flip
            )
        return images

    def resized(self, images: Tensor) -> Tensor:
        """Return the images at the network's size, as uint8."""
        return images if self.side is None else resize(images, self.side)

    def normalizer(self) -> Normalize:
        """Return the module that turns uint8 images into the network's input."""
        return Normalize(self.mean, self.std)


@dataclass(frozen=True, slots=True)
class PublishedConstants:
    """The constants of one data set, chosen for closed-set accuracy by their authors.

    Attributes
    ----------
    side
        Height and width of the network's input.
    lr
        Learning rate: of SGD, or of Adam for TinyImageNet.
    n_ops, magnitude
        Arguments of :func:`rand_augment`.
    smoothing
        Label smoothing: the true class has ``1 - smoothing``, the others share the
        rest.
    batch
        Images per step.
    """

    side: int
    lr: float
    n_ops: int
    magnitude: float
    smoothing: float
    batch: int


CEPLUS = {
    "mnist": PublishedConstants(32, 0.1, 1, 8, 0.0, 128),
    "svhn": PublishedConstants(32, 0.1, 1, 18, 0.0, 128),
    "cifar10": PublishedConstants(32, 0.1, 1, 6, 0.0, 128),
    "cifar+10": PublishedConstants(32, 0.1, 1, 6, 0.0, 128),
    "cifar+50": PublishedConstants(32, 0.1, 1, 6, 0.0, 128),
    "tinyimagenet": PublishedConstants(64, 0.01, 1, 9, 0.9, 128),
    "cub": PublishedConstants(448, 0.001, 2, 30, 0.3, 32),
    "fgvc-aircraft": PublishedConstants(448, 0.001, 2, 15, 0.2, 32),
}
"""Constants of the CE+ release (Vaze et al., 2022), by the name of the protocol."""

ARPLPLUS = CEPLUS | {
    "cifar10": replace(CEPLUS["cifar10"], magnitude=15),
    "tinyimagenet": replace(CEPLUS["tinyimagenet"], lr=0.001),
    "cub": replace(CEPLUS["cub"], smoothing=0.2),
    "fgvc-aircraft": replace(CEPLUS["fgvc-aircraft"], magnitude=18, smoothing=0.1),
}
"""Constants of ARPL+ and ARPL+CS+ in the same release, by the name of the protocol."""

_ARPL = ("mnist", "svhn", "cifar10", "cifar+10", "cifar+50", "tinyimagenet")
# A rotated or shifted digit may be another digit, or none.
_DIGITS = ("mnist", "svhn")
_MOVES = ("rotate", "translate_x", "translate_y")

PLAIN = Pipeline()
"""No augmentation, values in [0, 1], as torchosr has it."""


def pipeline_arpl(name: str) -> Pipeline:
    """Return the pipeline of the ARPL release: crop, flip, [0, 1]; MNIST as it is.

    Examples
    --------
    >>> pipeline_arpl("cifar10").padding, pipeline_arpl("mnist").padding
    (4, 0)
    """
    _check.one_of("pipeline_arpl", "name", name, _ARPL)
    side = CEPLUS[name].side
    if name == "mnist":
        return Pipeline(side=side)
    return Pipeline(side=side, padding=4, flip=True)


def pipeline_ceplus(
    name: str, *, constants: PublishedConstants | None = None
) -> Pipeline:
    """Return the pipeline of the CE+ and OpenAUC releases.

    RandAugment, resize, crop, flip and the mean and deviation of CIFAR for every data
    set; MNIST and SVHN do without rotation and translation.

    Parameters
    ----------
    name
        A key of `CEPLUS`.
    constants
        Used instead of ``CEPLUS[name]``, such as ``ARPLPLUS[name]``.

    Examples
    --------
    >>> pipeline_ceplus("svhn").without
    ('rotate', 'translate_x', 'translate_y')
    >>> pipeline_ceplus("cifar10", constants=ARPLPLUS["cifar10"]).magnitude
    15
    """
    _check.one_of("pipeline_ceplus", "name", name, tuple(CEPLUS))
    chosen = CEPLUS[name] if constants is None else constants
    return Pipeline(
        n_ops=chosen.n_ops,
        magnitude=chosen.magnitude,
        without=_MOVES if name in _DIGITS else (),
        side=chosen.side,
        padding=4,
        flip=True,
        mean=CIFAR_MEAN,
        std=CIFAR_STD,
    )
