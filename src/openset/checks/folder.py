"""Reads a study folder: scores, thresholds, results, protocols, study.json."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openset._types import ArtefactError
from openset.checks.evidence import ONLY, Claim, Evidence, gathered, named
from openset.protocols import Protocol, load
from openset.results import Results
from openset.runs import Cell, read_cells, read_scores, results

LIMIT = 200
"""Number of sets of scores the checks read at most."""

_SUFFIXES = {".npz", ".csv", ".parquet"}
_SAID = ("name", "headline", "thresholds", "claim", "tuned_on", "metrics")
_MANIFEST = "manifest.json"


def read_folder(folder: Path, *, limit: int | None = LIMIT) -> Evidence:
    """Read the files of a study folder that exist.

    Parameters
    ----------
    folder
        The folder.
    limit
        Read at most this many sets of scores; see :func:`run_folder`.
    """
    if not folder.is_dir():
        msg = f"checks.run_folder: no such folder: {folder}"
        raise FileNotFoundError(msg)
    said = _said(folder / "study.json")
    cells = read_cells(folder) if (folder / "cells").is_dir() else []
    labels = {cell.id: _label(cell) for cell in cells}
    chosen = _thresholds(folder, said.pop("thresholds", None), cells)
    tests = _score_paths(folder / "scores")
    if cells:  # scores without a cell are of one that failed or still runs
        tests = {name: path for name, path in tests.items() if name in labels}
    step = 1 if limit is None else -(-len(tests) // limit)  # rounded up
    read = list(tests)[:: max(step, 1)]
    calibration = _score_paths(folder / "calibration")
    parts = folder / "parts.json"
    content: dict[str, Any] = {
        "scores": {labels.get(name, name): read_scores(tests[name]) for name in read},
        "calibration": {
            labels.get(name, name): read_scores(path)
            for name, path in calibration.items()
            if name in read or name == ONLY or name not in tests
        },
        "thresholds": {labels.get(name, name): one for name, one in chosen.items()},
        "protocols": _protocols(folder),
        "parts": _json(parts) if parts.exists() else None,
    }
    if cells:  # the table beside them may be older
        content["results"] = results(folder)
    elif (folder / "results.csv").exists():
        content["results"] = Results.load(folder / "results.csv")
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
        return gathered(**content, **said, n_left_out=len(tests) - len(read))
    except (TypeError, ValueError) as error:
        msg = f"checks.run_folder: {folder}: {error}"
        raise ArtefactError(msg) from error


def _label(cell: Cell) -> str:
    """Return a readable name of a cell, with the id its files have."""
    names = [cell.key.get(n) for n in ("model", "method", "detector", "protocol")]
    numbers = [
        f"{n} {cell.key[n]}" for n in ("repeat", "split", "seed") if n in cell.key
    ]
    return f"{cell.id} ({', '.join(map(str, [*filter(None, names), *numbers]))})"


def _score_paths(folder: Path) -> dict[str, Path]:
    """Return the files of scores in a folder by name, in the order of their names."""
    paths: dict[str, Path] = {}
    for file in sorted(folder.glob("*"), key=lambda path: path.name):
        if file.suffix in _SUFFIXES and paths.setdefault(file.stem, file) != file:
            rule = "must have one file per name"
            msg = f"checks.run_folder: {folder} {rule}, got {file.stem!r} twice"
            raise ArtefactError(msg)
    return paths


def _thresholds(folder: Path, said: Any, cells: list[Cell]) -> dict[str, Any]:
    """Return the thresholds of a study by name, as records or numbers.

    They come from ``study.json`` (numbers, records, or paths of the following two),
    ``thresholds/NAME.json`` (`Threshold.to_json`), ``rejectors/NAME/``
    (`Rejector.save`, ``openset calibrate``), a single folder ``rejector/`` for all
    scores, and cells. Two of one name must agree.
    """
    found = {
        name: _record(folder / one) if isinstance(one, str) else one
        for name, one in named(said).items()
    }
    files = {path.stem: path for path in (folder / "thresholds").glob("*.json")}
    for path in (folder / "rejectors").glob(f"*/{_MANIFEST}"):
        files[path.parent.name] = path
    if (folder / "rejector" / _MANIFEST).exists():
        files[ONLY] = folder / "rejector"
    more = [(name, _record(path)) for name, path in files.items()]
    more += [(one.id, one.threshold) for one in cells if one.threshold is not None]
    for name, record in more:
        first, value = (_value(one) for one in (found.get(name, record), record))
        if first != value:
            msg = (
                f"checks.run_folder: {folder} must have one threshold of {name!r}, got "
                f"{first} and {value}"
            )
            raise ArtefactError(msg)
        found[name] = record
    return found


def _value(record: Any) -> Any:
    value = record.get("value") if isinstance(record, Mapping) else record
    return float(value) if value in {"inf", "-inf"} else value


def _record(path: Path) -> Any:
    """Read a threshold, or the one in the manifest of a rejector."""
    file = path / _MANIFEST if path.is_dir() else path
    if not file.exists():
        msg = f"checks.run_folder: no such threshold or rejector: {path}"
        raise ArtefactError(msg)
    document = _json(file)
    if file.name == _MANIFEST and isinstance(document, Mapping):
        document = document.get("threshold")
    if not isinstance(document, Mapping) or "value" not in document:
        msg = f"checks.run_folder: {file} must hold a threshold, got none"
        raise ArtefactError(msg)
    return document


def _protocols(folder: Path) -> list[Protocol]:
    files = sorted(folder.glob("protocol*.json"), key=lambda file: file.name)
    found = [load(file) for file in files]
    return [p for one in found for p in ([one] if isinstance(one, Protocol) else one)]


def _said(path: Path) -> dict[str, Any]:
    said = _json(path) if path.exists() else {}
    strange = sorted(set(said) - set(_SAID)) if isinstance(said, dict) else ["no table"]
    if strange:
        rule = f"may hold {', '.join(_SAID)}, got {', '.join(strange)}"
        msg = f"checks.run_folder: {path} {rule}"
        raise ArtefactError(msg)
    # A title, and what to call metrics, are for readers; there is nothing to check.
    return {key: said[key] for key in said if key not in {"name", "metrics"}}


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        msg = f"checks.run_folder: {path} is not JSON: {error}"
        raise ArtefactError(msg) from error
