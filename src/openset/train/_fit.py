"""Training: one run, or several at once on one device."""

import logging
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from openset import _check, _io, datasets, protocols
from openset.datasets import Cut, Dataset
from openset.protocols import Protocol

with _io.importing("openset.train", "torch"):
    import torch
    from lightning_fabric import Fabric
    from torch import nn

from openset.train._progress import Progress
from openset.train._respond import answer
from openset.train._run import Run
from openset.train._spec import Spec
from openset.train.methods import find
from openset.train.recipes import Recipe
from openset.train.recipes import recipe as named_recipe
from openset.train.trained import Trained, collect

_CALLER = "train.fit"
# Updates from which on compiling (half a minute) pays off.
_WORTH_COMPILING = 100_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """One run to be trained: a spec, the data cut for it, and where it is kept."""

    spec: Spec
    cut: Cut
    network: str | nn.Module
    out: Path | None = None
    title: str = ""
    """Shown beside its progress bar."""


def job(
    *,
    method: str,
    data: str | Path | Dataset | Cut,
    protocol: str | Protocol | None = None,
    split: int | str = 0,
    network: str | nn.Module | None = None,
    recipe: str | Recipe = "B",
    seed: int = 0,
    validation: float = 0.1,
    options: Mapping[str, Any] | None = None,
    root: str | Path | None = None,
    out: str | Path | None = None,
    precision: str = "32-true",
    accumulate: int = 1,
    title: str = "",
    **changes: Any,
) -> Job:
    """Describe a run without starting it; parameters as in :func:`fit`.

    `title` is shown beside its progress bar.
    """
    find(method)  # a wrong name is the first thing to say
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        rule = "an integer >= 0"
        raise ValueError(_check.must(rule, caller=_CALLER, name="seed", got=repr(seed)))
    cut, name = _cut(data, protocol, split, root, validation)
    if network is None:
        network = "classifier32" if cut.train.kind == "image" else "mlp"
    if isinstance(recipe, str):
        made = named_recipe(recipe, name, **changes)
    elif changes:
        msg = _check.must(
            "given only with a recipe by name",
            caller=_CALLER,
            name=next(iter(changes)),
            got=f"recipe={recipe.name!r} as an object",
            remedy="Use dataclasses.replace on the recipe",
        )
        raise ValueError(msg)
    else:
        made = recipe
    spec = Spec(
        method=method,
        data=name,
        protocol=cut.protocol,
        network=network if isinstance(network, str) else type(network).__name__,
        recipe=made,
        seed=seed,
        options=dict(options or {}),
        precision=precision,
        parts=_check.positive_int(_CALLER, "accumulate", accumulate),
    )
    return Job(
        spec=spec,
        cut=cut,
        network=network,
        out=None if out is None else Path(out),
        title=title or spec.title,
    )


def fit(
    *,
    method: str,
    data: str | Path | Dataset | Cut,
    protocol: str | Protocol | None = None,
    split: int | str = 0,
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
        Which published split.
    network
        See :func:`openset.train.networks.make`. Left out: ``classifier32`` for images,
        ``mlp`` for tables.
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
        Left out: "bf16-mixed" on a GPU that has it, else "32-true".
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
    fabric = make_fabric(accelerator, devices, nodes, precision)
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
        Made by :func:`make_fabric`; left out, one device.
    compiled, curves, checkpoint_seconds, tensorboard, progress
        See :func:`fit`.
    """
    fabric = make_fabric() if fabric is None else fabric
    listed = list(jobs)
    settings: dict[str, Any] = {
        "compiled": compiled,
        "curves": curves,
        "seconds": checkpoint_seconds,
        "tensorboard": tensorboard,
    }
    if fabric.world_size > 1:  # a run over several devices leaves none of them idle
        each = [
            _together([one], fabric, progress=progress, **settings) for one in listed
        ]
        return [trained for (trained,) in each]
    return _together(listed, fabric, progress=progress, **settings)


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


def make_fabric(
    accelerator: str = "auto",
    devices: int = 1,
    nodes: int = 1,
    precision: str | None = None,
) -> Any:
    """Launch Lightning Fabric with the precision that suits the device."""
    devices = _check.positive_int(_CALLER, "devices", devices)
    nodes = _check.positive_int(_CALLER, "nodes", nodes)
    has_gpu = torch.cuda.is_available()
    if accelerator in ("cuda", "gpu") and not has_gpu:
        msg = _check.must(
            "one that is there",
            caller=_CALLER,
            name="accelerator",
            got=f"{accelerator!r} on a machine without a GPU",
            remedy="Leave it out, or use accelerator='cpu'",
        )
        raise ValueError(msg)
    if accelerator != "cpu" and has_gpu and devices > torch.cuda.device_count():
        msg = _check.must(
            f"at most {torch.cuda.device_count()}, the GPUs of this machine",
            caller=_CALLER,
            name="devices",
            got=devices,
        )
        raise ValueError(msg)
    if precision is None:
        on_gpu = accelerator != "cpu" and has_gpu and torch.cuda.is_bf16_supported()
        precision = "bf16-mixed" if on_gpu else "32-true"
    many = devices * nodes > 1
    # It tells which precision is used, and how to trade it for speed: not news here.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    fabric = Fabric(
        accelerator=accelerator if accelerator != "auto" or has_gpu else "cpu",
        devices=devices,
        num_nodes=nodes,
        precision=precision,  # type: ignore[arg-type]
        strategy="ddp" if many else "auto",
    )
    fabric.launch()
    fabric.asked_precision = precision  # type: ignore[attr-defined]  # for the spec
    return fabric


def _take_turns(runs: list[Run], bars: Progress) -> None:
    for run in runs:
        with run.turn():
            run.resume()
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
    outputs, scores = collect(answers)
    return Trained(
        spec=run.spec.to_json(),
        outputs=outputs,
        scores=scores,
        log=run.log.lines,
        learner=run.learner,
    )


def _is_finished(one: Job) -> bool:
    record = Trained.record(one.out) if one.out is not None else None
    if record is None:
        return False
    ours = one.spec.to_json()
    differing = [k for k in ours if k != "version" and ours[k] != record["spec"].get(k)]
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


def _cut(
    data: Any,
    protocol: str | Protocol | None,
    split: int | str,
    root: str | Path | None,
    validation: float,
) -> tuple[Cut, str]:
    """Return the data cut by the protocol, and the name its constants go by."""
    if isinstance(data, Cut):
        if protocol is not None:
            msg = (
                f"{_CALLER}: protocol must be left out with a Cut, which brings its own"
            )
            raise ValueError(msg)
        return data, data.protocol.source
    _check.number(_CALLER, "validation", validation, low=0, high=1, open_high=True)
    loaded = load_data(data, root)
    name = loaded.label_set or loaded.name
    if protocol is None:
        protocol = name
    if isinstance(protocol, str):
        name = protocol
        protocol = protocols.published(protocol, split)
    if validation and not protocol.validation and "validation" not in loaded.parts:
        protocol = replace(protocol, validation=validation)
    others = {
        part: datasets.load(source, root)
        for part in ("unknown", "negative", "surrogate")
        if getattr(protocol, part)
        and (source := protocol.source_of(part)) != protocol.source
    }
    return datasets.cut(loaded, protocol, **others), name


def load_data(data: str | Path | Dataset, root: str | Path | None = None) -> Dataset:
    """Load a data set by name, or take it as it is; draw parts if it has none."""
    found = data if isinstance(data, Dataset) else datasets.load(str(data), root)
    if "test" in found.parts and "train" in found.parts:
        return found
    return found.with_parts(test=0.3, rng=0)


class _fast_kernels:  # noqa: N801  # a context, used like a function
    """Let cuDNN try its kernels, for the time of a training."""

    def __enter__(self) -> None:
        self.before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = True

    def __exit__(self, *_: object) -> None:
        torch.backends.cudnn.benchmark = self.before
