"""Reads a study folder: scores, thresholds, results, protocols, study.json."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from openset import _check
from openset._types import ArtefactError
from openset.checks.evidence import ONLY, Chosen, Claim, Evidence, gathered, named
from openset.protocols import Protocol, load
from openset.results import Results
from openset.runs import Cell, read_cells, read_scores, results

LIMIT = 200
"""Number of sets of scores the checks read at most."""

_SAID = ("name", "headline", "thresholds", "claim", "tuned_on", "metrics")
_MANIFEST = "manifest.json"
_fail = partial(_check.fail, "checks.run_folder", error=ArtefactError)


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
    said, parts = (_json(folder / name) for name in ("study.json", "parts.json"))
    said = {} if said is None else said
    strange = sorted({*said} - {*_SAID}) if isinstance(said, dict) else ["no table"]
    if strange or not isinstance(parts, dict | None):
        got = ", ".join(strange) or "parts.json with no table"
        _fail(str(folder), f"a study, whose study.json holds {', '.join(_SAID)}", got)
    cells = read_cells(folder) if (folder / "cells").is_dir() else []
    labels = {cell.id: repr(cell) for cell in cells}
    tests, calibration = (_paths(folder / name) for name in ("scores", "calibration"))
    if cells:  # scores without a cell are of one that failed or still runs
        tests = {name: path for name, path in tests.items() if name in labels}
    step = 1 if limit is None else -(-len(tests) // limit)  # rounded up
    read = {name: tests[name] for name in list(tests)[:: max(step, 1)]}
    left_out = tests.keys() - read.keys() - {ONLY}
    content: dict[str, Any] = {
        "scores": {labels.get(n, n): read_scores(path) for n, path in read.items()},
        "calibration": {
            labels.get(name, name): read_scores(path)
            for name, path in calibration.items()
            if name not in left_out
        },
        "thresholds": {
            labels.get(name, name): one
            for name, one in _thresholds(folder, said.get("thresholds"), cells).items()
        },
        "protocols": _protocols(folder),
        "parts": parts,
    }
    if cells:  # the table beside them may be older
        content["results"] = results(folder)
    elif (folder / "results.csv").exists():
        content["results"] = Results.load(folder / "results.csv")
    # A title, and what to call metrics, are for readers; there is nothing to check.
    facts = {key: said[key] for key in ("headline", "claim", "tuned_on") if key in said}
    if not (facts or any(content.values())):
        rule = "a study (see help(openset.checks.run_folder) for its files)"
        _fail(str(folder), rule, "a folder with none of them")
    try:
        if isinstance(facts.get("claim"), dict):
            facts["claim"] = Claim(**facts["claim"])
        return gathered(**content, **facts, n_left_out=len(tests) - len(read))
    except (TypeError, ValueError) as error:
        msg = f"checks.run_folder: {folder}: {error}"
        raise ArtefactError(msg) from error


def _paths(folder: Path) -> dict[str, Path]:
    """Return the files of scores in a folder by name, in the order of their names."""
    paths: dict[str, Path] = {}
    for file in sorted(folder.glob("*"), key=lambda path: path.name):
        is_scores = file.suffix in {".npz", ".csv", ".parquet"}
        if is_scores and paths.setdefault(file.stem, file) != file:
            _fail(
                str(folder), "a folder with one file per name", f"{file.stem!r} twice"
            )
    return paths


def _thresholds(folder: Path, said: Any, cells: list[Cell]) -> dict[str, Chosen]:
    """Return the thresholds of a study by name.

    They come from ``study.json`` (numbers, records, or paths of the following two),
    ``thresholds/NAME.json`` (`Threshold.to_json`), ``rejectors/NAME/``
    (`Rejector.save`, ``openset calibrate``), a single folder ``rejector/`` for all
    scores, and cells. Two of one name must agree.
    """
    given = [
        (name, folder / one if isinstance(one, str) else one)
        for name, one in named(said).items()
    ]
    given += [(path.stem, path) for path in folder.glob("thresholds/*.json")]
    given += [(path.name, path) for path in folder.glob("rejectors/*/")]
    given += [(ONLY, path) for path in folder.glob("rejector/")]
    given += [(one.id, one.threshold) for one in cells if one.threshold is not None]
    found: dict[str, Chosen] = {}
    for name, one in given:
        try:
            chosen = Chosen.read(_record(one) if isinstance(one, Path) else one)
        except (KeyError, TypeError, ValueError) as error:
            _fail(
                f"{folder}: threshold {name!r}", "that of a file or number", repr(error)
            )
        if (first := found.get(name, chosen).value) != chosen.value:
            rule, got = f"one threshold of {name!r}", f"{first} and {chosen.value}"
            _fail(str(folder), rule, got)
        found[name] = chosen
    return found


def _record(path: Path) -> Any:
    """Read a threshold, or the one in the manifest of a rejector."""
    document = _json(path / _MANIFEST if path.is_dir() else path)
    if document is None or (path.is_dir() and "threshold" not in document):
        _fail(str(path), "a threshold or rejector", "none")
    return document["threshold"] if path.is_dir() else document


def _protocols(folder: Path) -> list[Protocol]:
    files = sorted(folder.glob("protocol*.json"), key=lambda file: file.name)
    found = [load(file) for file in files]
    return [p for one in found for p in ([one] if isinstance(one, Protocol) else one)]


def _json(path: Path) -> Any:
    """Read a file; None if there is none."""
    try:
        return json.loads(path.read_bytes()) if path.exists() else None
    except ValueError as error:
        msg = f"checks.run_folder: {path} is not JSON: {error}"
        raise ArtefactError(msg) from error
