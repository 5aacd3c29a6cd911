"""The run folder: it belongs to one study, and one run at a time writes to it."""

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
    """Lock the run folder against a second run."""
    busy = (
        f"bench: {run} must be free, got another run that writes to it. "
        "Wait for it to end, or choose another --out"
    )
    return _io.locked(run / ".lock", busy=busy)


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
_FOLDERS = ("cells", "scores", "calibration", "failed", "networks", "magnitudes")


def tidy(run: Path) -> None:
    """Remove incomplete files of a killed run, and the marks of its workers."""
    # The folder itself may hold hidden files of the user; its subfolders do not.
    left = [f".{name}.*" for name in _FILES]
    left += [f"{name}/.*" for name in _FOLDERS]
    for path in [path for pattern in left for path in run.glob(pattern)]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    shutil.rmtree(run / "running", ignore_errors=True)


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


def conclude(run: Path, made: Plan) -> None:
    """Write results.csv, and study.json for the checks, from the finished cells."""
    study = made.study
    tidy(run)
    (run / "cells").mkdir(exist_ok=True)
    results(run).save(run / "results.csv")
    rows = study.rows()
    document: dict[str, Any] = {"headline": rows[0].key, "tuned_on": study.tuned_on}
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
    text = json.dumps(document, indent=1)
    _io.write(run / "study.json", lambda stream: stream.write(text.encode()))
