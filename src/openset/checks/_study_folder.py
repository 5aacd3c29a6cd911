"""Reads a study folder: scores, thresholds, results, protocols, study.json."""

from pathlib import Path
from typing import Any

from openset._types import ArtefactError
from openset.checks import _cell_names
from openset.checks._evidence import ONLY, Claim, Evidence
from openset.checks._score_files import ScoreFiles, sample, score_paths
from openset.checks._threshold_files import add, read_json, read_thresholds
from openset.protocols import Protocol, load
from openset.results import Results
from openset.runs import read_cells, results

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
    paths = score_paths(folder / "scores")
    if runs:  # scores without a cell are of one that failed or still runs
        paths = {name: file for name, file in paths.items() if name in runs}
    strata = {
        name: _cell_names.who(runs[name]) if name in runs else "" for name in paths
    }
    names = set(sample(strata, limit))
    labels = {n: _cell_names.label(runs[n]) if n in runs else n for n in paths}
    calibration = score_paths(folder / "calibration")
    thresholds = read_thresholds(folder, said.pop("thresholds", None))
    for run in runs.values():
        if run.threshold is not None:
            add(folder, thresholds, run.id, run.threshold)
    content: dict[str, Any] = {
        "scores": ScoreFiles(
            {labels[name]: file for name, file in paths.items() if name in names}
        ),
        "calibration": ScoreFiles(
            {
                labels.get(name, name): file
                for name, file in calibration.items()
                if name in names or name == ONLY or name not in paths
            }
        ),
        "thresholds": {
            labels.get(name, name): record
            if name in names or name not in paths
            else _without_fingerprint(record)
            for name, record in thresholds.items()
        },
        "protocols": _read_protocols(folder),
        "parts": _read_parts(folder / "parts.json"),
    }
    if (folder / "results.csv").exists():
        content["results"] = Results.load(folder / "results.csv")
    elif runs:
        content["results"] = results(folder)
    if not said and not any(content.values()):
        msg = (
            f"checks.run_folder: {folder} must hold a study, got none of scores/*.npz, "
            "calibration/*.npz, cells/*.json, results.csv, protocol*.json, parts.json, "
            "thresholds/*.json, rejectors/*/manifest.json, study.json"
        )
        raise ArtefactError(msg)
    try:
        if isinstance(said.get("claim"), dict):
            said["claim"] = Claim(**said["claim"])
        return Evidence(**content, **said, n_left_out=len(paths) - len(names))
    except (TypeError, ValueError) as error:
        msg = f"checks.run_folder: {folder}: {error}"
        raise ArtefactError(msg) from error


def _without_fingerprint(record: Any) -> Any:
    # Its scores are not read; unpacking ten thousand fingerprints takes seconds.
    return record | {"fingerprint": None} if isinstance(record, dict) else record


def _read_protocols(folder: Path) -> list[Protocol]:
    files = sorted(folder.glob("protocol*.json"), key=lambda file: file.name)
    found = [load(file) for file in files]
    return [p for one in found for p in ([one] if isinstance(one, Protocol) else one)]


def _read_parts(path: Path) -> Any:
    return read_json(path) if path.exists() else None


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
