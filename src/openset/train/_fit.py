"""Training: one run, or several at once on one device."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from openset import _check, _io
from openset._types import ArtefactError
from openset.datasets import Cut, Dataset
from openset.protocols import Protocol

with _io.importing("openset.train", "torch"):
    import torch
    from torch import nn

from openset.train._devices import make_fabric
from openset.train._job import Job, job
from openset.train._progress import Progress
from openset.train._respond import answer, from_all
from openset.train._run import Run
from openset.train.recipes import Recipe
from openset.train.trained import Trained, collect

_CALLER = "train.fit"
# Updates from which on compiling (half a minute, for a tenth less time) pays off.
_WORTH_COMPILING = 300_000


def fit(
    *,
    method: str,
    data: str | Path | Dataset | Cut,
    protocol: str | Protocol | None = None,
    split: int | str | None = None,
    network: str | nn.Module | None = None,
    recipe: str | Recipe = "B",
    seed: int = 0,
    validation: float = 0.1,
    options: Mapping[str, Any] | None = None,
    root: str | Path | None = None,
    out: str | Path | None = None,
    accelerator: str = "auto",
    devices: int = 1,
    nodes: int = 1,
    precision: str | None = None,
    accumulate: int = 1,
    compiled: bool | None = None,
    curves: bool = False,
    checkpoint_seconds: float = 30.0,
    tensorboard: bool = False,
    progress: bool = True,
    **changes: Any,
) -> Trained:
    """Train a network by a published method; return its outputs on every part.

    The last epoch counts: nothing is chosen by looking at test data.

    Parameters
    ----------
    method
        One of :func:`openset.train.names`.
    data
        Name of a data set (see :func:`openset.datasets.load`), a `Dataset`, or a `Cut`.
    protocol
        A `Protocol`, or the name of a published one. Left out: the published protocol
        of the data set's name. A `Cut` brings its own.
    split
        Which published split; left out, the first.
    network
        See :func:`openset.train.networks.make`. Left out: ``classifier32`` for images,
        ``mlp`` for tables. A model of your own is copied, and stays as it is.
    recipe
        "A", "B", "T", or a `Recipe`.
    seed
        Fixes weights, order, augmentation and every other draw.
    validation
        Share of the known training samples kept for validation, where protocol and data
        have none. The published recipes train on everything: ``validation=0``.
    options
        Of the method, such as ``{"weight": 0.1}``.
    root
        Folder of the data.
    out
        Folder for the log, the checkpoint and the results. A run that was interrupted
        goes on from its checkpoint; a finished one is read, not trained again.
    accelerator, devices, nodes
        Where to train, as Lightning Fabric takes them; several processes under
        ``torchrun``.
    precision
        "32-true" or "bf16-mixed". Left out: the latter on a GPU that has it.
    accumulate
        Cut each batch into so many parts whose gradients add up.
    compiled
        Compile the training step. Left out: on a GPU, if there is enough to train.
    curves
        Record open-set metrics of the test part after each epoch; they choose nothing.
    checkpoint_seconds
        Least time between two checkpoints.
    tensorboard, progress
        Also log for TensorBoard; show a progress bar.
    **changes
        Of the recipe: ``epochs=100``, ``batch=…``, ``lr=…``, see
        :func:`openset.train.recipe`.

    Examples
    --------
    >>> from openset import datasets, protocols
    >>> digits = datasets.load("digits")
    >>> trained = fit(
    ...     method="softmax",
    ...     data=digits,
    ...     protocol=protocols.holdout(digits, 6, 4, rng=0),
    ...     recipe="A",
    ...     epochs=20,
    ...     lr=0.05,
    ...     progress=False,
    ... )
    >>> sorted(trained.outputs)
    ['test', 'train', 'validation']
    >>> trained.evaluate()["accuracy"] > 0.9
    True
    """
    fabric = make_fabric(accelerator, devices, nodes, precision, method=method)
    one = job(
        method=method,
        data=data,
        protocol=protocol,
        split=split,
        network=network,
        recipe=recipe,
        seed=seed,
        validation=validation,
        options=options,
        root=root,
        out=out,
        precision=fabric.asked_precision,
        accumulate=accumulate,
        **changes,
    )
    (trained,) = fit_jobs(
        [one],
        fabric,
        compiled=compiled,
        curves=curves,
        checkpoint_seconds=checkpoint_seconds,
        tensorboard=tensorboard,
        progress=progress,
    )
    return trained


def fit_jobs(
    jobs: Iterable[Job],
    fabric: Any = None,
    *,
    compiled: bool | None = None,
    curves: bool = False,
    checkpoint_seconds: float = 30.0,
    tensorboard: bool = False,
    progress: bool = True,
) -> list[Trained]:
    """Train several runs at once on one device; they take turns, update by update.

    Over several devices (`fabric`) they are trained one after the other.

    A small network leaves most of a GPU idle. Runs on streams of their own fill it:
    five finish in far less than five times the time of one. Each draws what it would
    draw alone: on a CPU it gets the same weights to the last bit, on a GPU as nearly
    as that GPU's kernels repeat themselves.

    Parameters
    ----------
    jobs
        Made by :func:`job`.
    fabric
        Made by :func:`make_fabric`; left out, one device with the jobs' precision.
    compiled, curves, checkpoint_seconds, tensorboard, progress
        See :func:`fit`.
    """
    listed = list(jobs)
    _check.number(_CALLER, "checkpoint_seconds", checkpoint_seconds, low=0)
    _check_folders(listed, needed=tensorboard)
    if fabric is None:
        precisions = {one.spec.precision for one in listed}
        fabric = make_fabric(precision=min(precisions, default=None))
    _check_precision(listed, fabric)
    settings: dict[str, Any] = {
        "compiled": compiled,
        "curves": curves,
        "seconds": checkpoint_seconds,
        "tensorboard": tensorboard,
    }
    # A run over several devices leaves none of them idle.
    groups = [[one] for one in listed] if fabric.world_size > 1 else [listed]
    found = (_together(some, fabric, progress=progress, **settings) for some in groups)
    return [trained for some in found for trained in some]


def _together(
    listed: list[Job],
    fabric: Any,
    *,
    progress: bool,
    compiled: bool | None,
    **settings: Any,
) -> list[Trained]:
    done: dict[int, Trained] = {}
    for i, one in enumerate(listed):
        if one.out is not None and _is_finished(one):
            done[i] = Trained.load(one.out)
    _check_agreement(fabric, n_finished=len(done))
    waiting = [(i, one) for i, one in enumerate(listed) if i not in done]
    with ExitStack() as stack:
        gpus = [fabric.device] if fabric.device.type == "cuda" else []
        stack.enter_context(torch.random.fork_rng(gpus))  # the caller keeps their draws
        stack.enter_context(_fast_kernels())
        runs = [
            Run(
                one.spec,
                one.cut,
                one.network,
                fabric,
                folder=one.out,
                compiled=_is_compiled(fabric, [j for _, j in waiting], asked=compiled),
                **settings,
            )
            for _, one in waiting
        ]
        shown = progress and fabric.global_rank == 0
        titles = [one.title for _, one in waiting]
        with Progress(list(zip(titles, runs, strict=True)), shown=shown) as bars:
            _take_turns(runs, bars)
        for (i, one), run in zip(waiting, runs, strict=True):
            done[i] = _finished(run)
            if one.out is not None and run.is_chief:
                done[i].save(one.out)
        fabric.barrier()
    return [done[i] for i in range(len(listed))]


def _take_turns(runs: list[Run], bars: Progress) -> None:
    for run in runs:
        with run.turn():
            run.resume()
        bars.start_at(run)
    alive = [(run, run.updates()) for run in runs]
    while alive:
        still = []
        for run, updates in alive:
            with run.turn():
                if next(updates, run) is not run:
                    still.append((run, updates))
            bars.advance(run)
        alive = still


def _finished(run: Run) -> Trained:
    parts = {
        part: getattr(run.cut, part)
        for part in ("train", "validation", "negative", "surrogate")
        if getattr(run.cut, part) is not None
    }
    tests = run.cut.tests
    if len(tests) == 1:
        parts["test"] = tests[0]
    else:
        parts |= {f"test{i}": test for i, test in enumerate(tests)}
    with run.turn():
        pipeline = run.spec.recipe.pipeline
        answers = {
            part: answer(run.fabric, run.learner, samples, pipeline)
            for part, samples in parts.items()
        }
    return Trained(
        spec=run.spec.to_json(),
        **collect(answers),
        log=run.log.lines,
        learner=run.learner,
        shape=tuple(run.batches.inputs.shape[1:]),
    )


def _check_folders(jobs: list[Job], *, needed: bool) -> None:
    if needed and any(one.out is None for one in jobs):
        rule = "a folder, to log for TensorBoard"
        raise ValueError(_check.must(rule, caller=_CALLER, name="out", got=None))
    folders = [one.out.resolve() for one in jobs if one.out is not None]
    for folder in folders:
        if folders.count(folder) > 1:
            msg = _check.must(
                "another folder for each run", caller=_CALLER, name="out", got=folder
            )
            raise ValueError(msg)


def _check_agreement(fabric: Any, *, n_finished: int) -> None:
    """Refuse a run that is finished for some processes: the others would wait."""
    if fabric.world_size == 1:
        return
    found = from_all(fabric, torch.tensor(n_finished, device=fabric.device))
    if int(found.min()) != int(found.max()):
        msg = _check.must(
            "one that all processes see",
            caller=_CALLER,
            name="out",
            got="a finished run on some hosts and none on the others",
            remedy="Give a folder on a disk they share, or a new one",
        )
        raise ArtefactError(msg)


def _check_precision(jobs: list[Job], fabric: Any) -> None:
    # What a spec says must be what happens.
    for one in jobs:
        if one.spec.precision != fabric.asked_precision:
            msg = _check.must(
                f"{fabric.asked_precision!r}, as make_fabric was asked for",
                caller=_CALLER,
                name="precision",
                got=repr(one.spec.precision),
                remedy="Make the jobs with precision=fabric.asked_precision",
            )
            raise ValueError(msg)


def _is_finished(one: Job) -> bool:
    record = Trained.record(one.out) if one.out is not None else None
    if record is None:
        return False
    differing = one.spec.differing(record["spec"])
    if differing:
        msg = (
            f"{_CALLER}: out must be an empty folder or one of the same run, got "
            f"{one.out} with another {', '.join(differing)}. Choose another folder"
        )
        raise ValueError(msg)
    return True


def _is_compiled(fabric: Any, jobs: list[Job], *, asked: bool | None) -> bool:
    if asked is not None:
        return asked
    total = sum(
        one.spec.recipe.epochs * len(one.cut.train) // one.spec.recipe.batch
        for one in jobs
    )
    return fabric.device.type == "cuda" and total >= _WORTH_COMPILING


class _fast_kernels:  # noqa: N801  # a context, used like a function
    """Let cuDNN try its kernels, for the time of a training."""

    def __enter__(self) -> None:
        self.before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = True

    def __exit__(self, *_: object) -> None:
        torch.backends.cudnn.benchmark = self.before
