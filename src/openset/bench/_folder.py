"""The run folder: it belongs to one study, and one run at a time writes to it.

With shards, one run per shard: they have different networks and cells.
"""

import json
import secrets
from collections.abc import Collection, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
    suppress,
)
from pathlib import Path
from typing import Any

from openset import _io, _locks, runs
from openset._plugins import is_built_in
from openset.bench._cell import standard_metrics
from openset.bench._plan import Plan, plan
from openset.bench._read import parse
from openset.protocols import Draws, Protocol
from openset.runs import read_cells, results

Shard = tuple[int, int]
"""Which part of a study, from 1, and of how many."""

_SETUP = 600.0  # seconds to wait for other shards that begin at the same time


@contextmanager
def owned(run: Path, shard: Shard | None) -> Iterator[str]:
    """Lock the run folder, or one shard of it, against a second run.

    Yields the name of this run. Workers of an earlier run that are still alive have
    another name.
    """
    with ExitStack() as locks:
        if shard is None:
            locks.enter_context(_whole(run))
            for path in (run / _LOCKS).glob("*-of-*"):
                locks.enter_context(_locks.locked(path, busy=_busy(run, path.name)))
            yield f"all.{secrets.token_hex(4)}"
            return
        number, n = shard
        name = f"{number}-of-{n}"
        locks.enter_context(_locks.locked(run / _LOCKS / name, busy=_busy(run, name)))
        for path in (run / _LOCKS).glob("*-of-*"):
            if not path.name.endswith(f"-of-{n}"):
                with _locks.locked(path, busy=_busy(run, path.name)):
                    pass
        yield f"{name}.{secrets.token_hex(4)}"


def beginning(run: Path, shard: Shard | None) -> AbstractContextManager[Any]:
    """Lock what shards have in common, while one of them begins."""
    return nullcontext() if shard is None else _whole(run, wait=_SETUP)


def _whole(run: Path, *, wait: float = 0) -> AbstractContextManager[bool]:
    return _locks.locked(run / ".lock", busy=_busy(run), wait=wait)


def _busy(run: Path, shard: str = "") -> str:
    other = f"shard {shard.replace('-of-', '/')}" if shard else "another run"
    return (
        f"bench: {run} must not be in use, got {other} that writes to it. Wait "
        "until it ends, or choose another --out"
    )


def adopt(run: Path, made: Plan, text: bytes, ending: str) -> None:
    """Copy the study file into the folder; raise if it belongs to another study.

    A study may grow: its cells are kept as long as the new file contains them.
    """
    old = [path for path in run.glob("study.*") if path.suffix in _ENDINGS]
    if old:
        was = parse(old[0].read_bytes(), str(old[0])).at(made.study.base)
        lost = plan(was).ids - made.ids
        if lost:
            msg = (
                f"bench: {run} must be new or the folder of this study, got "
                f"{old[0].name} with {len(lost)} cells that are not in this "
                "study. Choose another --out"
            )
            raise ValueError(msg)
    path = run / f"study{ending}"
    _io.put(path, text)
    for other in old:
        if other != path:
            other.unlink()


_ENDINGS = (".yaml", ".yml", ".toml")
_LOCKS = ".locks"
_FILES = ("study", "protocols.json", "results.csv", "study.json", "data.json")
_FOLDERS = ("cells", "scores", "calibration", "failed", "networks", "magnitudes")


def tidy(run: Path, owner: str, ids: Collection[str] | None = None) -> None:
    """Remove what a killed run left: incomplete files and the marks of its workers.

    With `ids`, only files of these networks and cells: those of a shard.
    """
    # The folder itself may hold hidden files of the user; its subfolders do not.
    left = [path for name in _FILES for path in run.glob(f".{name}.*")]
    for name in _FOLDERS:
        left += [
            path
            for path in run.glob(f"{name}/.*")
            if ids is None or path.name.split(".")[1] in ids
        ]
    slot = owner.partition(".")[0]
    # Marks of the same shard, or of the whole study; of all shards, if all are locked.
    left += [
        path
        for path in run.glob("running/*")
        if path.name != owner
        and (slot == "all" or path.name.partition(".")[0] in {slot, "all"})
    ]
    for path in left:
        if path.is_dir():
            _io.discard(path)
        else:
            path.unlink(missing_ok=True)


def begin(run: Path, owner: str) -> None:
    """Create the folder by which workers see that their run is the current one."""
    (run / "running" / owner).mkdir(parents=True)


def end(run: Path, owner: str) -> None:
    """Remove the folder of :func:`begin`."""
    _io.discard(run / "running" / owner)
    with suppress(OSError):  # other shards may be running
        (run / "running").rmdir()


def training(run: Path, owner: str) -> Path:
    """Return the folder in which networks of a run are trained."""
    return run / "training" / owner


def take_over_training(run: Path, owner: str, ids: Collection[str]) -> None:
    """Move interrupted training of these networks into this run's own folder.

    A worker of an earlier run that is still alive would otherwise write to the same
    files.
    """
    for name in ids:
        found = [path for path in run.glob(f"training/*/{name}") if path.is_dir()]
        if not found:
            continue
        *others, best = sorted(found, key=_last_checkpoint)
        mine = training(run, owner) / name
        mine.parent.mkdir(parents=True, exist_ok=True)
        best.rename(mine)
        for other in others:
            _io.discard(other)
    for path in run.glob("training/*"):
        with suppress(OSError):  # not empty, or a file
            path.rmdir()
    with suppress(OSError):
        (run / "training").rmdir()


def _last_checkpoint(folder: Path) -> int:
    files = folder.glob("checkpoint.pt")
    return max((path.stat().st_mtime_ns for path in files), default=0)


def note_protocols(run: Path, drawn: Mapping[str, list[Protocol]]) -> None:
    """Write all protocols of the study, for the checks and for reference."""
    every = tuple(protocol for listed in drawn.values() for protocol in listed)
    if every:
        Draws(every).save(run / "protocols.json")


def finished(run: Path, made: Plan) -> set[str]:
    """Return the ids of the cells that have every metric the study names."""
    added = {row.key for row in made.study.rows() if row.kind != "operational"}
    added -= set(standard_metrics())
    if not added or not (run / "cells").is_dir():
        return runs.finished(run)
    cells = read_cells(run)
    return {c.id for c in cells if added <= {row["metric"] for row in c.rows}}


def conclude(run: Path, made: Plan, owner: str) -> None:
    """Write results.csv, and study.json for the checks, from the finished cells."""
    study = made.study
    tidy(run, owner)
    (run / "cells").mkdir(exist_ok=True)
    results(run).save(run / "results.csv")
    rows = study.rows()
    document: dict[str, Any] = {"headline": rows[0].key}
    if study.tuned_on:
        document["tuned_on"] = study.tuned_on
    plugins = [row for row in rows if not is_built_in(row)]
    if plugins:  # so that a report works where they are not installed
        document["metrics"] = {
            row.key: {"label": row.short, "better": row.better} for row in plugins
        }
    if study.name:
        document["name"] = study.name
    if study.claim is not None:
        document["claim"] = study.claim
    if study.calibrate is not None:
        # A float, not the text "inf" of a cell: the checks compare with it.
        document["thresholds"] = {
            cell.id: {"value": float(chosen["value"]), "method": chosen["method"]}
            for cell in read_cells(run)
            if (chosen := cell.threshold) is not None
        }
    _io.put(run / "study.json", json.dumps(document, indent=1))
