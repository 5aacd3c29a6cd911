"""The run folder: adopted by one study, written by one run at a time."""

import json
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from openset import _io, runs
from openset._plugins import is_built_in
from openset.bench._cell import standard_metrics
from openset.bench._plan import Plan, plan
from openset.bench._read import parse
from openset.protocols import Draws, Protocol
from openset.runs import read_cells, results


def locked(run: Path) -> AbstractContextManager[bool]:
    """Keep a second run out of the run folder."""
    busy = (
        f"bench: {run} must be free, got another run that writes to it. "
        "Wait for it to end, or choose another --out"
    )
    return _io.locked(run / ".lock", busy=busy)


def adopt(run: Path, made: Plan, text: bytes, ending: str) -> None:
    """Copy the study file; another study's folder is refused.

    A study may grow: as long as its old cells are among the new ones, they stay.
    """
    old = [path for path in run.glob("study.*") if path.suffix in _ENDINGS]
    if old:
        was = parse(old[0].read_bytes(), str(old[0])).at(made.study.base)
        lost = plan(was).ids - made.ids
        if lost:
            msg = (
                f"bench: {run} must be new or hold this study, got {old[0].name} with "
                f"{len(lost)} cells that are not in it. Choose another --out"
            )
            raise ValueError(msg)
    path = run / f"study{ending}"
    _io.write(path, lambda stream: stream.write(text))
    for other in old:
        if other != path:
            other.unlink()


_ENDINGS = (".yaml", ".yml", ".toml")
_FILES = ("study", "protocols.json", "results.csv", "study.json")
_FOLDERS = ("cells", "scores", "calibration", "failed", "networks")


def tidy(run: Path) -> None:
    """Remove what a killed run left half-written, and the marks of its workers."""
    # The folder itself may hold hidden files of its owner; those below are all ours.
    left = [f".{name}.*" for name in _FILES]
    left += [f"{name}/.*" for name in _FOLDERS]
    for path in [path for pattern in left for path in run.glob(pattern)]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    shutil.rmtree(run / "running", ignore_errors=True)


def note_protocols(run: Path, drawn: Mapping[str, list[Protocol]]) -> None:
    """Write all protocols of the study, for checks and readers."""
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


def conclude(run: Path, made: Plan) -> None:
    """Write results.csv, and study.json for the checks, from the finished cells."""
    study = made.study
    tidy(run)
    (run / "cells").mkdir(exist_ok=True)
    results(run).save(run / "results.csv")
    rows = study.rows()
    said: dict[str, Any] = {"headline": rows[0].key, "tuned_on": study.tuned_on}
    guests = [row for row in rows if not is_built_in(row)]
    if guests:  # so that a report can be made where they are not installed
        said["metrics"] = {
            row.key: {"label": row.short, "better": row.better} for row in guests
        }
    if study.name:
        said["name"] = study.name
    if study.claim is not None:
        said["claim"] = study.claim
    if study.calibrate is not None:
        # A float, not the text "inf" of a cell: the checks compare with it.
        said["thresholds"] = {
            cell.id: {"value": float(chosen["value"]), "method": chosen["method"]}
            for cell in read_cells(run)
            if (chosen := cell.threshold) is not None
        }
    text = json.dumps(said, indent=1)
    _io.write(run / "study.json", lambda stream: stream.write(text.encode()))
