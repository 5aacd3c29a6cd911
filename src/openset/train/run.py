"""One training run, an update at a time, so that several can share a device."""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from openset import _check, _io, metrics
from openset._types import ArtefactError
from openset.datasets import Samples, lazy_inputs
from openset.train.batches import Batch, Batches, as_tensor, derived
from openset.train.job import Execution
from openset.train.learner import Learner, make_learner
from openset.train.methods import WithNegatives
from openset.train.model import logit_scores, predict
from openset.train.plan import Plan

_WARM = 3  # updates before a graph is recorded, in which libraries choose kernels
_EVERY = 30.0  # seconds between checkpoints, at least
_EXAMPLES = 512  # images to build a network for
_GENTLER = "Try a lower learning rate (lr=), or a longer warm-up (warmup=)"
_IMBALANCE = ("outer_score", "halfpoint_score", "halfpoint_k_plus_1", "overall_score")


class Run:
    """A learner, its optimisers and its data on a device.

    :meth:`updates` trains; it pauses after each batch, so that several runs can take
    turns. On a GPU a small network's update is hundreds of short kernels, and launching
    them costs more than running them: the first updates of each batch size run as
    usual, then one is recorded as a CUDA graph and replayed from there on.

    Parameters
    ----------
    plan
        What to train; log and checkpoint are written to its folder.
    fabric
        A launched Lightning Fabric.
    execution
        What is recorded.
    compiled
        Whether to compile the learner.
    """

    def __init__(
        self, plan: Plan, fabric: Any, execution: Execution, *, compiled: bool = False
    ) -> None:
        self.plan, self.fabric, self.execution = plan, fabric, execution
        self.device, self.compiled = fabric.device, compiled
        # Each run has a stream of its own: runs do not wait for each other.
        on_gpu = self.device.type == "cuda"
        self.stream = torch.cuda.Stream(self.device) if on_gpu else None
        self.done = 0  # epochs
        self.log: list[dict[str, Any]] = []
        self._graphs: dict[Any, Callable[[Batch], None]] = {}
        self._seen: dict[Any, int] = {}
        # Sum of losses, correct answers, samples: on the device, read once per epoch.
        self.totals = torch.zeros(3, dtype=torch.float64, device=self.device)
        self.folder = plan.job.folder if fabric.global_rank == 0 else None
        with self.turn():
            self._build()
            self._resume()

    def turn(self) -> Any:
        """Return the context in which this run's work goes to its own stream."""
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    @property
    def n_left(self) -> int:
        """Number of batches that are left to train on."""
        epochs = self.plan.spec.recipe.epochs - self.done
        return epochs * len(self.method.passes) * len(self.batches)

    def _build(self) -> None:
        plan, spec, recipe = self.plan, self.plan.spec, self.plan.spec.recipe
        start_step(derived(spec.seed), self.device)
        train = plan.cut.train
        example = as_tensor(_some(train), train.kind, recipe.pipeline.side)
        weights = plan.job.pretrained
        made = make_learner(spec, plan.job.network, example, pretrained=weights)
        learner = self.fabric.to_device(made)
        if self.stream is not None:
            learner = learner.to(memory_format=torch.channels_last)
        if self.compiled:
            learner.compile(dynamic=False)
        self.learner: Learner = learner
        self.method = learner.method
        parts = sorted(set(self.method.parts.values()))
        optimisers = {part: self.method.optimiser(part) for part in parts}
        modules = [self.method.get_submodule(part) for part in parts]
        taken = {p for module in modules for p in module.parameters()}
        left = [p for p in learner.parameters() if p.requires_grad and p not in taken]
        on_gpu = self.stream is not None
        kind: Any = torch.optim.Adam
        if recipe.optimiser == "sgd":
            kind = partial(torch.optim.SGD, momentum=recipe.momentum)
        # A recorded graph reads the rate from memory; a plain number would be frozen.
        lr = torch.tensor(recipe.rate(0), device=self.device) if on_gpu else recipe.lr
        optimisers["classifier"] = kind(
            left, lr=lr, weight_decay=recipe.weight_decay, fused=on_gpu
        )
        self.wrapped, *ready = self.fabric.setup(learner, *optimisers.values())
        self.optimisers = dict(zip(optimisers, ready, strict=True))
        takes = isinstance(self.method, WithNegatives)
        self.batches = Batches(
            train,
            recipe.pipeline,
            device=self.device,
            batch=recipe.batch,
            seed=derived(spec.seed, 1),
            rank=self.fabric.global_rank,
            world=self.fabric.world_size,
            negatives=plan.cut.negative if takes else None,
            n_negatives=self.method.n_negatives if takes else int,
        )

    def updates(self) -> Iterator[None]:
        """Train; pause after each batch."""
        recipe, saved = self.plan.spec.recipe, time.monotonic()
        last: Callable[[], Any] = int  # does nothing
        self.learner.train()
        for epoch in range(self.done, recipe.epochs):
            rate = recipe.rate(epoch)
            for group in self.optimisers["classifier"].param_groups:
                is_tensor = isinstance(group["lr"], Tensor)
                group["lr"] = group["lr"].fill_(rate) if is_tensor else rate
            started = self._now()
            yield from self._epoch(epoch)
            self.done = epoch + 1
            line = partial(self._write_line, epoch, rate, started, self._sums(epoch))
            # A line is written an epoch late: waiting for the device now would leave it
            # without work until the next epoch is prepared.
            last()
            last = line
            if time.monotonic() - saved >= _EVERY and self.done < recipe.epochs:
                last()
                self.save()
                last, saved = int, time.monotonic()
        last()
        self.save()

    def _epoch(self, epoch: int) -> Iterator[None]:
        recipe, passes = self.plan.spec.recipe, self.method.passes
        step = derived(self.plan.spec.seed, 2, epoch, self.fabric.global_rank)
        for number, updates in enumerate(passes):
            place = epoch * len(passes) + number
            batches = self.batches.epoch(place, recipe.pipeline_of(epoch))
            for i, batch in enumerate(batches):
                step += 1
                start_step(step, self.device)
                whole = min(recipe.batch, self.batches.n - i * recipe.batch)
                # Corrects for uneven shares of the batch.
                weight = len(batch.labels) * self.fabric.world_size / whole
                self._update(updates, weight, batch)
                yield

    def _update(self, updates: tuple[str, ...], weight: float, batch: Batch) -> None:
        """Make the updates of one batch, or replay them."""
        step = partial(self._step, updates, weight)
        # The number of known samples decides that of the negatives.
        key = (updates, tuple(batch.inputs.shape))
        seen = self._seen[key] = self._seen.get(key, 0) + 1
        if self.stream is None or self.fabric.world_size > 1 or seen <= _WARM:
            step(batch)
            return
        if key not in self._graphs:
            self._graphs[key] = recorded(step, batch)
        self._graphs[key](batch)

    def _step(self, updates: tuple[str, ...], weight: float, batch: Batch) -> None:
        usual = self.plan.spec.recipe.batch // self.fabric.world_size
        # The compiler would run again for the last, smaller batch of an epoch.
        is_eager = self.compiled and len(batch.labels) != usual
        stance = torch.compiler.set_stance("force_eager") if is_eager else nullcontext()
        with stance:
            for update in updates:
                for optimiser in self.optimisers.values():
                    optimiser.zero_grad(set_to_none=True)
                inputs, labels, negatives = batch
                more = () if negatives is None else (negatives,)
                loss, hits = self.wrapped(inputs, labels, update, *more)
                self.fabric.backward(loss if weight == 1 else loss * weight)
                if update == "loss":
                    n = torch.full_like(hits, len(labels))
                    self.totals += torch.stack([loss.detach() * n, hits, n])
                part = self.method.parts.get(update, "classifier")
                self.optimisers[part].step()

    def _sums(self, epoch: int) -> tuple[Tensor, Any, dict[str, float]]:
        """Copy the sums of an epoch from the device, without waiting for it."""
        totals = self.totals.clone()
        self.totals.zero_()
        if self.fabric.world_size > 1:
            totals = self.fabric.all_reduce(totals, reduce_op="sum")
        totals = totals.to("cpu", non_blocking=True)
        ready = self._now()
        every = int(self.execution.curves)  # True is 1: each epoch
        is_last = epoch + 1 == self.plan.spec.recipe.epochs
        is_due = every and (is_last or (epoch + 1) % every == 0)
        return totals, ready, self._curves() if is_due else {}

    def _now(self) -> Any:
        """Return the time, on a GPU as an event of its stream."""
        if self.stream is None:
            return time.monotonic()
        return self.stream.record_event(torch.cuda.Event(enable_timing=True))

    def _write_line(self, epoch: int, rate: float, started: Any, sums: Any) -> None:
        totals, ready, curves = sums
        if self.stream is None:
            seconds = ready - started
        else:
            ready.synchronize()
            seconds = started.elapsed_time(ready) / 1000
        loss, hits, n = totals.tolist()
        if not math.isfinite(loss):
            self._explode("loss", loss, epoch)
        line = {"epoch": epoch, "lr": rate, "loss": loss / n, "accuracy": hits / n}
        line |= {"seconds": seconds, "samples_per_second": n / seconds} | curves
        self.log.append(line)
        if self.folder is not None:
            with (self.folder / "log.jsonl").open("ab") as stream:
                stream.write(f"{json.dumps(line)}\n".encode())
        on_epoch = self.execution.on_epoch
        if on_epoch is not None and self.fabric.global_rank == 0:
            on_epoch(self.plan.job.title, line)

    def _explode(self, what: str, got: object, epoch: int) -> NoReturn:
        options = ", ".join(f"{k}={v}" for k, v in self.plan.spec.options.items())
        what += f" of {self.plan.job.title}" + f" ({options})" * bool(options)
        rule, got = "finite to the end", f"{got} in epoch {epoch}"
        _check.fail("train.fit", f"the {what}", rule, got, _GENTLER, FloatingPointError)

    def _curves(self) -> dict[str, float]:
        """Return open-set metrics of the test part; nothing is chosen by them."""
        outputs, scores = predict(self.learner, self.plan.cut.tests[0])
        line = {}
        for name, one in (logit_scores(outputs) | {"published": scores}).items():
            line[f"test_openauc_{name}"] = metrics.openauc(one)
            line[f"test_auroc_{name}"] = metrics.auroc(one)
        line["test_accuracy"] = metrics.accuracy(scores)
        line["test_inner_score"] = metrics.inner_score(scores)
        logits = np.asarray(outputs.logits, dtype=np.float64)
        margin = self.method.published_margin(logits, scores.known)
        if margin is not None:
            decided = replace(scores, known=margin)
            for name in _IMBALANCE:
                line[f"test_{name}"] = metrics.get(name).value(decided, 0.0)
        return line

    def save(self) -> None:
        """Write the checkpoint."""
        if not all(bool(p.isfinite().all()) for p in self.learner.parameters()):
            # The loss of the last batch was computed before its update.
            self._explode("weights", "NaN or infinity", self.done - 1)
        if self.folder is not None:
            kept = {k: one.state_dict() for k, one in self.optimisers.items()}
            state: dict[str, Any] = {"spec": self.plan.spec.to_json(), "log": self.log}
            state |= {"learner": self.learner.state_dict(), "optimisers": kept}
            _io.write(self.folder / "checkpoint.pt", partial(torch.save, state))

    def _resume(self) -> None:
        """Continue from the checkpoint, if there is one."""
        out = self.plan.job.folder
        if out is not None and (path := out / "checkpoint.pt").exists():
            try:
                state = torch.load(path, map_location=self.device, weights_only=True)
            except Exception as error:  # torch raises many kinds
                rule, remedy = "undamaged", "Delete it to start from the beginning"
                name, got = f"checkpoint {path}", str(error)
                _check.fail("train.fit", name, rule, got, remedy, ArtefactError)
            self.plan.spec.need_same(state["spec"], out)
            self.learner.load_state_dict(state["learner"])
            for part, optimiser in self.optimisers.items():
                optimiser.load_state_dict(state["optimisers"][part])
            self.log = state["log"]
            self.done = len(self.log)
        if self.folder is not None:
            for half in self.folder.glob(".checkpoint.pt.*"):  # a run was killed
                half.unlink()
            # Its log may be ahead of the checkpoint.
            lines = [f"{json.dumps(line)}\n" for line in self.log]
            _io.put(self.folder / "log.jsonl", "".join(lines))


def recorded(
    function: Callable[[Batch], None], batch: Batch
) -> Callable[[Batch], None]:
    """Record a function of a batch as a CUDA graph; return its replay."""
    ours: Any = [one if one is None else one.clone() for one in batch]
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        function(Batch(*ours))

    def replay(new: Any) -> None:
        for old, one in zip(ours, new, strict=True):
            if old is not None:
                old.copy_(one)
        graph.replay()

    return replay


def start_step(seed: int, device: torch.device) -> None:
    """Set torch's generators for one update: the one of the device, and the CPU's.

    ``torch.manual_seed`` sets those of all devices; this is called before every update
    and costs less.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)


def _some(samples: Samples) -> Any:
    """Return inputs to build a network for: a whole table, or some images."""
    n = len(samples)
    if samples.kind == "table" or n <= _EXAMPLES:
        return samples.inputs
    return lazy_inputs.take(samples.inputs, np.linspace(0, n - 1, _EXAMPLES, dtype=int))
