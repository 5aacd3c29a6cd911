"""Reads a study folder: scores, thresholds, results, protocols, study.json."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from openset import _check
from openset._types import ArtefactError
from openset.checks.evidence import ONLY, Chosen, Claim, Evidence, named
from openset.protocols import Protocol, load
from openset.results import Results
from openset.runs import Cell, read_cells, results
from openset.scores import Scores

LIMIT = 200
"""Number of sets of scores the checks read at most."""

_SAID = ("name", "headline", "thresholds", "claim", "tuned_on", "metrics")
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
    are_tables = isinstance(said, dict) and isinstance(parts, dict)
    strange = sorted({*said} - {*_SAID}) if are_tables else ["no table"]
    if strange:
        rule = f"a study, whose study.json holds {', '.join(_SAID)}, parts.json parts"
        _fail(str(folder), rule, ", ".join(strange))
    cells = read_cells(folder) if (folder / "cells").is_dir() else []
    labels = {cell.id: repr(cell) for cell in cells}
    tests, calibration = (_paths(folder / name) for name in ("scores", "calibration"))
    if cells:  # scores without a cell are of one that failed or still runs
        tests = {name: path for name, path in tests.items() if name in labels}
    step = 1 if limit is None else -(-len(tests) // limit)  # rounded up
    read = {name: tests[name] for name in list(tests)[:: max(step, 1)]}
    left_out = tests.keys() - read.keys() - {ONLY}
    chosen_on = {n: path for n, path in calibration.items() if n not in left_out}
    by_id: dict[str, dict[str, Any]] = {
        "scores": {name: Scores.load(path) for name, path in read.items()},
        "calibration": {name: Scores.load(path) for name, path in chosen_on.items()},
        "thresholds": _thresholds(folder, said.get("thresholds"), cells),
    }
    content: dict[str, Any] = {
        kind: {labels.get(name, name): one for name, one in of.items()}
        for kind, of in by_id.items()
    }
    content |= {"protocols": _protocols(folder), "parts": parts}
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
        return Evidence(**content, **facts, n_left_out=len(tests) - len(read))
    except (TypeError, ValueError) as error:
        msg = f"checks.run_folder: {folder}: {error}"
        raise ArtefactError(msg) from error


def _paths(folder: Path) -> dict[str, Path]:
    """Return the files of scores in a folder by name, in the order of their names."""
    files = sorted(folder.glob("*"), key=lambda path: path.name)
    endings = (".npz", ".csv", ".parquet")
    return {file.stem: file for file in files if file.suffix in endings}


def _thresholds(folder: Path, said: Any, cells: list[Cell]) -> dict[str, Chosen]:
    """Return the thresholds of a study by name.

    They come from ``study.json`` (numbers or records), ``thresholds/NAME.json``
    (`Threshold.to_json`), ``rejectors/NAME/`` (`Rejector.save`, ``openset calibrate``),
    a single folder ``rejector/`` for all scores, and cells. Two of one name must agree.
    """
    given = [*named(said).items()]
    given += [(one.id, one.threshold) for one in cells if one.threshold is not None]
    given += [(path.stem, _json(path)) for path in folder.glob("thresholds/*.json")]
    manifests = [
        (path.parent.name, path) for path in folder.glob("rejectors/*/manifest.json")
    ]
    manifests += [(ONLY, path) for path in folder.glob("rejector/manifest.json")]
    given += [(name, _json(path).get("threshold")) for name, path in manifests]
    found: dict[str, Chosen] = {}
    for name, one in given:
        try:
            chosen = Chosen.read(one)
        except (KeyError, TypeError, ValueError) as error:
            rule = "that of a file or number"
            _fail(f"{folder}: threshold {name!r}", rule, repr(error))
        if (first := found.get(name, chosen).value) != chosen.value:
            rule, got = f"one threshold of {name!r}", f"{first} and {chosen.value}"
            _fail(str(folder), rule, got)
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
