"""One training run, an update at a time, so that several can share a device."""

import math
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from openset import _check, metrics
from openset._types import ArtefactError
from openset.datasets import Cut, Samples, lazy_inputs
from openset.train import _checkpoint
from openset.train._batches import Batches, as_tensor
from openset.train._learner import Learner, make_learner
from openset.train._log import Log
from openset.train._respond import GENTLER, answer, from_all, known_scores
from openset.train._seeds import derived, start_step
from openset.train._spec import Spec
from openset.train._updates import Updates

_CALLER = "train.fit"
_EXAMPLES = 512


class Counted(NamedTuple):
    """What an epoch came to; `totals` hold when `ready` has happened."""

    epoch: int
    rate: float
    totals: torch.Tensor
    started: Any
    ready: Any
    curves: dict[str, float]


class Run:
    """A learner, its optimisers and its data on a device.

    :meth:`updates` trains; it stops after each update, so that a caller can let
    several runs take turns, or stop for good.

    Parameters
    ----------
    spec, cut
        What to train, on what.
    network
        Name of a network, or a model.
    fabric
        Launched.
    folder
        Where checkpoint and log go; None keeps nothing.
    compiled
        Whether to compile the learner.
    curves
        Record open-set metrics on the test part after every epoch. They are drawn, and
        choose nothing.
    seconds
        Least time between two checkpoints.
    """

    def __init__(
        self,
        spec: Spec,
        cut: Cut,
        network: str | nn.Module,
        fabric: Any,
        *,
        folder: Path | None = None,
        compiled: bool = False,
        curves: bool = False,
        seconds: float = 30.0,
        tensorboard: bool = False,
    ) -> None:
        self.spec, self.cut, self.fabric, self.folder = spec, cut, fabric, folder
        self.curves, self.seconds = curves, seconds
        device = self.device = fabric.device
        is_cuda = device.type == "cuda"
        # Everything of one run lies on one stream: runs do not wait for each other.
        self.stream = torch.cuda.Stream(device) if is_cuda else None
        with self.turn():
            self._build(network, compiled=compiled)
        self.rate = spec.recipe.rate(0)
        self.done = 0  # epochs
        self.is_chief = fabric.global_rank == 0
        own = folder if self.is_chief else None
        self.log = Log(own, tensorboard=tensorboard)

    def _build(self, network: str | nn.Module, *, compiled: bool) -> None:
        spec, fabric = self.spec, self.fabric
        recipe, train = spec.recipe, self.cut.train
        start_step(derived(spec.seed), self.device)
        example = as_tensor(_example(train), train.kind, recipe.pipeline.side)
        made = make_learner(spec, network, example)
        self.method = made.method
        self._check_batch()
        learner = fabric.to_device(made)
        if self.stream is not None:
            learner = learner.to(memory_format=torch.channels_last)
        self.learner: Learner = learner
        if compiled:
            learner.compile(dynamic=False)
        own = {p.part for phases in self.method.passes for p in phases}
        optimisers = {
            part: self.method.optimiser(part) for part in sorted(own - {"classifier"})
        }
        moved = {id(p) for o in optimisers.values() for g in o.param_groups
                 for p in g["params"]}  # fmt: skip
        own_parameters = [
            p for p in learner.parameters() if p.requires_grad and id(p) not in moved
        ]
        if not own_parameters:
            msg = _check.must(
                "a model with parameters to train",
                caller=_CALLER,
                name="network",
                got="one with all of them frozen",
                remedy="model.requires_grad_() thaws them; a trained model needs none: "
                "train.extract takes its outputs",
            )
            raise ValueError(msg)
        optimisers["classifier"] = self._optimiser(own_parameters)
        wrapped, *ready = fabric.setup(learner, *optimisers.values())
        self.optimisers = dict(zip(optimisers, ready, strict=True))
        self.batches = Batches(
            train,
            recipe.pipeline,
            device=self.device,
            batch=recipe.batch,
            seed=derived(spec.seed, 1),
            rank=fabric.global_rank,
            world=fabric.world_size,
        )
        self.update = Updates(
            fabric,
            wrapped,
            self.optimisers,
            batch=recipe.batch // fabric.world_size,
            parts=spec.parts,
            compiled=compiled,
            record=self.stream is not None and fabric.world_size == 1,
        )

    def _optimiser(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        recipe = self.spec.recipe
        is_cuda = self.stream is not None
        # A recorded graph reads the rate from memory; a plain number would be frozen.
        lr = torch.tensor(recipe.rate(0), device=self.device) if is_cuda else recipe.lr
        common: dict[str, Any] = {"lr": lr, "weight_decay": recipe.weight_decay}
        if recipe.optimiser == "adam":
            return torch.optim.Adam(parameters, fused=is_cuda, **common)
        return torch.optim.SGD(
            parameters, momentum=recipe.momentum, fused=is_cuda, **common
        )

    def _check_batch(self) -> None:
        """Refuse batches that cannot be shared out, or whose shares do not work."""
        batch, world = self.spec.recipe.batch, self.fabric.world_size
        if batch < world:
            msg = _check.must(
                f"at least {world}, one sample for each process",
                caller=_CALLER,
                name="batch",
                got=batch,
            )
            raise ValueError(msg)
        shares = torch.empty(batch, 0).tensor_split(world)
        pieces = [p for share in shares for p in share.tensor_split(self.spec.parts)]
        for size in sorted({len(piece) for piece in pieces} - {0}):
            try:
                self.method.check_batch(size)
            except ValueError as error:
                if size == batch:
                    raise
                msg = (
                    f"{error}. A batch of {batch} was cut for {world} processes and "
                    f"{self.spec.parts} parts (accumulate)"
                )
                raise ValueError(msg) from error

    def turn(self) -> Any:
        """Work on this run's stream."""
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    @property
    def n_updates(self) -> int:
        """Batches that will be seen in all."""
        return self.spec.recipe.epochs * len(self.method.passes) * len(self.batches)

    @property
    def checkpoint(self) -> Path | None:
        """The file the run goes on from."""
        return None if self.folder is None else self.folder / "checkpoint.safetensors"

    def resume(self) -> None:
        """Go on from the checkpoint, if there is one."""
        path = self.checkpoint
        if path is not None and path.exists():
            self._load(path)
        if path is not None and self.is_chief:
            for left in path.parent.glob(f".{path.name}.*"):
                left.unlink()  # a kill came while it was written
        self.log.keep(self.done)
        if self.fabric.world_size > 1:
            done = torch.tensor(self.done, device=self.device)
            everyone = from_all(self.fabric, done)
            if int(everyone.min()) != int(everyone.max()):
                msg = _check.must(
                    "one that all processes see",
                    caller=_CALLER,
                    name="out",
                    got=f"checkpoints after {everyone.tolist()} epochs",
                )
                raise ArtefactError(msg)

    def _load(self, path: Path) -> None:
        _, spec = _checkpoint.read_spec(path)
        differing = self.spec.differing(spec)
        if differing:
            msg = (
                f"{_CALLER}: {path} must be a checkpoint of the same run, got another "
                f"{', '.join(differing)}. Choose another folder, or delete this one"
            )
            raise ArtefactError(msg)
        self.done = _checkpoint.load(path, self.learner, self.optimisers)

    def updates(self) -> Iterator[None]:
        """Train; stop after each batch."""
        epochs = self.spec.recipe.epochs
        saved = time.monotonic()
        self.learner.train()
        last: Counted | None = None
        for epoch in range(self.done, epochs):
            self._set_rate(epoch)
            started = self._now()
            yield from self._epoch(epoch)
            self.done = epoch + 1
            counted = self._counted(epoch, started)
            # A line is written an epoch late: waiting for the device now would leave
            # it without work until the next epoch is prepared.
            if last is not None:
                self._write_line(last)
            last = counted
            if time.monotonic() - saved >= self.seconds and self.done < epochs:
                self._write_line(last)
                last = None
                self.save()
                saved = time.monotonic()
        if last is not None:
            self._write_line(last)
        self.save()

    def _epoch(self, epoch: int) -> Iterator[None]:
        rank = self.fabric.global_rank
        world = self.fabric.world_size
        step = derived(self.spec.seed, 2, epoch, rank)
        n = self.batches.n
        for number, phases in enumerate(self.method.passes):
            place = epoch * len(self.method.passes) + number
            for index, (inputs, labels) in enumerate(self.batches.epoch(place)):
                step += 1
                start_step(step, self.device)
                whole = min(self.spec.recipe.batch, n - index * self.spec.recipe.batch)
                self.update(phases, inputs, labels, labels.shape[0] * world / whole)
                yield

    def _set_rate(self, epoch: int) -> None:
        self.rate = self.spec.recipe.rate(epoch)
        for group in self.optimisers["classifier"].param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(self.rate)
            else:
                group["lr"] = self.rate

    def _now(self) -> Any:
        """Mark this moment: on the device's own clock, if it has one."""
        if self.stream is None:
            return time.monotonic()
        return self.stream.record_event(torch.cuda.Event(enable_timing=True))

    def _counted(self, epoch: int, started: Any) -> "Counted":
        """Take the counts of an epoch off the device, without waiting for it."""
        totals = self.update.totals.clone()
        self.update.totals.zero_()
        if self.fabric.world_size > 1:
            totals = self.fabric.all_reduce(totals, reduce_op="sum")
        if self.stream is not None:
            totals = totals.to("cpu", non_blocking=True)
        ready = self._now()
        curves = self._curves() if self.curves else {}
        return Counted(epoch, self.rate, totals, started, ready, curves)

    def _write_line(self, counted: "Counted") -> None:
        if self.stream is None:
            seconds = counted.ready - counted.started
        else:
            counted.ready.synchronize()
            seconds = counted.started.elapsed_time(counted.ready) / 1000
        loss, hits, n = counted.totals.tolist()
        if not math.isfinite(loss):
            raise FloatingPointError(self._exploded("loss", loss, counted.epoch))
        line = {
            "epoch": counted.epoch,
            "lr": counted.rate,
            "loss": loss / n,
            "accuracy": hits / n,
            "seconds": seconds,
            "samples_per_second": n / seconds,
        }
        self.log.add(line | counted.curves)

    def _exploded(self, what: str, got: object, epoch: int | None = None) -> str:
        last = self.done - 1 if epoch is None else epoch
        spec = self.spec
        chosen = ", ".join(f"{name}={value}" for name, value in spec.options.items())
        return _check.must(
            "finite to the end",
            caller=_CALLER,
            name=f"the {what} of {spec.title}{f' ({chosen})' if chosen else ''}",
            got=f"{got} in epoch {last}",
            remedy=GENTLER,
        )

    def _curves(self) -> dict[str, float]:
        test = self.cut.tests[0]
        found = answer(self.fabric, self.learner, test, self.spec.recipe.pipeline)
        self.learner.train()
        scores = known_scores(found.outputs) | {"own": found.scores}
        line = {}
        for name, one in scores.items():
            line[f"test_openauc_{name}"] = metrics.openauc(one)
            line[f"test_auroc_{name}"] = metrics.auroc(one)
        line["test_accuracy"] = metrics.accuracy(scores["own"])
        return line

    def save(self) -> None:
        """Write the checkpoint."""
        if not all(bool(p.isfinite().all()) for p in self.learner.parameters()):
            # The loss of the last batch was taken before its update.
            raise FloatingPointError(self._exploded("weights", "others"))
        if self.checkpoint is not None and self.is_chief:
            _checkpoint.save(
                self.checkpoint,
                self.learner,
                self.optimisers,
                epoch=self.done,
                spec=self.spec.to_json(),
            )


def _example(samples: Samples) -> Any:
    """Return inputs to shape a network by: a whole table, or images from all over."""
    n = len(samples)
    if samples.kind == "table" or n <= _EXAMPLES:
        return samples.inputs
    return lazy_inputs.take(samples.inputs, np.linspace(0, n - 1, _EXAMPLES, dtype=int))
