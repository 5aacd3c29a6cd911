"""One training run, an update at a time, so that several can share a device."""

import math
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from openset import _check, metrics, trackers
from openset._types import ArtefactError
from openset.datasets import Samples, lazy_inputs
from openset.train.inference._predict import (
    GENTLER,
    Predictions,
    from_all,
    logit_scores,
    predict,
)
from openset.train.jobs._job import Execution
from openset.train.jobs._prepare import PreparedJob
from openset.train.learner import _checkpoint
from openset.train.learner._learner import Learner, make_learner
from openset.train.learner._tensors import as_tensor
from openset.train.loop._batches import Batches, Negatives
from openset.train.loop._log import Log
from openset.train.loop._seeds import derived, start_step
from openset.train.loop._updates import Updates
from openset.train.methods import WithNegatives

_CALLER = "train.fit"
_EXAMPLES = 512


class EpochTotals(NamedTuple):
    """Sums over an epoch; `totals` can be read once `ready` has happened."""

    epoch: int
    rate: float
    totals: torch.Tensor
    started: Any
    ready: Any
    curves: dict[str, float]


class TrainingRun:
    """A learner, its optimisers and its data on a device.

    :meth:`updates` trains; it pauses after each update, so that several runs can take
    turns.

    Parameters
    ----------
    job
        What to train; log and checkpoint are written to its folder.
    fabric
        A launched Lightning Fabric.
    execution
        What is recorded, and how often.
    compiled
        Whether to compile the learner.
    """

    def __init__(
        self,
        job: PreparedJob,
        fabric: Any,
        execution: Execution,
        *,
        compiled: bool = False,
    ) -> None:
        self.spec, self.cut, self.folder = job.spec, job.cut, job.out
        self.fabric, self.execution = fabric, execution
        device = self.device = fabric.device
        is_cuda = device.type == "cuda"
        # Each run has a stream of its own: runs do not wait for each other.
        self.stream = torch.cuda.Stream(device) if is_cuda else None
        with self.turn():
            self._build(job.network, pretrained=job.pretrained, compiled=compiled)
        self.rate = self.spec.recipe.rate(0)
        self.done = 0  # epochs
        self.is_chief = fabric.global_rank == 0
        folder = self.folder if self.is_chief else None
        self.log = Log(folder, self._tracker(folder))

    def _tracker(self, folder: Path | None) -> trackers.Tracker | None:
        name = self.execution.log_to
        if name is None or folder is None:
            return None
        spec = self.spec
        return trackers.start(
            name, folder=folder, title=spec.title, parameters=spec.to_json()
        )

    def _build(
        self, network: str | nn.Module, *, pretrained: bool | Path, compiled: bool
    ) -> None:
        spec, fabric = self.spec, self.fabric
        recipe, train = spec.recipe, self.cut.train
        start_step(derived(spec.seed), self.device)
        example = as_tensor(_example(train), train.kind, recipe.pipeline.side)
        made = make_learner(spec, network, example, pretrained=pretrained)
        self.method = made.method
        learner = fabric.to_device(made)
        if self.stream is not None:
            learner = learner.to(memory_format=torch.channels_last)
        self.learner: Learner = learner
        if compiled:
            learner.compile(dynamic=False)
        optimisers = {
            part: self.method.optimiser(part)
            for part in sorted(self.method.parts.values())
        }
        taken = {id(p) for o in optimisers.values() for g in o.param_groups
                 for p in g["params"]}  # fmt: skip
        left = [
            p for p in learner.parameters() if p.requires_grad and id(p) not in taken
        ]
        if not left:
            msg = _check.must(
                "a model with parameters to train",
                caller=_CALLER,
                name="network",
                got="one with all of them frozen",
                remedy="model.requires_grad_() unfreezes them. To get the outputs of "
                "a trained model, use train.extract",
            )
            raise ValueError(msg)
        optimisers["classifier"] = self._optimiser(left)
        wrapped, *ready = fabric.setup(learner, *optimisers.values())
        self.optimisers = dict(zip(optimisers, ready, strict=True))
        negatives = None
        if isinstance(self.method, WithNegatives) and self.cut.negative is not None:
            count = self.method.n_negatives
            negatives = Negatives(self.cut.negative, count, parts=spec.accumulate)
        self.batches = Batches(
            train,
            recipe.pipeline,
            device=self.device,
            batch=recipe.batch,
            seed=derived(spec.seed, 1),
            rank=fabric.global_rank,
            world=fabric.world_size,
            negatives=negatives,
        )
        self.update = Updates(
            fabric,
            wrapped,
            self.optimisers,
            self.method.parts,
            batch=recipe.batch // fabric.world_size,
            accumulate=spec.accumulate,
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

    def turn(self) -> Any:
        """Return the context in which this run's work goes to its own stream."""
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    @property
    def n_updates(self) -> int:
        """Number of batches over all epochs."""
        return self.spec.recipe.epochs * len(self.method.passes) * len(self.batches)

    @property
    def checkpoint(self) -> Path | None:
        """The file the run continues from."""
        return None if self.folder is None else self.folder / "checkpoint.safetensors"

    def resume(self) -> None:
        """Continue from the checkpoint, if there is one."""
        path = self.checkpoint
        if path is not None and path.exists():
            self._load(path)
        if path is not None and self.is_chief:
            _tidy(path.parent)
        self.log.keep(self.done)
        if self.fabric.world_size > 1:
            done = torch.tensor(self.done, device=self.device)
            everyone = from_all(self.fabric, done)
            if int(everyone.min()) != int(everyone.max()):
                msg = _check.must(
                    "a folder that all processes share",
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
        """Train; pause after each batch."""
        epochs = self.spec.recipe.epochs
        saved = time.monotonic()
        self.learner.train()
        last: EpochTotals | None = None
        for epoch in range(self.done, epochs):
            self._set_rate(epoch)
            started = self._now()
            yield from self._epoch(epoch)
            self.done = epoch + 1
            totals = self._totals(epoch, started)
            # A line is written an epoch late: waiting for the device now would leave
            # it without work until the next epoch is prepared.
            if last is not None:
                self._write_line(last)
            last = totals
            is_due = time.monotonic() - saved >= self.execution.checkpoint_seconds
            if is_due and self.done < epochs:
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
        pipeline = self.spec.recipe.pipeline_of(epoch)
        for number, phases in enumerate(self.method.passes):
            place = epoch * len(self.method.passes) + number
            batches = self.batches.epoch(place, pipeline)
            for index, batch in enumerate(batches):
                step += 1
                start_step(step, self.device)
                whole = min(self.spec.recipe.batch, n - index * self.spec.recipe.batch)
                self.update(phases, batch, batch.labels.shape[0] * world / whole)
                yield

    def _set_rate(self, epoch: int) -> None:
        self.rate = self.spec.recipe.rate(epoch)
        for group in self.optimisers["classifier"].param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(self.rate)
            else:
                group["lr"] = self.rate

    def _now(self) -> Any:
        """Return the time, on a GPU as an event of its stream."""
        if self.stream is None:
            return time.monotonic()
        return self.stream.record_event(torch.cuda.Event(enable_timing=True))

    def _totals(self, epoch: int, started: Any) -> EpochTotals:
        """Copy the totals of an epoch from the device, without waiting for it."""
        totals = self.update.totals.clone()
        self.update.totals.zero_()
        if self.fabric.world_size > 1:
            totals = self.fabric.all_reduce(totals, reduce_op="sum")
        if self.stream is not None:
            totals = totals.to("cpu", non_blocking=True)
        ready = self._now()
        every = int(self.execution.curves)  # True is 1: each epoch
        is_due = every and (
            (epoch + 1) % every == 0 or epoch + 1 == self.spec.recipe.epochs
        )
        curves = self._curves() if is_due else {}
        return EpochTotals(epoch, self.rate, totals, started, ready, curves)

    def _write_line(self, epoch: EpochTotals) -> None:
        if self.stream is None:
            seconds = epoch.ready - epoch.started
        else:
            epoch.ready.synchronize()
            seconds = epoch.started.elapsed_time(epoch.ready) / 1000
        loss, hits, n = epoch.totals.tolist()
        if not math.isfinite(loss):
            raise FloatingPointError(self._exploded("loss", loss, epoch.epoch))
        line = {
            "epoch": epoch.epoch,
            "lr": epoch.rate,
            "loss": loss / n,
            "accuracy": hits / n,
            "seconds": seconds,
            "samples_per_second": n / seconds,
        }
        self.log.add(line | epoch.curves)

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
        found = predict(self.fabric, self.learner, test, self.spec.recipe.pipeline)
        self.learner.train()
        scores = logit_scores(found.outputs) | {"published": found.scores}
        line = {}
        for name, one in scores.items():
            line[f"test_openauc_{name}"] = metrics.openauc(one)
            line[f"test_auroc_{name}"] = metrics.auroc(one)
        line["test_accuracy"] = metrics.accuracy(scores["published"])
        return line | self._imbalance(found)

    def _imbalance(self, found: Predictions) -> dict[str, float]:
        """Inner score; Outer, Halfpoint and Overall where a rule was published."""
        line = {"test_inner_score": metrics.inner_score(found.scores)}
        logits = np.asarray(found.outputs.logits, dtype=np.float64)
        margin = self.method.published_margin(logits, found.scores.known)
        if margin is not None:
            decided = replace(found.scores, known=margin)
            for name in (
                "outer_score",
                "halfpoint_score",
                "halfpoint_k_plus_1",
                "overall_score",
            ):
                line[f"test_{name}"] = metrics.get(name).value(decided, 0.0)
        return line

    def save(self) -> None:
        """Write the checkpoint."""
        if not all(bool(p.isfinite().all()) for p in self.learner.parameters()):
            # The loss of the last batch was computed before its update.
            raise FloatingPointError(self._exploded("weights", "NaN or infinity"))
        if self.checkpoint is not None and self.is_chief:
            _checkpoint.save(
                self.checkpoint,
                self.learner,
                self.optimisers,
                epoch=self.done,
                spec=self.spec.to_json(),
            )


def _tidy(folder: Path) -> None:
    """Remove the temporary files of a run that was killed while it wrote."""
    for kind in (".*.safetensors.*", ".*.jsonl.*", ".*.json.*", "*/.*.npz.*"):
        for left in folder.glob(kind):
            left.unlink()


def _example(samples: Samples) -> Any:
    """Return inputs to build a network for: a whole table, or some images."""
    n = len(samples)
    if samples.kind == "table" or n <= _EXAMPLES:
        return samples.inputs
    return lazy_inputs.take(samples.inputs, np.linspace(0, n - 1, _EXAMPLES, dtype=int))
