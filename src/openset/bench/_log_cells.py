"""Log the finished cells of a study to an experiment tracker."""

import re
from pathlib import Path

from openset import trackers
from openset.runs import Cell, read_cells


def log_cells(run: Path, name: str) -> int:
    """Log each finished cell of a run folder that was not logged yet.

    ``logged/<tracker>/<id>`` marks a cell as logged, so that a study that is continued,
    or has grown, logs what is new. Returns how many were logged now.
    """
    place = run / "logged" / name
    new = [cell for cell in read_cells(run) if not (place / cell.id).exists()]
    for cell in new:
        _log(cell, name, place)
        (place / cell.id).touch()
    return len(new)


def _log(cell: Cell, name: str, place: Path) -> None:
    title = " ".join(str(value) for value in cell.key.values() if value != "")
    folder = place / f"{re.sub(r'[^0-9A-Za-z]+', '-', title)[:80]}-{cell.id[:6]}"
    parameters = {**cell.key, "threshold": cell.threshold or {}}
    tracker = trackers.start(name, folder=folder, title=title, parameters=parameters)
    curve = [trackers.numbers(row) for row in cell.curve or ()]
    for step, values in enumerate(curve):
        tracker.log(values, step=int(values.pop("epoch", step)))
    metrics = {row["metric"]: row["value"] for row in cell.rows}
    metrics |= {f"operation/{n}": v for n, v in (cell.operation or {}).items()}
    tracker.log(trackers.numbers(metrics), step=len(curve))
    tracker.close()
