"""Batches: samples kept on the device and augmented there, many batches at a time."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from openset import _check
from openset.datasets import Samples, lazy_inputs
from openset.train.augment import Pipeline
from openset.train.augment.ops import sent

# Bytes of samples augmented together. A GPU is fastest with many at once: a chunk costs
# some hundred kernel launches whatever its size.
_CHUNK = 2**27
_OF_NEGATIVES = 2  # last in the place of their seeds, which no other seed has


class Batch(NamedTuple):
    """Inputs and labels of known samples, and the negatives of the same batch."""

    inputs: Tensor
    labels: Tensor
    negatives: Tensor | None = None


class Batches:
    """The training samples of one run, in shuffled and augmented batches.

    Parameters
    ----------
    samples, pipeline
        The training part, and the augmentation of images.
    device
        Where all samples are kept, images as bytes, and augmented.
    batch
        Samples per update, over all processes.
    seed
        Seed of the order and of the augmentation.
    rank, world
        Number of this process, and of all processes: each takes its share of every
        batch.
    negatives
        Samples of no known class that are added to each batch, in a new order every
        epoch. If there are too few for an epoch, all of them are used again in another
        order.
    n_negatives
        From the number of known samples to that of negatives beside them.
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
        negatives: Samples | None = None,
        n_negatives: Callable[[int], int] = int,
    ) -> None:
        self.inputs = as_tensor(samples.inputs, samples.kind, pipeline.side).to(device)
        self.labels = torch.from_numpy(np.array(samples.labels)).to(device)
        self.device, self.batch, self.seed = device, batch, seed
        self.pipeline = pipeline
        self.rank, self.world, self.n_negatives = rank, world, n_negatives
        self.n, self.negatives = len(samples), None
        if negatives is not None:
            outside = as_tensor(negatives.inputs, negatives.kind, pipeline.side)
            self.negatives = outside.to(device)

    def __len__(self) -> int:
        """Return the number of batches per epoch.

        A last batch with fewer than two samples per process is left out, because batch
        norm needs two. The order changes every epoch, so each sample gets its turn.
        """
        whole, left = divmod(self.n, self.batch)
        return whole + (left >= 2 * self.world)

    def epoch(self, epoch: int, pipeline: Pipeline | None = None) -> Iterator[Batch]:
        """Yield one pass over the data, in a new order.

        Another pipeline may be given; it must produce images of the same size.
        """
        pipeline = pipeline or self.pipeline
        generator = torch.Generator().manual_seed(derived(self.seed, epoch))
        order = torch.randperm(self.n, generator=generator).split(self.batch)
        parts = [one.tensor_split(self.world) for one in order[: len(self)]]
        shares = [part[self.rank] for part in parts]
        others = self._negative_rows(parts, epoch)
        size = self.inputs[0].nbytes * self.batch // self.world
        if self.negatives is not None:
            size += self.negatives[0].nbytes * len(others[0])
        per_chunk = max(1, _CHUNK // size)

        def chunk_of(source: Tensor, rows: list[Tensor], *place: int) -> Any:
            """Return augmented samples of several batches, and the numbers of all."""
            numbers = sent(torch.cat(rows), self.device)
            inputs = source[numbers]
            if inputs.dtype == torch.uint8:
                generator.manual_seed(derived(self.seed, epoch, *place))
                inputs = pipeline.augment(inputs, generator)
            return inputs.split([len(one) for one in rows]), numbers

        for start in range(0, len(shares), per_chunk):
            some = slice(start, start + per_chunk)
            place = (start, self.rank)
            x, numbers = chunk_of(self.inputs, shares[some], *place)
            y = self.labels[numbers].split([len(one) for one in x])
            u: Any = [None] * len(x)
            if self.negatives is not None:
                u, _ = chunk_of(self.negatives, others[some], *place, _OF_NEGATIVES)
            yield from map(Batch, x, y, u)

    def _negative_rows(
        self, parts: list[tuple[Tensor, ...]], epoch: int
    ) -> list[Tensor]:
        """Return the rows of the negatives beside this process's shares."""
        if self.negatives is None:
            return []
        # All processes draw the same order, and each takes its own rows of it.
        counts = [self.n_negatives(len(share)) for part in parts for share in part]
        seed = derived(self.seed, epoch, 0, 0, _OF_NEGATIVES)
        generator, n = torch.Generator().manual_seed(seed), len(self.negatives)
        rounds = -(-sum(counts) // n)
        orders = [torch.randperm(n, generator=generator) for _ in range(rounds)]
        rows = torch.cat(orders)[: sum(counts)].split(counts)
        return list(rows[self.rank :: self.world])


def as_tensor(
    inputs: Any,
    kind: str,
    side: int | None,
    *,
    caller: str = "train.fit",
    finite: bool = True,
) -> Tensor:
    """Return images as uint8 (n, 3, h, w), or rows of numbers as float32 (n, d).

    Rows that are not finite are refused, or with ``finite=False`` made NaN.

    Examples
    --------
    >>> as_tensor(np.zeros((2, 4, 4), np.uint8), "image", None).shape
    torch.Size([2, 3, 4, 4])
    """
    if kind == "text":
        remedy = "Embed the texts first and train on the table of embeddings"
        _check.fail(caller, "data", "images or numbers", "texts", remedy, TypeError)
    if kind == "table":
        rows = np.array(inputs, dtype=np.float32)
        is_bad = ~np.isfinite(rows).all(axis=-1)
        if rows.ndim != 2 or (finite and is_bad.any()):
            got = f"shape {rows.shape}, {is_bad.sum()} with NaN or infinity"
            remedy = "Fill in missing values, or leave those samples out"
            _check.fail(caller, "data", "rows of finite numbers", got, remedy)
        rows[is_bad] = np.nan
        return torch.from_numpy(rows)
    if lazy_inputs.is_lazy(inputs):  # files
        if side is None:
            remedy = "Choose the side to resize them to, such as side=64"
            which = "given for image files that are not all squares of one size"
            _check.fail(caller, "side", which, None, remedy)
        inputs = lazy_inputs.resize(inputs, side, channels=3)
    pixels = np.asarray(inputs.cpu() if isinstance(inputs, Tensor) else inputs)
    pixels = pixels[..., None] if pixels.ndim == 3 else pixels
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[-1] not in (1, 3):
        rule = "images as uint8, shape (n, h, w) or (n, h, w, 3)"
        remedy = "Read image files with datasets.load(folder)"
        got = f"dtype {pixels.dtype}, shape {pixels.shape}"
        _check.fail(caller, "data", rule, got, remedy, TypeError)
    images = torch.from_numpy(np.array(pixels.transpose(0, 3, 1, 2), order="C"))
    return images.expand(-1, 3, -1, -1).contiguous()


def blank(shape: tuple[int, ...]) -> Tensor:
    """Return two black images, or two rows of zeros, of the given sample shape."""
    dtype = torch.uint8 if len(shape) == 3 else torch.float32
    return torch.zeros(2, *shape, dtype=dtype)


def derived(seed: int, *place: int) -> int:
    """Derive the seed of a part of a run (an epoch, a chunk, a process).

    No draw depends on what ran before: a run that was interrupted, or shares its
    device, draws the same numbers as an undisturbed one.

    Examples
    --------
    >>> derived(0, 1) == derived(0, 1), derived(0, 1) == derived(0, 2)
    (True, False)
    """
    state = np.random.SeedSequence([seed, *place]).generate_state(1, np.uint64)
    return int(state[0]) & 2**62 - 1  # room to count steps on top
