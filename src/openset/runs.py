"""The run folder of a study: one file per finished cell, written in one step.

``openset bench`` writes it; ``openset report`` and ``openset check`` read it::

    cells/<id>.json       one finished cell, written last scores/<id>.npz       its test
    `Scores` calibration/<id>.npz  the `Scores` its threshold was chosen on, if there is
    one failed/<id>.json      why a cell failed; deleted once it succeeds

A cell's id is a hash of its key, so that names of studies, classes and data sets need
not be valid file names.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from openset import _check, _io
from openset._types import ArtefactError
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
        Version, commit, seed, protocol hash, machine, time. This is the only part that
        changes if the same cell is run again.

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
    classes: tuple[str, ...] = ()
    curve: Sequence[Mapping[str, Any]] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _NAMES:
            if not isinstance(self.key.get(name), str):
                got = repr(self.key.get(name))
                msg = _check.must("a string", caller="Cell", name=name, got=got)
                raise TypeError(msg)
        object.__setattr__(self, "classes", tuple(self.classes))

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
        return Results(_rows(self.key, self.rows))

    def to_json(self, *, provenance: bool = True) -> str:
        """Return the cell as JSON; runs of one cell differ only in the provenance."""
        document = {
            "kind": _KIND,
            "schema": _SCHEMA,
            "id": self.id,
            "key": dict(self.key),
            "rows": [dict(row) for row in self.rows],
            "threshold": None if self.threshold is None else dict(self.threshold),
            "operation": None if self.operation is None else dict(self.operation),
            "classes": list(self.classes),
            "curve": None if self.curve is None else [dict(row) for row in self.curve],
        }
        if provenance:
            document["provenance"] = dict(self.provenance)
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
        path = Path(path)
        document = _document(path)
        try:
            cell = cls(**{k: v for k, v in document.items() if k in _FIELDS})
            is_whole = cell.id == document["id"]
        except (KeyError, TypeError, ValueError) as error:
            msg = f"Cell.load: {path} is not a cell ({error})"
            raise ArtefactError(msg) from error
        if not is_whole:
            msg = (
                f"Cell.load: {path} must have the id of its key ({cell.id}), got "
                f"{document['id']!r}. Delete it and run the study again"
            )
            raise ArtefactError(msg)
        return cell


_FIELDS = tuple(Cell.__dataclass_fields__)


def finished(folder: str | Path) -> set[str]:
    """Return the ids of all finished cells."""
    return {path.stem for path in Path(folder).glob("cells/*.json")}


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
        msg = (
            f"read_cells: {folder} must be a run folder with cells/, got none. "
            "Write one with: openset bench STUDY.yaml --out DIR"
        )
        raise FileNotFoundError(msg)
    cells = [Cell.load(path) for path in (folder / "cells").glob("*.json")]
    return sorted(cells, key=_place)


def read_scores(path: str | Path) -> Scores:
    """Read scores; the error for a damaged file says how to recompute it."""
    path = Path(path)
    try:
        return Scores.load(path)
    except ArtefactError as error:
        cell = path.parent.parent / "cells" / f"{path.stem}.json"
        if not cell.exists():
            raise
        msg = f"{error}. To recompute it, delete {cell} and run the study again"
        raise ArtefactError(msg) from error


def results(folder: str | Path) -> Results:
    """Return the rows of all finished cells of a run folder."""
    cells = read_cells(folder)
    return Results(
        (row for cell in cells for row in _rows(cell.key, cell.rows)),
        better=directions(folder),
    )


def directions(folder: str | Path) -> dict[str, str]:
    """Return whether higher or lower is better, for a study's own metrics.

    They are in its ``study.json``: such metrics need not be installed here.
    """
    path = Path(folder) / "study.json"
    document = _json(path) if path.exists() else {}
    found = document.get("metrics") if isinstance(document, dict) else None
    return {
        key: one["better"]
        for key, one in (found.items() if isinstance(found, dict) else ())
        if isinstance(one, dict) and one.get("better") in ("higher", "lower")
    }


def failures(folder: str | Path) -> list[dict[str, Any]]:
    """Return the records of failed cells: id, key, error, traceback."""
    paths = sorted(Path(folder).glob("failed/*.json"))
    return [_json(path) for path in paths]


def _place(cell: Cell) -> tuple[Any, ...]:
    names = tuple(cell.key[name] for name in _NAMES)
    return (*names, *(cell.key.get(name, 0) for name in _NUMBERS), cell.id)


def _rows(
    key: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]
) -> Iterable[Result]:
    of_key: dict[str, Any] = {name: key[name] for name in _NAMES}
    of_key |= {name: int(key.get(name, 0)) for name in _NUMBERS}
    for row in rows:
        try:
            yield Result(
                **of_key,
                metric=row["metric"],
                value=row["value"],
                n=row.get("n", 0),
            )
        except (KeyError, TypeError, ValueError) as error:
            msg = (
                f"Cell {identity(key)}: rows must have a metric and a number as value, "
                f"got {row}. Delete the cell and run the study again"
            )
            raise ArtefactError(msg) from error


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        msg = f"{path} is not JSON ({error}). Delete it and run the study again"
        raise ArtefactError(msg) from error


def _document(path: Path) -> dict[str, Any]:
    document = _json(path)
    kind = document.get("kind") if isinstance(document, dict) else None
    schema = document.get("schema") if isinstance(document, dict) else None
    if kind != _KIND or schema != _SCHEMA:
        msg = (
            f"Cell.load: {path} must be an {_KIND} of schema {_SCHEMA}, got {kind} of "
            f"schema {schema}. Upgrade openset to read newer files"
        )
        raise ArtefactError(msg)
    return document
