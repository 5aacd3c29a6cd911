"""Batches: samples kept on the device, augmented there many batches at a time."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from openset import _check
from openset.datasets import Samples, lazy_inputs
from openset.train._seeds import derived
from openset.train.augment import Pipeline

# Bytes of samples augmented together. A GPU wants many at once (a chunk costs some
# hundred launches whatever its size); a CPU's own pieces are smaller anyway.
_CHUNK = 2**27
_CALLER = "train.fit"
_IMAGES = "images of bytes, shape (n, h, w) or (n, h, w, 3)"


def as_tensor(
    inputs: Any, kind: str, side: int | None, *, caller: str = _CALLER
) -> Tensor:
    """Return inputs as a tensor: images as bytes (n, 3, h, w), rows as float32."""
    if kind == "text":
        msg = _check.must(
            "images or rows of numbers",
            caller=caller,
            name="data",
            got="texts",
            remedy="Embed them first: a table of embeddings can be trained on",
        )
        raise TypeError(msg)
    if kind == "table":
        rows = _rows(inputs, caller)
        if not np.isfinite(rows).all():
            rule, got = "finite numbers", "NaN or infinity"
            remedy = "Fill in or leave out what is missing"
            msg = _check.must(rule, caller=caller, name="data", got=got, remedy=remedy)
            raise ValueError(msg)
        return torch.from_numpy(rows)
    pixels = _pixels(inputs, side, caller)
    if pixels.ndim == 3:
        pixels = pixels[..., None]
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[-1] not in (1, 3):
        got = f"dtype {pixels.dtype}, shape {pixels.shape}"
        raise TypeError(_check.must(_IMAGES, caller=caller, name="data", got=got))
    images = torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))
    return images.expand(-1, 3, -1, -1).contiguous()


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
        remedy = "Images in files are read by datasets.load(folder)"
        msg = _check.must(_IMAGES, caller=caller, name="data", got=got, remedy=remedy)
        raise TypeError(msg)
    if side is None:
        msg = _check.must(
            "given for images in files that are not all squares of one size",
            caller=caller,
            name="side",
            got=None,
            remedy="Say which side to bring them to: side=64, or --set side=64",
        )
        raise ValueError(msg)
    return lazy_inputs.resize(inputs, side, channels=3)


class Batches:
    """The training samples of one run.

    Parameters
    ----------
    samples
        The training part.
    pipeline
        Augmentation of images.
    device
        Where the samples are kept and augmented.
    batch
        Samples per update, over all processes.
    seed
        Orders and augments them.
    rank, world
        Which process of how many: each takes its share of every batch.
    """

    def __init__(
        self,
        samples: Samples,
        pipeline: Pipeline,
        *,
        device: torch.device,
        batch: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        tensor = as_tensor(samples.inputs, samples.kind, pipeline.side)
        self.inputs = tensor.to(device)
        self.labels = torch.from_numpy(np.array(samples.labels)).to(device)
        self.pipeline = pipeline
        self.device, self.batch, self.seed = device, batch, seed
        self.rank, self.world = rank, world
        if len(self) == 0:
            msg = _check.must(
                f"at least {2 * world} samples",
                caller=_CALLER,
                name="the training part",
                got=self.n,
            )
            raise ValueError(msg)

    def __len__(self) -> int:
        """Batches per epoch; a last one that leaves a process fewer than two is not.

        Batch norm has no spread of a single sample. The order is another one in every
        epoch, so all samples have their turn.
        """
        whole, left = divmod(self.labels.shape[0], self.batch)
        return whole + (left >= 2 * self.world)

    @property
    def n(self) -> int:
        """Samples."""
        return self.labels.shape[0]

    def epoch(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the inputs and labels of one pass, in a new order."""
        generator = torch.Generator().manual_seed(derived(self.seed, epoch))
        order = torch.randperm(self.n, generator=generator)
        batches = order.split(self.batch)[: len(self)]
        shares = [batch.tensor_split(self.world)[self.rank] for batch in batches]
        size = self.inputs[0].nbytes * self.batch // self.world
        per_chunk = max(1, _CHUNK // size)
        for start in range(0, len(shares), per_chunk):
            chunk = shares[start : start + per_chunk]
            rows = _sent(torch.cat(chunk), self.device)
            draws = derived(self.seed, epoch, start, self.rank)
            inputs = self._augmented(rows, generator.manual_seed(draws))
            labels = self.labels[rows]
            sizes = [share.shape[0] for share in chunk]
            yield from zip(inputs.split(sizes), labels.split(sizes), strict=True)

    def _augmented(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        inputs = self.inputs[rows]
        if inputs.dtype != torch.uint8:
            return inputs
        return self.pipeline.augment(inputs, generator)


def _sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Send without waiting for what the device is doing."""
    if device.type != "cuda":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)
