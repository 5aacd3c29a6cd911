"""What a worker does: train networks or run one cell, and record all errors."""

import json
import os
import platform
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from openset import _backends, _extras, _io, _plugins, datasets
from openset.bench import _cell, _folder, _network
from openset.bench._plan import OutputsSource, Task
from openset.bench._study import NetworkModel
from openset.protocols import Protocol


@dataclass(frozen=True)
class Locations:
    """Folders of a study, and the plug-ins it uses.

    The run folder, the folder of the study file, and that of the data sets. `owner`:
    the name of the run, and `main`: its process, if workers are its children. `search`:
    further folders with modules. `plugins`: what to import first. `datasets`: names of
    plug-in data sets and their loaders.
    """

    run: Path
    base: Path
    root: Path
    owner: str = ""
    main: int = 0
    search: tuple[Path, ...] = ()
    plugins: tuple[str, ...] = ()
    datasets: tuple[tuple[str, str], ...] = ()


def networks(
    group: Sequence[tuple[OutputsSource, Protocol, Sequence[Task]]],
    name: str,
    place: Locations,
) -> None:
    """Train networks, together if there are several; `name` marks them as running.

    If that fails, each is trained alone, so that only the cells of those that fail are
    recorded as failed.
    """
    if len(group) > 1:
        with suppress(Exception):  # each shows its own error below
            _together(group, name, place)
    for source, protocol, tasks in group:
        _network_alone(source, protocol, tasks, name, place)


def _together(
    group: Sequence[tuple[OutputsSource, Protocol, Sequence[Task]]],
    name: str,
    place: Locations,
) -> None:
    _extras.optional("bench", "torch", name="torch")
    pairs = [(source, protocol) for source, protocol, _ in group]
    threads = group[0][2][0].threads
    with _prepared(place, name, threads):
        _network.make_together(
            pairs, _training(place), base=place.base, root=place.root
        )


def _network_alone(
    source: OutputsSource,
    protocol: Protocol,
    tasks: Sequence[Task],
    name: str,
    place: Locations,
) -> None:
    def one() -> None:
        _network.make(
            source,
            protocol,
            place.run,
            base=place.base,
            root=place.root,
            unfinished=_training(place) / source.id,
        )

    def with_torch() -> None:
        # Imported before the number of threads is limited, so that torch is included.
        _extras.optional("bench", "torch", name="torch")

    before = with_torch if isinstance(source.model, NetworkModel) else None
    _guarded(one, place, name, tasks, what="its network", before=before)


def _training(place: Locations) -> Path:
    return _folder.training(place.run, place.owner)


def cell(task: Task, protocol_hash: str, place: Locations) -> None:
    """Run one cell."""

    def one() -> None:
        _cell.make(task, protocol_hash, place.run, base=place.base)

    _guarded(one, place, task.id, [task], what="the cell")


def _guarded(
    one: Callable[[], None],
    place: Locations,
    name: str,
    tasks: Sequence[Task],
    *,
    what: str,
    before: Callable[[], None] | None = None,
) -> None:
    run = place.run
    if not run.is_dir():
        # There is no folder to write the error to: raise it.
        msg = (
            f"bench: {run} must be a folder that every worker can access under "
            "this path, got none on this machine. Use a shared file system"
        )
        raise FileNotFoundError(msg)
    try:
        if before is not None:
            before()
        with _prepared(place, name, tasks[0].threads):
            one()
    except Exception as error:  # an error of a cell is recorded as its result
        if not _is_current(place):
            return  # of a run that was killed: what it misses was taken by the next
        text = f"{type(error).__name__}: {error}"
        trace = traceback.format_exc()
        for task in tasks:
            fail(run, task, f"{what} failed: {text}", trace)


@contextmanager
def _prepared(place: Locations, name: str, threads: int) -> Iterator[None]:
    """Mark what runs, limit the threads, and make the plug-ins of the study known."""
    _backends.follow(place.main)
    with (
        _marked(_marks(place), name),
        _threads(threads),
        _plugins.searching(place.base, *place.search),
    ):
        for text in place.plugins:
            _plugins.imported(text, caller="bench")
        for title, text in place.datasets:
            datasets.register(title, _plugins.imported(text, caller="bench"))
        yield


def fail(run: Path, task: Task, error: str, trace: str = "") -> None:
    """Record why a cell failed."""
    record = {"id": task.id, "key": task.key, "error": error, "traceback": trace}
    _io.put(run / "failed" / f"{task.id}.json", json.dumps(record, indent=1))


def _marks(place: Locations) -> Path:
    return place.run / "running" / place.owner


def _is_current(place: Locations) -> bool:
    """Whether the run this worker belongs to still owns the folder."""
    return _marks(place).is_dir()


@contextmanager
def _marked(folder: Path, name: str) -> Iterator[None]:
    """Keep a mark file while running; after a crash it shows what was running."""
    mark = folder / name
    mark.write_text(f"{platform.node()} {os.getpid()}", encoding="utf-8")
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


def marks(place: Locations) -> set[str]:
    """Return what was running when a process died, and remove the marks."""
    found = list(_marks(place).glob("*"))
    for path in found:
        path.unlink(missing_ok=True)
    return {path.name for path in found}


@contextmanager
def _threads(n: int) -> Iterator[None]:
    """Limit numerical libraries to `n` threads.

    The number of threads changes the order of sums, and so the last digits of results.
    It must depend on the study only, not on how many workers share a machine.
    """
    torch: Any = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    with threadpool_limits(n):
        if torch is not None:
            torch.set_num_threads(n)
        try:
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(before)
