"""`run`: run the unfinished cells of a study."""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml

from openset import _backends, _check, _extras, _io, runs, trackers
from openset.bench import _data, _folder, _network, _protocols, _worker
from openset.bench._check_study import check
from openset.bench._log_cells import log_cells
from openset.bench._plan import OutputsSource, Plan, Task, folder_of, plan
from openset.bench._plugins_used import dataset_plugins, plugins
from openset.bench._read import read
from openset.bench._study import NetworkModel, Study
from openset.bench._worker import Locations
from openset.datasets import default_root
from openset.protocols import Protocol


@dataclass(frozen=True)
class _Group:
    """Networks that one worker trains together."""

    sources: tuple[OutputsSource, ...]

    @property
    def id(self) -> str:
        return self.sources[0].id


T = TypeVar("T", _Group, Task)

_LOG = logging.getLogger(__name__)
_LOCAL = ("loky", "sequential")  # backends of this machine; clusters count their GPUs
_FRUITLESS = 3  # consecutive failures of a pool, without progress, before giving up


@dataclass(frozen=True)
class Done:
    """Result of a run: numbers of all cells, of those run now, and the failed ones."""

    folder: Path
    n_cells: int
    n_run: int
    failed: tuple[dict[str, Any], ...]
    seconds: float

    def __str__(self) -> str:
        finished = self.n_cells - len(self.failed)
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return (
            f"{finished} of {self.n_cells} cells in {self.folder} "
            f"({self.n_run} run now, {self.seconds:.1f} s{failed})"
        )


class NoGPUError(ValueError):
    """A network asks for a GPU, and this machine has none."""


Watch = Callable[[Path, Plan, Sequence[Task]], AbstractContextManager[object]]


def run(
    study: Study | str | Path,
    out: str | Path,
    *,
    backend: str = "loky",
    address: str | None = None,
    jobs: int = -1,
    root: str | Path | None = None,
    shard: tuple[int, int] | None = None,
    watch: Watch | None = None,
    log_to: str | None = None,
) -> Done:
    """Run a study; cells finished in `out` are not run again.

    Networks come first, each trained once and kept in ``networks/``; then the cells,
    one detector each. A cell that fails is recorded in ``failed/`` and does not stop
    the others. A worker that dies is replaced; its cell is run again, alone, and counts
    as failed if the worker dies again.

    Parameters
    ----------
    study
        A study, or the path of its file.
    out
        The run folder (:mod:`openset.runs`); every worker must have access to it.
    backend
        ``"loky"`` (processes of this machine), ``"ray"`` or ``"dask"`` (an existing
        cluster), ``"sequential"``.
    address
        Address of the cluster; not needed for a Ray cluster on this machine.
    jobs
        Number of workers; -1 for all cores of this machine or of the cluster.
    root
        Folder of the data sets; by default `datasets.default_root`.
    shard
        Run only this part of the study: (3, 8) is the third of eight. Shards write to
        the same folder and may run at the same time; a run without `shard` then runs
        what is left and writes the results.
    watch
        Called with folder, plan and open tasks; returns a context that is active during
        the run.
    log_to
        Tracker (:mod:`openset.trackers`) that gets every finished cell once, at the end
        of this run: parameters, learning curve if there is one, and metrics.

    Examples
    --------
    >>> import tempfile
    >>> from openset.bench import parse
    >>> study = parse(b'''
    ... protocols: [{kind: holdout, data: digits, known: 6, unknown: 4}]
    ... models: [{kind: logistic}]
    ... detectors: [msp, energy]''', "study.yaml")
    >>> with tempfile.TemporaryDirectory() as out:
    ...     first = run(study, out, backend="sequential")
    ...     again = run(study, out, backend="sequential")
    ...     first.n_run, again.n_run, len(runs.results(out).where(metric="auroc"))
    (2, 0, 2)
    """
    start = time.perf_counter()
    _backends.check(backend, jobs, address)
    if log_to is not None:
        trackers.check("bench", log_to)
    made, text, ending = _planned(study)
    mine = made.tasks if shard is None else _tasks_of(made, shard)
    out = Path(out).resolve()
    is_elsewhere = backend != "sequential"  # workers are other processes
    with (
        _folder.owned(out, shard) as owner,
        _backends.connected(backend, address) as connection,
    ):
        place = Locations(
            run=out,
            base=made.study.base.resolve(),
            root=(default_root() if root is None else Path(root)).resolve(),
            owner=owner,
            main=_backends.main_process(backend),
            search=(Path.cwd(),),
            plugins=plugins(made.study) if is_elsewhere else (),
            datasets=dataset_plugins(made.study) if is_elsewhere else (),
        )
        with _folder.beginning(out, shard):
            _folder.adopt(out, made, text, ending)
            _data.check(out, made, place.base)
            networks = {source.id for source in made.networks(mine)}
            ids = None if shard is None else networks | {task.id for task in mine}
            _folder.tidy(out, owner, ids)
            _folder.begin(out, owner)
            _folder.take_over_training(out, owner, networks)
            drawn = protocols_of(made, place)
            _folder.note_protocols(out, drawn)
        done = _folder.finished(out, made)
        open_tasks = [task for task in mine if task.id not in done]
        for task in open_tasks:
            (out / "failed" / f"{task.id}.json").unlink(missing_ok=True)

        if backend in _LOCAL:
            _need_gpus(made, open_tasks, place)

        def pool(gpus: float) -> _backends.Pool:
            return _backends.pool(backend, jobs, connection, gpus=gpus)

        with nullcontext() if watch is None else watch(out, made, open_tasks):
            _train(made, open_tasks, drawn, place, pool)
            _score(open_tasks, drawn, place, pool)
        if shard is None:
            _folder.conclude(out, made, owner)
            if log_to is not None:
                log_cells(out, log_to)
        _folder.end(out, owner)
    tasks = {task.id for task in open_tasks}
    failed = [f for f in runs.failures(out) if f["id"] in tasks]
    return Done(
        folder=out,
        n_cells=len(mine),
        n_run=len(tasks) - len(failed),
        failed=tuple(failed),
        seconds=time.perf_counter() - start,
    )


def _tasks_of(made: Plan, shard: tuple[int, int]) -> tuple[Task, ...]:
    """Return the cells of one shard: with their networks, so that each has one owner.

    Cells on saved outputs need no network, and are dealt one by one.
    """
    number, n = shard
    if not 1 <= number <= n:
        rule = "i/n with 1 <= i <= n"
        got = f"{number}/{n}"
        raise ValueError(_check.must(rule, caller="bench", name="shard", got=got))
    places: dict[int | str, int] = {}
    for task in made.tasks:
        places.setdefault(_unit(task), len(places))
    return tuple(task for task in made.tasks if places[_unit(task)] % n == number - 1)


def _unit(task: Task) -> int | str:
    return id(task.source) if task.source.saved is None else task.id


def _planned(study: Study | str | Path) -> tuple[Plan, bytes, str]:
    if not isinstance(study, Study):
        path = Path(study)
        return plan(read(path)), path.read_bytes(), path.suffix
    check(study, "study")
    content = study.model_dump(mode="json", exclude_defaults=True)
    return plan(study), yaml.safe_dump(content, sort_keys=False).encode(), ".yaml"


def protocols_of(made: Plan, place: Locations) -> dict[str, list[Protocol]]:
    """Draw the protocols of every entry; errors name the entry."""
    drawn = {}
    for i, entry in enumerate(made.study.protocols):
        try:
            drawn[entry.title] = _protocols.draw(entry, place.base, place.root)
        except (ValueError, TypeError) as error:
            msg = f"bench: protocols[{i}]: {error}"
            raise ValueError(msg) from error
    return drawn


def _protocol(
    source: OutputsSource, drawn: dict[str, list[Protocol]]
) -> Protocol | None:
    return None if source.entry is None else drawn[source.key["protocol"]][source.draw]


@dataclass(frozen=True)
class _Job(Generic[T]):
    """How to run items, to check whether one is settled, and to mark one as failed."""

    function: Callable[..., None]
    call: Callable[[T], tuple[Any, ...]]
    is_settled: Callable[[T], bool]
    give_up: Callable[[T, str], None]


def _missing(
    made: Plan, tasks: Sequence[Task], place: Locations
) -> list[OutputsSource]:
    return [
        source
        for source in made.networks(tasks)
        if not _network.is_complete(folder_of(source, place.run, place.base))
    ]


def _need_gpus(made: Plan, tasks: Sequence[Task], place: Locations) -> None:
    """Refuse to train networks on the CPU that ask for a GPU: it would take days."""
    asking = {
        source.model.gpus
        for source in _missing(made, tasks, place)
        if isinstance(source.model, NetworkModel) and source.model.gpus
    }
    if not asking:
        return
    torch: Any = _extras.optional("bench", "torch", name="torch")
    if torch.cuda.is_available():
        return
    remedy = (
        "Run the study on a machine with a GPU. To train on the CPU all the same, run "
        "openset bench on a copy of the study file without gpus"
    )
    msg = _check.must(
        "0 on a machine where torch finds no GPU",
        caller="bench",
        name="gpus of a network",
        got=f"{max(asking):g}",
        remedy=remedy,
    )
    raise NoGPUError(msg)


def _train(
    made: Plan,
    tasks: Sequence[Task],
    drawn: dict[str, list[Protocol]],
    place: Locations,
    pool: Callable[[float], _backends.Pool],
) -> None:
    missing = _missing(made, tasks, place)
    for source in missing:
        folder = folder_of(source, place.run, place.base)
        if folder.exists():  # and does not agree with its list of files
            _io.discard(folder)
    waiting: dict[str, list[Task]] = {source.id: [] for source in missing}
    for task in tasks:
        if task.source.id in waiting:
            waiting[task.source.id].append(task)

    def has_settled(source: OutputsSource) -> bool:
        folder = folder_of(source, place.run, place.base)
        is_there = _network.is_complete(folder, content=False)
        return is_there or _has_failed(place.run, waiting[source.id][0])

    def call(group: _Group) -> tuple[Any, ...]:
        left = [source for source in group.sources if not has_settled(source)]
        networks = [(s, _protocol(s, drawn), waiting[s.id]) for s in left]
        return networks, group.id, place

    def is_settled(group: _Group) -> bool:
        return all(map(has_settled, group.sources))

    def give_up(group: _Group, why: str) -> None:
        for source in group.sources:
            if not has_settled(source):
                for task in waiting[source.id]:
                    _worker.fail(place.run, task, f"its network failed: {why}")

    job = _Job(_worker.networks, call, is_settled, give_up)
    # Networks that want a GPU get a pool of workers that have one.
    for gpus in sorted({source.gpus for source in missing}):
        mine = [source for source in missing if source.gpus == gpus]
        _settle(partial(pool, gpus), job, _groups(mine), place)


def _groups(sources: Sequence[OutputsSource]) -> list[_Group]:
    """Group networks of one model by how many are to be trained together."""
    of_model: dict[str, list[OutputsSource]] = {}
    for source in sources:
        of_model.setdefault(source.key["model"], []).append(source)
    made = []
    for some in of_model.values():
        n = getattr(some[0].model, "together", 1)
        made += [_Group(tuple(some[i : i + n])) for i in range(0, len(some), n)]
    return made


def _score(
    tasks: Sequence[Task],
    drawn: dict[str, list[Protocol]],
    place: Locations,
    pool: Callable[[float], _backends.Pool],
) -> None:
    ready = [task for task in tasks if not _has_failed(place.run, task)]

    def call(task: Task) -> tuple[Any, ...]:
        protocol = _protocol(task.source, drawn)
        return task, "" if protocol is None else protocol.hash, place

    def is_settled(task: Task) -> bool:
        is_there = (place.run / "cells" / f"{task.id}.json").exists()
        return is_there or _has_failed(place.run, task)

    def give_up(task: Task, why: str) -> None:
        _worker.fail(place.run, task, f"the cell failed: {why}")

    if ready:
        job = _Job(_worker.cell, call, is_settled, give_up)
        _settle(partial(pool, 0), job, ready, place)


def _has_failed(run: Path, task: Task) -> bool:
    return (run / "failed" / f"{task.id}.json").exists()


def _settle(
    make_pool: Callable[[], _backends.Pool],
    job: _Job[T],
    items: Sequence[T],
    place: Locations,
) -> None:
    """Run items until each is done or has failed, even if workers die."""
    left, fruitless = list(items), 0
    _LOG.info("%d tasks to run in %s", len(left), place.run)
    while left:
        pool = make_pool()  # new each time: a cluster may change its size
        error = _attempt(pool, job.function, [job.call(item) for item in left])
        before, left = len(left), [item for item in left if not job.is_settled(item)]
        if error is None:
            if left:
                msg = (
                    f"bench: {len(left)} cells wrote neither a result nor an "
                    f"error to {place.run}. Run the same command again"
                )
                raise RuntimeError(msg)
            return
        # Workers catch errors of cells, so a process died or the cluster is gone. The
        # cells that were running may be the cause: run them again, one at a time.
        suspects = _worker.marks(place)
        _LOG.warning("workers died (%s); %d left", error, len(left))
        for item in [item for item in left if item.id in suspects]:
            again = _attempt(pool.alone, job.function, job.call(item))
            if again is not None and item.id in _worker.marks(place):
                why = f"its worker process died twice ({type(again).__name__}: {again})"
                job.give_up(item, why)
        left = [item for item in left if not job.is_settled(item)]
        fruitless = fruitless + 1 if len(left) == before else 0
        if fruitless == _FRUITLESS:
            raise error


def _attempt(action: Callable[..., None], *arguments: Any) -> Exception | None:
    try:
        action(*arguments)
    except Exception as error:  # a backend may raise anything
        return error
    return None
