"""Updates: one batch, one step of each optimiser; recorded as a CUDA graph on a GPU."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch

from openset.train.loop._batches import Batch

_WARM = 3  # updates before a graph is recorded, in which libraries choose kernels


class Updates:
    """Makes the updates of one run, and sums up losses and correct predictions.

    On a GPU a small network's update is hundreds of short kernels, and launching them
    costs more than running them. The first updates of each batch size run as usual;
    then one is recorded, and replayed in a single launch from there on.

    Parameters
    ----------
    fabric
        Backward passes go through it.
    learner
        The learner, set up by fabric.
    optimisers
        One per part of the method, set up by fabric.
    parts
        See `Method.parts`.
    batch
        The usual batch size; batches of other sizes are not compiled.
    accumulate
        Number of parts each batch is cut into, whose gradients add up; the last batch
        of an epoch is cut into fewer, if its parts would be single samples.
    compiled
        Whether the learner is compiled.
    record
        Whether to record CUDA graphs.
    """

    def __init__(
        self,
        fabric: Any,
        learner: Any,
        optimisers: Mapping[str, Any],
        parts: Mapping[str, str],
        *,
        batch: int,
        accumulate: int = 1,
        compiled: bool = False,
        record: bool = False,
    ) -> None:
        self.fabric, self.learner, self.optimisers = fabric, learner, optimisers
        self.parts = parts
        self.batch, self.accumulate = batch, accumulate
        self.compiled, self.record = compiled, record
        # Sum of losses, correct answers, samples: on the device, read once per epoch.
        self.totals = torch.zeros(3, dtype=torch.float64, device=fabric.device)
        self._seen: dict[Any, int] = {}
        self._graphs: dict[Any, _Recorded] = {}

    def __call__(self, phases: tuple[str, ...], batch: Batch, weight: float) -> None:
        """Make the updates of one batch; `weight` corrects for uneven shares of it."""
        # The number of known samples decides that of the negatives.
        key = (phases, tuple(batch.inputs.shape))
        if self.record:
            graph = self._graphs.get(key)
            seen = self._seen[key] = self._seen.get(key, 0) + 1
            if graph is None and seen > _WARM:
                graph = _Recorded(lambda b: self._update(phases, b, weight), batch)
                self._graphs[key] = graph
            if graph is not None:
                graph(batch)
                return
        self._update(phases, batch, weight)

    def _update(self, phases: tuple[str, ...], batch: Batch, weight: float) -> None:
        # The compiler would run again for the last, smaller batch of an epoch.
        is_plain = not self.compiled or batch.labels.shape[0] == self.batch
        stance = nullcontext() if is_plain else torch.compiler.set_stance("force_eager")
        with stance:
            for phase in phases:
                self._step(phase, batch, weight)

    def _step(self, phase: str, batch: Batch, weight: float) -> None:
        for optimiser in self.optimisers.values():
            optimiser.zero_grad(set_to_none=True)
        n = batch.labels.shape[0]
        # Batch norm needs two samples: a small last batch is cut into fewer parts,
        # unless the usual batches are cut as small.
        is_fine = self.batch < 2 * self.accumulate
        parts = self.accumulate if is_fine else min(self.accumulate, max(n // 2, 1))
        cut = [t.tensor_split(parts) for t in batch if t is not None]
        pieces = [(x, y, *u) for x, y, *u in zip(*cut, strict=True) if y.shape[0]]
        for i, (x, y, *u) in enumerate(pieces):
            is_last = i == len(pieces) - 1
            with self.fabric.no_backward_sync(self.learner, enabled=not is_last):
                loss, hits = self.learner(x, y, phase, *u)
                share = weight * y.shape[0] / n
                self.fabric.backward(loss if share == 1 else loss * share)
            if phase == "loss":
                n_piece = torch.full_like(hits, y.shape[0])
                self.totals += torch.stack([loss.detach() * n_piece, hits, n_piece])
        self.optimisers[self.parts.get(phase, "classifier")].step()


class _Recorded:
    """A function of a batch, recorded once and replayed with other batches."""

    def __init__(self, function: Callable[[Batch], None], batch: Batch) -> None:
        inputs, labels, negatives = batch
        others = None if negatives is None else negatives.clone()
        self.batch = Batch(inputs.clone(), labels.clone(), others)
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream()
        with torch.cuda.graph(
            self.graph, stream=stream, capture_error_mode="thread_local"
        ):
            function(self.batch)

    def __call__(self, batch: Batch) -> None:
        for ours, new in zip(self.batch, batch, strict=True):
            if ours is not None and new is not None:
                ours.copy_(new)
        self.graph.replay()
