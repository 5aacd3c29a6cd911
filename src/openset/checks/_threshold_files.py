"""Reads the thresholds of a study folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openset._types import ArtefactError
from openset.checks._evidence import ONLY

_REJECTOR = "manifest.json"


def read_thresholds(folder: Path, said: Any) -> dict[str, Any]:
    """Return the thresholds of a study by name, as records.

    They come from ``study.json`` (numbers, records, or paths of the following two),
    ``thresholds/NAME.json`` (`Threshold.to_json`) and ``rejectors/NAME/``
    (`Rejector.save`, ``openset calibrate``); a single folder ``rejector/`` is used for
    all scores.
    """
    found: dict[str, Any] = {}
    is_several = isinstance(said, Mapping) and "value" not in said
    listed = said if is_several else {} if said is None else {ONLY: said}
    for name, value in listed.items():
        record = _from_path(folder / value) if isinstance(value, str) else value
        add(folder, found, str(name), record)
    for path in sorted((folder / "thresholds").glob("*.json")):
        add(folder, found, path.stem, _from_path(path))
    for path in sorted((folder / "rejectors").glob(f"*/{_REJECTOR}")):
        add(folder, found, path.parent.name, _from_path(path))
    if (folder / "rejector" / _REJECTOR).exists():
        add(folder, found, ONLY, _from_path(folder / "rejector"))
    return found


def add(folder: Path, found: dict[str, Any], name: str, record: Any) -> None:
    """Add a threshold; two of one name must agree, and the later one is kept."""
    if name in found and _value(found[name]) != _value(record):
        msg = (
            f"checks.run_folder: {folder} must have one threshold of {name!r}, got "
            f"{_value(found[name])} and {_value(record)}"
        )
        raise ArtefactError(msg)
    found[name] = record


def _value(record: Any) -> Any:
    value: Any = record.get("value") if isinstance(record, Mapping) else record
    try:
        return float(value)  # infinities are written as text
    except (TypeError, ValueError):
        return value


def _from_path(path: Path) -> Any:
    """Read a threshold, or the one in the manifest of a rejector."""
    file = path / _REJECTOR if path.is_dir() else path
    if not file.exists():
        msg = f"checks.run_folder: no such threshold or rejector: {path}"
        raise ArtefactError(msg)
    document = read_json(file)
    record = document
    if file.name == _REJECTOR and isinstance(document, Mapping):
        record = document.get("threshold")
    if not isinstance(record, Mapping) or "value" not in record:
        msg = f"checks.run_folder: {file} must hold a threshold, got none"
        raise ArtefactError(msg)
    return record


def read_json(path: Path) -> Any:
    """Read a JSON file; errors name it."""
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        msg = f"checks.run_folder: {path} is not JSON: {error}"
        raise ArtefactError(msg) from error
