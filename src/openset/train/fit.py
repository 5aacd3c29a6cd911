"""`fit` and `fit_jobs`: train one run, or several at once on one device."""

import atexit
import logging
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import fields
from typing import Any

import torch

from openset import _check
from openset._optional import optional
from openset._progress import bar
from openset.train.job import Execution, Job
from openset.train.plan import Plan, plans
from openset.train.run import Run
from openset.train.trained import Trained

_CALLER = "train.fit"
# Compiling takes half a minute and saves a tenth of the time: it pays off for runs of
# at least this many updates.
_WORTH_COMPILING = 300_000


def fit(**settings: Any) -> Trained:
    """Train a network with a published method; return its outputs on every part.

    The network of the last epoch is the result: nothing is chosen by looking at test
    data.

    Parameters
    ----------
    **settings
        The fields of :class:`Job` (`method` and `data` are required) and of
        :class:`Execution`; everything else changes the recipe: ``epochs=100``,
        ``batch=…``, ``lr=…``, see :func:`openset.train.recipe`.

    Examples
    --------
    >>> from openset import datasets, protocols
    >>> digits = datasets.load("digits")
    >>> trained = fit(
    ...     method="softmax",
    ...     data=digits,
    ...     protocol=protocols.holdout(digits, 6, 4, rng=0),
    ...     recipe="arpl",
    ...     epochs=20,
    ...     lr=0.05,
    ...     progress=False,
    ... )
    >>> sorted(trained.outputs)
    ['test', 'train', 'validation']
    >>> trained.evaluate()["accuracy"] > 0.9
    True
    """
    job, execution = job_and_execution(**settings)
    return fit_jobs([job], execution)[0]


def job_and_execution(**settings: Any) -> tuple[Job, Execution]:
    """Sort keywords into a `Job`, with its recipe's changes, and an `Execution`."""
    names = {f.name for f in fields(Execution)} & settings.keys()
    execution = Execution(**{name: settings.pop(name) for name in names})
    return Job.of(**settings), execution


def fit_jobs(jobs: Iterable[Job], execution: Execution | None = None) -> list[Trained]:
    """Train several runs at once on one device; they take turns, update by update.

    A small network leaves most of a GPU idle; several runs, each on its own CUDA
    stream, use it better: five finish in far less than five times the time of one. Each
    draws the same random numbers as it would alone: on a CPU it gets exactly the same
    weights, on a GPU up to the reproducibility of its kernels. Over several devices the
    runs are trained one after the other.

    Parameters
    ----------
    jobs
        The runs; if they have folders, each needs a different one.
    execution
        Where they run. Default: on one device.
    """
    execution = execution or Execution()
    listed = plans(jobs, precision_of(execution))
    given = (one.job.folder for one in listed)
    folders = [folder.resolve() for folder in given if folder is not None]
    if len(set(folders)) < len(folders):
        _check.fail(_CALLER, "out", "another folder for each run", folders[0])
    fabric = _launched(execution, listed)
    # A run over several devices leaves none of them idle.
    groups = [[one] for one in listed] if fabric.world_size > 1 else [listed]
    return [done for some in groups for done in _fit_group(some, fabric, execution)]


def _fit_group(listed: list[Plan], fabric: Any, execution: Execution) -> list[Trained]:
    done = {i: found for i, one in enumerate(listed) if (found := Trained.of(one))}
    waiting = [i for i in range(len(listed)) if i not in done]
    compiled = _is_compiled([listed[i] for i in waiting], fabric, execution)
    with ExitStack() as stack:
        gpus = [fabric.device] if fabric.device.type == "cuda" else []
        stack.enter_context(torch.random.fork_rng(gpus))  # the caller's stay as is
        before = torch.backends.cudnn.benchmark
        stack.callback(setattr, torch.backends.cudnn, "benchmark", before)
        torch.backends.cudnn.benchmark = True  # let it choose kernels by timing them
        runs = [Run(listed[i], fabric, execution, compiled=compiled) for i in waiting]
        shown = execution.progress and fabric.global_rank == 0
        left = sum(run.n_left for run in runs)
        several = f"training {len(listed)} runs"
        title = listed[0].job.title if len(listed) == 1 else several
        for _ in bar(_turns(runs), title, total=left, show=shown):
            pass
        for i, run in zip(waiting, runs, strict=True):
            with run.turn():
                done[i] = Trained.made(run.plan, run.learner, run.log)
            if run.folder is not None:
                done[i].save(run.folder)
                (run.folder / "checkpoint.pt").unlink()
        fabric.barrier()
    return [done[i] for i in range(len(listed))]


def _turns(runs: list[Run]) -> Iterator[None]:
    """Let the runs make one update each, until all are done."""
    alive = {run: run.updates() for run in runs}
    while alive:
        for run, updates in list(alive.items()):
            with run.turn():
                if next(updates, run) is run:
                    del alive[run]
                    continue
            yield


def precision_of(execution: Execution) -> str:
    """Return the given precision, or the default one of the device."""
    if execution.precision is not None:
        return execution.precision
    is_gpu = execution.accelerator != "cpu" and torch.cuda.is_available()
    return "bf16-mixed" if is_gpu and torch.cuda.is_bf16_supported() else "32-true"


def _launched(execution: Execution, listed: list[Plan]) -> Any:
    """Launch Lightning Fabric, in each of several processes."""
    # Imported here: it takes seconds, and extraction does without.
    library: Any = optional("lightning_fabric", "torch")
    # Its notes on precision are not news: the precision was chosen.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    is_cpu = execution.accelerator == "auto" and not torch.cuda.is_available()
    several = execution.devices * execution.nodes > 1
    # Updates of a generator, say, leave most parameters without a gradient.
    has_parts = any(one.spec.method_class.parts for one in listed)
    ddp = "ddp_find_unused_parameters_true" if has_parts else "ddp"
    fabric = library.Fabric(
        accelerator="cpu" if is_cpu else execution.accelerator,
        devices=execution.devices,
        num_nodes=execution.nodes,
        precision=precision_of(execution),
        strategy=ddp if several else "auto",
    )
    fabric.launch()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        # Lightning does so for GPUs only. Else threads of the group may be running when
        # their memory is freed, which ends the process with SIGABRT after all work.
        atexit.register(_leave)
    return fabric


def _leave() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _is_compiled(listed: list[Plan], fabric: Any, execution: Execution) -> bool:
    if execution.compiled is not None:
        return execution.compiled
    recipes = [(one.spec.recipe, len(one.cut.train)) for one in listed]
    # The compiler of torch 2.11 fails on the turned images of a rotation head.
    turns = any(one.auxiliary != "none" for one, _ in recipes)
    total = sum(one.epochs * n // one.batch for one, n in recipes)
    is_worth_it = total >= _WORTH_COMPILING and fabric.device.type == "cuda"
    return is_worth_it and not turns
