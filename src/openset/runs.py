"""The run folder of a study: one file per finished cell, written in one step.

``openset bench`` writes it; ``openset report`` and ``openset check`` read it::

    cells/ID.json         one finished cell, written last
    scores/ID.npz         its test `Scores`
    calibration/ID.npz    the `Scores` its threshold was chosen on, if there is one
    failed/ID.json        why a cell failed; deleted once it succeeds

A cell's id is a hash of its key, so that names of studies, classes and data sets need
not be valid file names.
"""

import hashlib
import json
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from openset import _check, _io
from openset._types import ArtefactError
from openset._version import __version__
from openset.results import Result, Results
from openset.scores import Scores

_KIND, _SCHEMA = "openset.Cell", 1
_NAMES = ("protocol", "model", "method", "detector")  # text entries that every key has
_NUMBERS = ("repeat", "split", "seed")  # optional integer entries; 0 if missing


def identity(key: Mapping[str, Any]) -> str:
    """Return the id of a key: 16 hexadecimal digits of its SHA-256.

    Examples
    --------
    >>> identity({"protocol": "../../etc", "seed": 0})
    'eba78ec59737a013'
    """
    # Sorted keys, no spaces, ASCII only: equal keys give equal text.
    text = json.dumps(key, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def provenance(started: float, **more: Any) -> dict[str, Any]:
    """Return version, machine and time of work that began then (`time.time`)."""
    return more | {
        "version": __version__,
        "machine": f"{platform.node()} {platform.machine()}",
        "python": platform.python_version(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": round(time.time() - started, 3),
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Cell:
    """One finished cell of a study: one detector, network and protocol.

    Parameters
    ----------
    key
        What was run: protocol, repeat, model, method (of training), detector, seed, and
        anything else that distinguishes it from other cells. Plain JSON values.
    rows
        Records with metric, value, low, high (None without an interval) and n.
    threshold
        The threshold (`Threshold.to_dict`), if one was chosen.
    operation
        Results of the threshold on the test set: oosa, oracle, alpha, ...
    classes
        Names of the known classes.
    curve
        One record per epoch, if training recorded open-set metrics.
    provenance
        Version, seed, protocol hash, machine, time. This is the only part that changes
        if the same cell is run again.

    Examples
    --------
    >>> cell = Cell(
    ...     key={"protocol": "digits", "model": "mlp", "method": "",
    ...          "detector": "msp", "seed": 0},
    ...     rows=[{"metric": "auroc", "value": 0.9, "low": None, "high": None, "n": 7}],
    ... )
    >>> cell
    Cell(867d84322fcd8353: digits, mlp, msp, seed 0)
    >>> cell.results().where(metric="auroc").column("value")
    array([0.9])
    """

    key: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    threshold: Mapping[str, Any] | None = None
    operation: Mapping[str, Any] | None = None
    classes: Sequence[str] = ()
    curve: Sequence[Mapping[str, Any]] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        shown = [str(self.key[n]) for n in _NAMES if self.key[n]]
        shown += [f"{n} {self.key[n]}" for n in _NUMBERS if n in self.key]
        return f"Cell({self.id}: {', '.join(shown)})"

    @property
    def id(self) -> str:
        """Hash of the key, used as file name."""
        return identity(self.key)

    def results(self) -> Results:
        """Return the rows as `Results`."""
        of_key = {name: self.key[name] for name in _NAMES}
        of_key |= {name: self.key.get(name, 0) for name in _NUMBERS}
        return Results(
            Result(metric=r["metric"], value=r["value"], n=r.get("n", 0), **of_key)
            for r in self.rows
        )

    def to_json(self) -> str:
        """Return the cell as JSON; runs of one cell differ only in the provenance."""
        document = {"kind": _KIND, "schema": _SCHEMA, "id": self.id} | asdict(self)
        return json.dumps(document, indent=1, allow_nan=False)

    def save(
        self,
        folder: str | Path,
        *,
        scores: Scores | None = None,
        calibration: Scores | None = None,
    ) -> Path:
        """Write the cell into a run folder, after the scores it comes from.

        ``cells/<id>.json`` is written last and atomically: if it exists, the cell is
        finished.
        """
        folder = Path(folder)
        for name, found in (("scores", scores), ("calibration", calibration)):
            if found is not None:
                found.save(folder / name / f"{self.id}.npz")
        path = folder / "cells" / f"{self.id}.json"
        _io.put(path, self.to_json())
        (folder / "failed" / path.name).unlink(missing_ok=True)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read one cell."""
        document = _json(Path(path))
        try:
            fields = {k: document[k] for k in cls.__dataclass_fields__}
            cell = cls(**fields | {"classes": tuple(fields["classes"])})
            cell.results()
            is_cell = cell.id == document["id"]
        except (KeyError, TypeError, AttributeError, ValueError):
            is_cell = False
        if not is_cell or (document["kind"], document["schema"]) != (_KIND, _SCHEMA):
            msg = f"Cell.load: {path} is no cell of this version, or damaged. {_AGAIN}"
            raise ArtefactError(msg)
        return cell


_AGAIN = "Delete it and run the study again"


def finished(folder: str | Path) -> set[str]:
    """Return the ids of all finished cells."""
    return {path.stem for path in Path(folder).glob("cells/[!.]*.json")}


def read_cells(folder: str | Path) -> list[Cell]:
    """Read all finished cells of a run folder, in the order of their keys.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     key = {"protocol": "p", "model": "m", "method": "", "detector": "msp"}
    ...     _ = Cell(key=key | {"seed": 1}, rows=[]).save(folder)
    ...     _ = Cell(key=key | {"seed": 0}, rows=[]).save(folder)
    ...     [cell.key["seed"] for cell in read_cells(folder)]
    [0, 1]
    """
    folder = Path(folder)
    if not (folder / "cells").is_dir():
        rule, remedy = "a run folder with cells/", "openset bench STUDY.yaml --out DIR"
        remedy = f"Write one with: {remedy}"
        _check.fail("read_cells", str(folder), rule, "none", remedy, FileNotFoundError)
    cells = [Cell.load(folder / "cells" / f"{one}.json") for one in finished(folder)]
    return sorted(cells, key=_place)


def results(folder: str | Path) -> Results:
    """Return the rows of all finished cells of a run folder."""
    rows = [row for cell in read_cells(folder) for row in cell.results()]
    return Results(rows, better=directions(folder))


def directions(folder: str | Path) -> dict[str, str]:
    """Return whether higher or lower is better, for a study's own metrics.

    They are in its ``study.json``: such metrics need not be installed here.
    """
    metrics = said(folder).get("metrics") or {}
    every = {key: one.get("better") for key, one in metrics.items()}
    return {key: way for key, way in every.items() if way in ("higher", "lower")}


def said(folder: str | Path) -> dict[str, Any]:
    """Return what ``study.json`` says of a study; nothing if there is none."""
    path = Path(folder) / "study.json"
    found = _json(path) if path.exists() else None
    return found if isinstance(found, dict) else {}


def failures(folder: str | Path) -> list[dict[str, Any]]:
    """Return the records of failed cells: id, key, error, traceback."""
    return [_json(path) for path in sorted(Path(folder).glob("failed/[!.]*.json"))]


def _place(cell: Cell) -> tuple[Any, ...]:
    names = tuple(cell.key[name] for name in _NAMES)
    return (*names, *(cell.key.get(name, 0) for name in _NUMBERS), cell.id)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        msg = f"{path} is not JSON ({error}). {_AGAIN}"
        raise ArtefactError(msg) from error
