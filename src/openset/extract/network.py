"""`Network`: a trained network with its preparation of images or texts."""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check
from openset._optional import optional
from openset.datasets import lazy_inputs
from openset.outputs import Invalid, Outputs, WithGaps

if TYPE_CHECKING:
    from openset.extract.linear_head import LinearHead

_CALLER = "Network.apply"


@dataclass(frozen=True, eq=False, kw_only=True)
class Network:
    """A trained network; :func:`openset.extract.load` opens one.

    Attributes
    ----------
    name
        The name it was loaded by.
    classes
        Names of the outputs; empty if they are not known.
    kind
        What it takes: ``"image"``, ``"text"``, or ``"table"``, rows of numbers.
    preprocessing
        What :meth:`prepare` does to images, in a sentence; else empty.
    std
        For images: what pixels in [0, 1] are divided by, per channel, if known.
    embeds
        Its outputs have features and no logits, to fit a last layer on
        (`LinearHead.fit`): an embedding model without one, or :meth:`without_head`.
    mode
        For images: the mode of Pillow they are converted to.
    model, transform
        What runs, and what makes a batch for it.
    """

    name: str
    classes: tuple[str, ...] = ()
    kind: Literal["image", "text", "table"] = "image"
    preprocessing: str = ""
    std: tuple[float, ...] | None = None
    embeds: bool = False
    mode: str = "RGB"
    model: Any = None
    transform: Any = None

    @abstractmethod
    def outputs(self, batches: "Batches", *, device: Any, **how: Any) -> Outputs:
        """Return the outputs of batches; see :meth:`apply`."""

    @abstractmethod
    def traced(self) -> tuple[Any, Any]:
        """Return what is exported as ONNX: the network, and an example of inputs."""

    @property
    def layers(self) -> dict[str, str]:
        """Names of the layers, and their kinds; none of an ONNX file."""
        return {}

    @property
    def blank(self) -> Any:
        """A sample without content, to try the network with."""
        return "a" if self.kind == "text" else np.zeros((64, 64, 3), np.uint8)

    def without_head(self) -> Self:
        """Return the network as one that gives features only, for `LinearHead.fit`."""
        return replace(self, embeds=True, classes=())

    def with_head(self, layer: "LinearHead") -> "Network":
        """Return the network with another last layer."""
        rule = "left out for a network whose last layer is fixed"
        _check.fail("extract.load", "head", rule, f"{layer}, for {self.name}")

    def prepare(self, inputs: Sequence[Any]) -> Any:
        """Return a batch for the network.

        Parameters
        ----------
        inputs
            Images, as arrays (h, w, 3) or (h, w) of bytes, or as images of Pillow; or
            texts.
        """
        if self.kind == "image":
            inputs = [as_image(one, self.mode) for one in inputs]
        return self.transform(list(inputs))

    def apply(
        self,
        inputs: Any,
        *,
        labels: ArrayLike | None = None,
        step: Any = None,
        batch_size: int | None = None,
        device: Any = None,
        invalid: Invalid = "error",
        **about: Any,
    ) -> Outputs:
        """Return the outputs of images or texts.

        Parameters
        ----------
        inputs
            Images (arrays (h, w, 3) or (h, w) of bytes, or images of Pillow), texts,
            or rows of numbers.
        labels
            ``0..C-1``, or -1.
        step
            As in :func:`openset.extract.extract`. Its `epsilon` is meant for pixels in
            [0, 1], unless it has its own `std`.
        batch_size
            Number of samples per batch. Default: 8 on a CPU, where larger batches are
            slower, else 64.
        device
            Device to run on. Default: CUDA if there is one.
        invalid
            As in :func:`openset.extract.extract`. With ``"keep"`` an image file that is
            damaged, or not an image, gets a row of NaN.
        **about
            groups, ids, unknown, out, layers and progress, as in
            :func:`openset.extract.extract`.
        """
        _check.one_of(_CALLER, "invalid", invalid, get_args(Invalid))
        if len(inputs) == 0:
            _check.fail(_CALLER, "inputs", "at least one sample", "none")
        if step is not None and step.std is None and self.std is not None:
            step = replace(step, std=self.std)
        batches = Batches(self, inputs, labels, batch_size, invalid == "keep")
        about = {"invalid": invalid, "classes": self.classes, **about}
        return self.outputs(batches, device=device, step=step, **about)


@dataclass(frozen=True, eq=False)
class Batches:
    """Prepared batches with labels, in order."""

    network: Network
    inputs: Any
    labels: ArrayLike | None
    size: int | None  # None: what suits the network
    keeps_damaged: bool

    def of(self, usual: int) -> "Batches":
        """Return batches of this size, unless the caller chose one."""
        return replace(self, size=self.size or usual)

    def __len__(self) -> int:
        return math.ceil(len(self.inputs) / (self.size or 1))

    def __iter__(self) -> Iterator[Any]:
        n, size = len(self.inputs), self.size or 1
        for start in range(0, n, size):
            rows = range(start, min(start + size, n))
            samples = [self._read(row) for row in rows]
            is_read = np.array([one is not None for one in samples])
            # Another image stands in for a damaged one, whose row is made NaN.
            other = samples[is_read.argmax()] if is_read.any() else self.network.blank
            samples = [other if one is None else one for one in samples]
            made = self.network.prepare(samples)
            batch: Any = dict(made) if isinstance(made, Mapping) else (made,)
            if self.labels is not None:
                labels = np.asarray(self.labels)[rows]
                is_named = isinstance(batch, dict)
                batch = batch | {"labels": labels} if is_named else (*batch, labels)
            yield batch if is_read.all() else WithGaps(batch, is_read)

    def _read(self, row: int) -> Any:
        """Return a sample; None for a damaged image that is kept."""
        try:
            return self.inputs[row]
        except lazy_inputs.DamagedImageError:
            if self.keeps_damaged:
                return None
            raise


def pixels(
    n_channels: int,
    side: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    dtype: str = "float32",
) -> dict[str, Any]:
    """Return the preparation of images for a network that does not say how.

    They are resized, scaled to [0, 1] and normalised; bytes stay bytes.
    """
    if n_channels not in (1, 3):
        rule = "one for grey or RGB images, of 1 or 3 channels"
        _check.fail("extract.load", "network", rule, f"one for {n_channels}")
    centre = tuple(mean or (0.0,) * n_channels)
    spread = tuple(std or (1.0,) * n_channels)
    size = "of one size" if side is None else f"resized to {side} pixels"
    scaled = f"scaled to [0, 1], mean {centre}, std {spread}"
    scaled = "as bytes" if dtype == "uint8" else scaled
    colour, mode = ("grey", "L") if n_channels == 1 else ("RGB", "RGB")
    # Of one number for all channels, or of one each.
    shift = np.array(centre, np.float32)[:, None, None]
    scale = np.array(spread, np.float32)[:, None, None]

    def transform(images: list[Any]) -> NDArray[Any]:
        """Return the pixels of images, shape (n, channels, h, w)."""
        if side is not None:
            images = [one.resize((side, side)) for one in images]
        rows = np.stack([np.atleast_3d(np.asarray(one)) for one in images])
        raw = rows.transpose(0, 3, 1, 2)
        if dtype == "uint8":
            return np.ascontiguousarray(raw)
        return (raw.astype(np.float32) / np.float32(255) - shift) / scale

    about = {"preprocessing": f"{colour}, {size}, {scaled}", "mode": mode}
    return about | {"std": spread, "transform": transform}


def as_image(one: Any, mode: str = "RGB") -> Any:
    """Return an image as one of Pillow, in colour or grey."""
    if isinstance(one, np.ndarray):
        one = optional("PIL.Image", "vision").fromarray(one.squeeze())
    return lazy_inputs.converted(one, mode)


def listed(values: Mapping[str, Any]) -> str:
    """Return settings as words."""
    return ", ".join(f"{k} {one}" for k, one in values.items() if one is not None)
