"""A study folder: scores, results, protocols and what is said about them."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from openset._types import ArtefactError
from openset.checks._study import ONLY, Claim, Study
from openset.protocols import Protocol, load
from openset.results import Results
from openset.scores import Scores

_KEYS = ("headline", "thresholds", "claim", "tuned_on")
_SUFFIXES = {".npz", ".csv", ".parquet"}


def read_study(path: str | Path, *, names: Collection[str] | None = None) -> Study:
    """Read a study folder, whatever of it is there; of the scores only `names`."""
    folder = Path(path)
    if not folder.is_dir():
        msg = f"checks.run_folder: no such folder: {folder}"
        raise FileNotFoundError(msg)
    said = _read_said(folder / "study.json")
    content: dict[str, Any] = {
        "scores": _read_scores(folder / "scores", names),
        "calibration": _read_scores(folder / "calibration", names),
        "protocols": _read_protocols(folder),
        "parts": _json(folder / "parts.json"),
    }
    if (folder / "results.csv").exists():
        content["results"] = Results.load(folder / "results.csv")
    if not said and not any(content.values()):
        msg = (
            f"checks.run_folder: {folder} must hold a study, got none of scores/*.npz, "
            "calibration/*.npz, results.csv, protocol*.json, parts.json, study.json"
        )
        raise ArtefactError(msg)
    try:
        if isinstance(said.get("claim"), dict):
            said["claim"] = Claim(**said["claim"])
        return Study(**content, **said)
    except (TypeError, ValueError) as error:
        msg = f"checks.run_folder: {folder}: {error}"
        raise ArtefactError(msg) from error


def _sorted(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern), key=lambda found: found.name)


def _read_protocols(folder: Path) -> list[Protocol]:
    found = [load(file) for file in _sorted(folder, "protocol*.json")]
    return [p for one in found for p in ([one] if isinstance(one, Protocol) else one)]


def _read_scores(
    folder: Path, names: Collection[str] | None = None
) -> dict[str, Scores]:
    files = [f for f in _sorted(folder, "*") if f.suffix in _SUFFIXES]
    if names is not None:
        files = [f for f in files if f.stem in names or f.stem == ONLY]
    table: dict[str, Scores] = {}
    for file in files:
        if file.stem in table:
            msg = (
                f"checks.run_folder: {folder} must have one file per name, got "
                f"{file.stem!r} twice"
            )
            raise ArtefactError(msg)
        table[file.stem] = Scores.load(file)
    return table


def _read_said(path: Path) -> dict[str, Any]:
    said = _json(path)
    if said is None:
        return {}
    strange = sorted(set(said) - set(_KEYS)) if isinstance(said, dict) else ["no table"]
    if strange:
        msg = (
            f"checks.run_folder: {path} may hold {', '.join(_KEYS)}, got "
            f"{', '.join(strange)}"
        )
        raise ArtefactError(msg)
    return said


def _json(path: Path) -> Any:
    if not path.exists():
        return None
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        msg = f"checks.run_folder: {path} is not JSON: {error}"
        raise ArtefactError(msg) from error
