"""Read the cells of a study, which are the runs of its report."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from openset import runs
from openset._types import ArtefactError
from openset.report._cell_keys import (
    OF_A_METHOD,
    method_names,
    numbers_of,
    parsed,
    setting,
)
from openset.report._runs import ReportData, Run, Value
from openset.results import Results
from openset.thresholds import Threshold


def from_cells(folder: Path, headline: str) -> ReportData:
    """Read the finished cells of a study."""
    cells = runs.read_cells(folder)
    if not cells:
        msg = f"report: {folder} must hold finished cells, got none in cells/"
        raise ArtefactError(msg)
    _complete(folder, cells)
    names = method_names([cell.key for cell in cells])
    return ReportData(
        title=folder.resolve().name,
        runs=tuple(
            _from_cell(folder, cell, name)
            for cell, name in zip(cells, names, strict=True)
        ),
        headline=headline,
        n_failed=len(list((folder / "failed").glob("*.json"))),
        folder=folder,
    )


def _complete(folder: Path, cells: Sequence[runs.Cell]) -> None:
    """Write ``results.csv``, which checks read, if the run was interrupted before."""
    path = folder / "results.csv"
    newest = (folder / "cells").stat().st_mtime_ns
    if path.exists() and path.stat().st_mtime_ns >= newest:
        return
    table = Results(row for cell in cells for row in cell.results())
    # A run folder without write permission can still be reported.
    with suppress(PermissionError):
        table.save(path)


def _from_cell(folder: Path, cell: runs.Cell, method: str) -> Run:
    values = {
        row["metric"]: Value(float(row["value"]), row.get("low"), row.get("high"))
        for row in cell.rows
    }
    operation = cell.operation
    if operation is not None and "oosa" in operation:
        values.setdefault(
            "oosa",
            Value(
                float(operation["oosa"]), operation.get("low"), operation.get("high")
            ),
        )
    name = f"{cell.id}.npz"
    return Run(
        method=method,
        family=" · ".join(
            parsed(str(cell.key[n]))[0] for n in OF_A_METHOD if cell.key[n]
        ),
        trained=_trained(cell.key),
        protocol=str(cell.key["protocol"]),
        repeat=(_int(cell.key.get("repeat")), _int(cell.key.get("seed"))),
        split=_int(cell.key.get("split")),
        values=values,
        n=max((_int(row.get("n")) for row in cell.rows), default=0),
        scores_path=folder / "scores" / name,
        calibration_path=folder / "calibration" / name,
        threshold=_threshold(cell.threshold),
        operation=operation,
        classes=cell.classes,
        curve=cell.curve,
        numbers=numbers_of(cell.key),
        network=(str(cell.key["model"]), str(cell.key["method"])),
    )


def _trained(key: Mapping[str, Any]) -> str:
    settings = [setting(n, v) for n, v in key.items() if isinstance(v, Mapping) and v]
    name = str(key["method"] or key["model"] or "network")
    return ", ".join([name, *settings])


def _threshold(record: Any) -> Threshold | float | None:
    if not isinstance(record, Mapping) or "value" not in record:
        return None
    try:
        return Threshold.from_dict(dict(record))
    except ArtefactError:  # a record written by other software: use its number
        return float(record["value"])


def _int(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0
