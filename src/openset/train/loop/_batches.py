"""Batches: samples kept on the device and augmented there, many batches at a time."""

from collections.abc import Iterator

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
                caller="train.fit",
                name="the training part",
                got=self.n,
            )
            raise ValueError(msg)

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

    def epoch(
        self, epoch: int, pipeline: Pipeline | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield inputs and labels of one pass over the data, in a new order.

        A pipeline of its own must lead to images of the same size.
        """
        pipeline = self.pipeline if pipeline is None else pipeline
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
            inputs = self._augmented(rows, pipeline, generator.manual_seed(draws))
            labels = self.labels[rows]
            sizes = [share.shape[0] for share in chunk]
            yield from zip(inputs.split(sizes), labels.split(sizes), strict=True)

    def _augmented(
        self, rows: Tensor, pipeline: Pipeline, generator: torch.Generator
    ) -> Tensor:
        inputs = self.inputs[rows]
        if inputs.dtype != torch.uint8:
            return inputs
        return pipeline.augment(inputs, generator)


def _sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy to the device without waiting for its queue."""
    if device.type != "cuda":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)
