"""The run folder: adopted by one study, written by one run at a time."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openset import _io
from openset.bench._plan import Plan, plan
from openset.bench._read import parse
from openset.protocols import Draws, Protocol
from openset.runs import read_cells, results

try:
    import fcntl
except ImportError:  # pragma: no cover  # a system without file locks
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Keep a second run out; the lock goes with the process, however it ends."""
    run.mkdir(parents=True, exist_ok=True)
    with (run / ".lock").open("w") as stream:
        if fcntl is not None:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                msg = (
                    f"bench: {run} must be free, got another run that writes to it. "
                    "Wait for it, or choose another --out"
                )
                raise BlockingIOError(msg) from error
        yield


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


def conclude(run: Path, made: Plan) -> None:
    """Write results.csv, and study.json for the checks, from the finished cells."""
    study = made.study
    tidy(run)
    (run / "cells").mkdir(exist_ok=True)
    results(run).save(run / "results.csv")
    said: dict[str, Any] = {"headline": study.headline, "tuned_on": study.tuned_on}
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
