"""Reads a study folder: scores, thresholds, results, protocols, study.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openset._types import ArtefactError
from openset.checks import _cell_names
from openset.checks._evidence import ONLY, Claim, Evidence
from openset.checks._score_files import ScoreFiles, sample, score_paths
from openset.checks._threshold_files import add, read_json, read_thresholds
from openset.protocols import Protocol, load
from openset.results import Results
from openset.runs import Cell, read_cells, results

LIMIT = 200
"""Number of sets of scores the checks read at most; of more, a sample."""

_KEYS = ("name", "headline", "thresholds", "claim", "tuned_on", "metrics")


def read_folder(path: str | Path, *, limit: int | None = LIMIT) -> Evidence:
    """Read the files of a study folder that exist; scores are read when used.

    Parameters
    ----------
    path
        The folder.
    limit
        Read at most this many sets of scores; see :func:`run_folder`.
    """
    folder = Path(path)
    if not folder.is_dir():
        msg = f"checks.run_folder: no such folder: {folder}"
        if folder.exists():
            msg = f"checks.run_folder: {folder} must be a folder, got a file"
        raise FileNotFoundError(msg)
    said = _read_said(folder / "study.json")
    has_cells = (folder / "cells").is_dir()
    runs = {cell.id: cell for cell in read_cells(folder)} if has_cells else {}
    read = _Read.of(score_paths(folder / "scores"), runs, limit)
    parts = folder / "parts.json"
    calibration = read.calibration(score_paths(folder / "calibration"))
    thresholds = read_thresholds(folder, said.pop("thresholds", None))
    for run in runs.values():
        if run.threshold is not None:
            add(folder, thresholds, run.id, run.threshold)
    content: dict[str, Any] = {
        "scores": read.scores(),
        "calibration": calibration,
        "thresholds": read.thresholds(thresholds),
        "protocols": _read_protocols(folder),
        "parts": read_json(parts) if parts.exists() else None,
    }
    if (folder / "results.csv").exists():
        content["results"] = Results.load(folder / "results.csv")
    elif runs:
        content["results"] = results(folder)
    if not said and not any(content.values()):
        msg = (
            f"checks.run_folder: {folder} must hold a study, got a folder with none of "
            "scores/*.npz, calibration/*.npz, cells/*.json, results.csv, "
            "protocol*.json, parts.json, thresholds/*.json, "
            "rejectors/*/manifest.json, study.json"
        )
        raise ArtefactError(msg)
    try:
        if isinstance(said.get("claim"), dict):
            said["claim"] = Claim(**said["claim"])
        return Evidence(**content, **said, n_left_out=read.n_left_out)
    except (TypeError, ValueError) as error:
        msg = f"checks.run_folder: {folder}: {error}"
        raise ArtefactError(msg) from error


@dataclass(frozen=True)
class _Read:
    """Which sets of scores are read, and what each is called."""

    paths: dict[str, Path]
    names: set[str]
    labels: dict[str, str]

    @classmethod
    def of(
        cls, paths: dict[str, Path], runs: Mapping[str, Cell], limit: int | None
    ) -> "_Read":
        if not runs:
            names = dict.fromkeys(paths, "")
            return cls(paths, set(sample(names, limit)), {name: name for name in paths})
        # Scores without a cell are of one that failed or still runs.
        paths = {name: file for name, file in paths.items() if name in runs}
        strata = {name: _cell_names.who(runs[name]) for name in paths}
        labels = {name: _cell_names.label(runs[name]) for name in paths}
        return cls(paths, set(sample(strata, limit)), labels)

    @property
    def n_left_out(self) -> int:
        return len(self.paths) - len(self.names)

    def is_read(self, name: str) -> bool:
        """Whether a set of scores is read, or there is none of this name."""
        return name in self.names or name not in self.paths

    def scores(self) -> ScoreFiles:
        paths = self.paths.items()
        return ScoreFiles(
            {self.labels[n]: file for n, file in paths if self.is_read(n)}
        )

    def calibration(self, files: Mapping[str, Path]) -> ScoreFiles:
        return ScoreFiles(
            {
                self.labels.get(name, name): file
                for name, file in files.items()
                if self.is_read(name) or name == ONLY
            }
        )

    def thresholds(self, records: Mapping[str, Any]) -> dict[str, Any]:
        return {
            self.labels.get(name, name): record
            if self.is_read(name)
            else _without_fingerprint(record)
            for name, record in records.items()
        }


def _without_fingerprint(record: Any) -> Any:
    # Its scores are not read; unpacking ten thousand fingerprints takes seconds.
    return record | {"fingerprint": None} if isinstance(record, dict) else record


def _read_protocols(folder: Path) -> list[Protocol]:
    files = sorted(folder.glob("protocol*.json"), key=lambda file: file.name)
    found = [load(file) for file in files]
    return [p for one in found for p in ([one] if isinstance(one, Protocol) else one)]


def _read_said(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    said = read_json(path)
    strange = sorted(set(said) - set(_KEYS)) if isinstance(said, dict) else ["no table"]
    if strange:
        msg = (
            f"checks.run_folder: {path} may hold {', '.join(_KEYS)}, got "
            f"{', '.join(strange)}"
        )
        raise ArtefactError(msg)
    # A title, and what to call metrics, are for readers; there is nothing to check.
    return {key: said[key] for key in said if key not in {"name", "metrics"}}
