"""Cells of a run folder: who was measured, at which threshold, with which result."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from openset._types import ArtefactError
from openset.checks._thresholds import read_json
from openset.results import Result, Results

_KIND = "openset.Cell"
_WHO = ("model", "method", "detector")
_WHERE = ("protocol", "repeat", "seed")
_OF_KEY = tuple(f.name for f in fields(Result) if f.name in (*_WHO, *_WHERE))


@dataclass(frozen=True)
class Run:
    """One finished cell, as far as the checks look at it."""

    id: str
    key: Mapping[str, Any]
    rows: list[Mapping[str, Any]]
    threshold: Mapping[str, Any] | None

    @property
    def who(self) -> str:
        """What was measured: network, training and detector."""
        return ", ".join(str(self.key[n]) for n in _WHO if self.key.get(n))

    @property
    def label(self) -> str:
        """Name for people; the id tells which files."""
        place = [
            str(self.key[n]) if n == "protocol" else f"{n} {self.key[n]}"
            for n in _WHERE
            if n in self.key
        ]
        return f"{self.id} ({', '.join([self.who, *place])})"


def read_runs(folder: Path) -> list[Run]:
    """Read ``cells/*.json``, in the order of their names."""
    return [_read(path) for path in sorted(folder.glob("cells/*.json"))]


def results(runs: list[Run]) -> Results:
    """Return the rows of all cells."""
    return Results(
        Result(
            **{name: run.key[name] for name in _OF_KEY if name in run.key},
            metric=row["metric"],
            value=row["value"],
            n=row.get("n") or 0,
        )
        for run in runs
        for row in run.rows
    )


def _read(path: Path) -> Run:
    document = read_json(path)
    is_cell = isinstance(document, Mapping) and document.get("kind") == _KIND
    key = document.get("key") if is_cell else None
    rows = document.get("rows") if is_cell else None
    if not isinstance(key, Mapping) or not isinstance(rows, list):
        msg = f"checks.run_folder: {path} must be a finished cell ({_KIND}), got other"
        raise ArtefactError(msg)
    return Run(path.stem, key, rows, document.get("threshold"))
