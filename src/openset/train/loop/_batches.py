"""Batches: samples kept on the device and augmented there, many batches at a time."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from openset import _check
from openset.datasets import Samples
from openset.train.augment import Pipeline
from openset.train.learner._tensors import as_tensor
from openset.train.loop._seeds import derived

# Bytes of samples augmented together. A GPU is fastest with many at once (a chunk
# costs some hundred kernel launches whatever its size); on a CPU the augmentation
# itself works in smaller pieces.
_CHUNK = 2**27
_OF_NEGATIVES = 2  # last in the place of their seeds, which no other seed has


class Batch(NamedTuple):
    """Inputs and labels of known samples, and the negatives of the same batch."""

    inputs: Tensor
    labels: Tensor
    negatives: Tensor | None = None


class Negatives(NamedTuple):
    """Negatives of a run, and how many there are per batch.

    Attributes
    ----------
    samples
        The negative part.
    count
        Function from the number of known samples to that of negatives.
    parts
        Number of parts each batch is divided into, with equally many negatives in each.
    """

    samples: Samples
    count: Callable[[int], int]
    parts: int = 1

    def beside(self, n: int) -> int:
        """Return the number of negatives for n known samples, a multiple of `parts`."""
        return self.parts * -(-self.count(n) // self.parts)


class Batches:
    """The training samples of one run, in shuffled and augmented batches.

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
        Seed of the order and of the augmentation.
    rank, world
        Number of this process, and of all processes: each takes its share of every
        batch.
    negatives
        Samples of no known class that are added to each batch, in a new order every
        epoch. If there are too few for an epoch, all of them are used again in another
        order.
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
        negatives: Negatives | None = None,
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
                caller="train.fit",
                name="the training part",
                got=self.n,
            )
            raise ValueError(msg)
        self.negatives: Tensor | None = None
        if negatives is not None:
            others = negatives.samples
            outside = as_tensor(others.inputs, others.kind, pipeline.side)
            _check_shape(outside, tensor, pipeline)
            self.negatives = outside.to(device)
            self.n_negatives = negatives.beside

    def __len__(self) -> int:
        """Return the number of batches per epoch.

        A last batch with fewer than two samples per process is left out, because batch
        norm needs two. The order changes every epoch, so each sample gets its turn.
        """
        whole, left = divmod(self.labels.shape[0], self.batch)
        return whole + (left >= 2 * self.world)

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.labels.shape[0]

    def epoch(self, epoch: int, pipeline: Pipeline | None = None) -> Iterator[Batch]:
        """Yield one pass over the data, in a new order.

        Another pipeline may be given; it must produce images of the same size.
        """
        pipeline = self.pipeline if pipeline is None else pipeline
        generator = torch.Generator().manual_seed(derived(self.seed, epoch))
        order = torch.randperm(self.n, generator=generator)
        batches = [b.tensor_split(self.world) for b in order.split(self.batch)]
        batches = batches[: len(self)]
        shares = [batch[self.rank] for batch in batches]
        others = self._negative_rows(batches, epoch)
        size = self.inputs[0].nbytes * self.batch // self.world
        if self.negatives is not None:
            size += self.negatives[0].nbytes * others[0].shape[0]
        per_chunk = max(1, _CHUNK // size)
        for start in range(0, len(shares), per_chunk):
            chunk = shares[start : start + per_chunk]
            rows = _sent(torch.cat(chunk), self.device)
            draws = derived(self.seed, epoch, start, self.rank)
            inputs = _augmented(self.inputs[rows], pipeline, generator, draws)
            labels = self.labels[rows]
            sizes = [share.shape[0] for share in chunk]
            both = zip(inputs.split(sizes), labels.split(sizes), strict=True)
            if self.negatives is None:
                yield from (Batch(*one) for one in both)
                continue
            chunk = others[start : start + per_chunk]
            rows = _sent(torch.cat(chunk), self.device)
            draws = derived(self.seed, epoch, start, self.rank, _OF_NEGATIVES)
            more = _augmented(self.negatives[rows], pipeline, generator, draws)
            negatives = more.split([share.shape[0] for share in chunk])
            for (x, y), u in zip(both, negatives, strict=True):
                yield Batch(x, y, u)

    def _negative_rows(
        self, batches: list[tuple[Tensor, ...]], epoch: int
    ) -> list[Tensor]:
        """Return the rows of the negatives in this process's share of each batch."""
        if self.negatives is None:
            return []
        # All processes draw the same order, and each takes its own rows of it.
        counts = [self.n_negatives(len(share)) for batch in batches for share in batch]
        seed = derived(self.seed, epoch, 0, 0, _OF_NEGATIVES)
        generator = torch.Generator().manual_seed(seed)
        n = self.negatives.shape[0]
        orders = [
            torch.randperm(n, generator=generator) for _ in range(-(-sum(counts) // n))
        ]
        rows = torch.cat(orders)[: sum(counts)].split(counts)
        return list(rows[self.rank :: self.world])


def _augmented(
    inputs: Tensor, pipeline: Pipeline, generator: torch.Generator, seed: int
) -> Tensor:
    if inputs.dtype != torch.uint8:
        return inputs
    return pipeline.augment(inputs, generator.manual_seed(seed))


def _check_shape(negatives: Tensor, samples: Tensor, pipeline: Pipeline) -> None:
    """Refuse negatives that the network cannot take together with the samples."""
    is_resized = samples.dtype == torch.uint8 and pipeline.side is not None
    got, own = tuple(negatives.shape[1:]), tuple(samples.shape[1:])
    if got != own and not is_resized:
        msg = _check.must(
            f"of shape {own} like the training samples",
            caller="train.fit",
            name="negatives",
            got=got,
            remedy="Images are resized with side=..." if len(own) == 3 else "",
        )
        raise ValueError(msg)


def _sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy to the device without waiting for its queue."""
    if device.type != "cuda":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)
