"""Reads a study folder: scores, thresholds, results, protocols, study.json."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openset import _check
from openset._types import ArtefactError
from openset.checks.evidence import ONLY, Chosen, Claim, Evidence, named
from openset.protocols import Protocol, load
from openset.results import Results
from openset.runs import read_cells, results
from openset.scores import Scores

LIMIT = 200
"""Number of sets of scores the checks read at most."""

_SAID = ("name", "headline", "thresholds", "claim", "tuned_on", "metrics")


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
    try:
        return Evidence(**_content(folder, limit))
    except (KeyError, TypeError, ValueError) as error:
        msg = f"checks.run_folder: {folder}: {error}"
        raise ArtefactError(msg) from error


def _content(folder: Path, limit: int | None) -> dict[str, Any]:
    cells = read_cells(folder) if (folder / "cells").is_dir() else []
    labels = {cell.id: repr(cell) for cell in cells}
    tests, calibration = (
        _paths(folder / kind, labels) for kind in ("scores", "calibration")
    )
    if cells:  # scores without a cell are of one that failed or still runs
        tests = {name: path for name, path in tests.items() if path.stem in labels}
    step = 1 if limit is None else -(-len(tests) // limit)  # rounded up
    read = {name: tests[name] for name in list(tests)[:: max(step, 1)]}
    for name in tests.keys() - read.keys() - {ONLY}:
        calibration.pop(name, None)
    said = dict(_json(folder / "study.json"))
    for key in said:
        _check.one_of("checks.run_folder", "a key of study.json", key, _SAID)
    given = [*named(said.pop("thresholds", None)).items()]
    given += [(one.id, one.threshold) for one in cells if one.threshold is not None]
    content: dict[str, Any] = {
        "scores": {name: Scores.load(path) for name, path in read.items()},
        "calibration": {name: Scores.load(path) for name, path in calibration.items()},
        "thresholds": _thresholds(folder, given, labels),
        "protocols": _protocols(folder),
        "parts": _json(folder / "parts.json"),
    }
    if cells:  # the table beside them may be older
        content["results"] = results(folder)
    elif (folder / "results.csv").exists():
        content["results"] = Results.load(folder / "results.csv")
    if not (said or any(content.values())):
        rule = "a study (see help(openset.checks.run_folder) for its files)"
        _check.fail("checks.run_folder", str(folder), rule, "none of its files")
    # A title, and what to call metrics, are for readers; there is nothing to check.
    said = {key: one for key, one in said.items() if key not in {"name", "metrics"}}
    if isinstance(said.get("claim"), dict):
        said["claim"] = Claim(**said["claim"])
    return content | said | {"n_left_out": len(tests) - len(read)}


def _paths(folder: Path, labels: Mapping[str, str]) -> dict[str, Path]:
    """Return the files of scores in a folder by name, in the order of their files."""
    files = sorted(folder.glob("*"), key=lambda path: path.name)
    endings = (".npz", ".csv", ".parquet")
    return {labels.get(f.stem, f.stem): f for f in files if f.suffix in endings}


def _thresholds(
    folder: Path, given: list[tuple[str, Any]], labels: Mapping[str, str]
) -> dict[str, Chosen]:
    """Return the thresholds of a study by name.

    They are `given` in ``study.json`` (numbers or records) and cells, or come from
    ``thresholds/NAME.json`` (`Threshold.to_json`), ``rejectors/NAME/`` (those of
    `Rejector.save`) or a single ``rejector/``. Two of one name must agree.
    """
    given += [(path.stem, _json(path)) for path in folder.glob("thresholds/*.json")]
    for path in folder.glob("rejectors/*/manifest.json"):
        given.append((path.parent.name, _json(path)["threshold"]))
    for path in folder.glob("rejector/manifest.json"):
        given.append((ONLY, _json(path)["threshold"]))
    found: dict[str, Chosen] = {}
    for key, one in given:
        name = labels.get(key, key)
        chosen = Chosen.read(name, one)
        if (first := found.get(name, chosen).value) != chosen.value:
            rule, got = f"one threshold of {name!r}", f"{first} and {chosen.value}"
            _check.fail("checks.run_folder", "thresholds", rule, got)
        found[name] = chosen
    return found


def _protocols(folder: Path) -> list[Protocol]:
    files = sorted(folder.glob("protocol*.json"), key=lambda file: file.name)
    found = [load(file) for file in files]
    return [p for one in found for p in ([one] if isinstance(one, Protocol) else one)]


def _json(path: Path) -> Any:
    """Read a file; if there is none, nothing is said."""
    try:
        return json.loads(path.read_bytes()) if path.exists() else {}
    except ValueError as error:
        msg = f"checks.run_folder: {path} is not JSON: {error}"
        raise ArtefactError(msg) from error
