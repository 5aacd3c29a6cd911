"""Training: one run, or several at once on one device."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from openset import _check, _extras, metrics
from openset._types import ArtefactError

with _extras.importing("openset.train", "torch"):
    import torch

from openset.train.inference._predict import from_all, predict
from openset.train.inference._trained import Trained, collect
from openset.train.jobs._job import Execution, Job, job_and_execution, signature
from openset.train.jobs._prepare import PreparedJob, prepare_all
from openset.train.loop._devices import launch, precision_of
from openset.train.loop._progress import Progress
from openset.train.loop._run import TrainingRun

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
    (trained,) = fit_jobs([job], execution)
    return trained


fit.__signature__ = signature(returns=Trained)  # type: ignore[attr-defined]


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
    execution = Execution() if execution is None else execution
    listed = prepare_all(jobs, precision=precision_of(execution))
    _check_folders(listed, log_to=execution.log_to)
    fabric = launch(execution, {one.spec.method_class for one in listed})
    # A run over several devices leaves none of them idle.
    groups = [[one] for one in listed] if fabric.world_size > 1 else [listed]
    return [done for some in groups for done in _fit_group(some, fabric, execution)]


def _fit_group(
    listed: list[PreparedJob], fabric: Any, execution: Execution
) -> list[Trained]:
    done: dict[int, Trained] = {}
    for i, one in enumerate(listed):
        if one.out is not None and _is_finished(one):
            done[i] = Trained.load(one.out)
    _check_agreement(fabric, n_finished=len(done))
    waiting = [(i, one) for i, one in enumerate(listed) if i not in done]
    compiled = _is_compiled(fabric, [one for _, one in waiting], execution)
    with ExitStack() as stack:
        gpus = [fabric.device] if fabric.device.type == "cuda" else []
        stack.enter_context(torch.random.fork_rng(gpus))  # the caller's stay as is
        stack.enter_context(_cudnn_benchmark())
        runs = [
            TrainingRun(one, fabric, execution, compiled=compiled) for _, one in waiting
        ]
        for run in runs:
            stack.enter_context(run.log)
        shown = execution.progress and fabric.global_rank == 0
        titles = [one.title for _, one in waiting]
        with Progress(list(zip(titles, runs, strict=True)), shown=shown) as bars:
            _take_turns(runs, bars)
        for (i, one), run in zip(waiting, runs, strict=True):
            done[i] = _finished(run)
            if one.out is not None and run.is_chief:
                done[i].save(one.out)
                if execution.log_to is not None:
                    run.log.conclude(_test_metrics(done[i]))
        fabric.barrier()
    return [done[i] for i in range(len(listed))]


def _take_turns(runs: list[TrainingRun], bars: Progress) -> None:
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


def _finished(run: TrainingRun) -> Trained:
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
        predictions = {
            part: predict(run.fabric, run.learner, samples, pipeline)
            for part, samples in parts.items()
        }
    return Trained(
        spec=run.spec.to_json(),
        **collect(predictions),
        log=run.log.lines,
        learner=run.learner,
        shape=tuple(run.batches.inputs.shape[1:]),
    )


def _test_metrics(trained: Trained) -> dict[str, float]:
    scores = trained.scores["published"]
    return {
        "test/accuracy": metrics.accuracy(scores),
        "test/auroc": metrics.auroc(scores),
        "test/openauc": metrics.openauc(scores),
    }


def _check_folders(jobs: list[PreparedJob], *, log_to: str | None) -> None:
    if log_to is not None and any(one.out is None for one in jobs):
        rule = f"a folder, to log to {log_to}"
        raise ValueError(_check.must(rule, caller=_CALLER, name="out", got=None))
    folders = [one.out.resolve() for one in jobs if one.out is not None]
    for folder in folders:
        if folders.count(folder) > 1:
            msg = _check.must(
                "another folder for each run", caller=_CALLER, name="out", got=folder
            )
            raise ValueError(msg)


def _check_agreement(fabric: Any, *, n_finished: int) -> None:
    """Refuse a run that only some processes see as finished: the others would wait."""
    if fabric.world_size == 1:
        return
    found = from_all(fabric, torch.tensor(n_finished, device=fabric.device))
    if int(found.min()) != int(found.max()):
        msg = _check.must(
            "a folder that all processes share",
            caller=_CALLER,
            name="out",
            got="a finished run on some machines and none on the others",
            remedy="Use a folder on a shared disk, or a new one",
        )
        raise ArtefactError(msg)


def _is_finished(one: PreparedJob) -> bool:
    record = Trained.record(one.out) if one.out is not None else None
    if record is None:
        return False
    differing = one.spec.differing(record["spec"])
    if differing:
        msg = (
            f"{_CALLER}: out must be an empty folder or that of the same run, got "
            f"{one.out}, which differs in {', '.join(differing)}. Choose another folder"
        )
        raise ValueError(msg)
    return True


def _is_compiled(fabric: Any, jobs: list[PreparedJob], execution: Execution) -> bool:
    if execution.compiled is not None:
        return execution.compiled
    # The compiler of torch 2.11 fails on the turned images of a rotation head.
    if any(one.spec.recipe.auxiliary != "none" for one in jobs):
        return False
    total = sum(
        one.spec.recipe.epochs * len(one.cut.train) // one.spec.recipe.batch
        for one in jobs
    )
    return fabric.device.type == "cuda" and total >= _WORTH_COMPILING


@contextmanager
def _cudnn_benchmark() -> Iterator[None]:
    """Let cuDNN choose its kernels by timing them, for the time of a training."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
