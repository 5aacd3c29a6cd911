"""All checks, in the order of their codes."""

from pathlib import Path
from typing import Any

from openset.checks import (
    _osr001,
    _osr002,
    _osr003,
    _osr004,
    _osr005,
    _osr006,
    _osr007,
    _osr008,
    _osr009,
    _osr010,
    _osr011,
    _osr012,
)
from openset.checks._evidence import Evidence
from openset.checks._finding import Check, Finding
from openset.checks._study_folder import LIMIT, read_folder

_MODULES = (
    _osr001,
    _osr002,
    _osr003,
    _osr004,
    _osr005,
    _osr006,
    _osr007,
    _osr008,
    _osr009,
    _osr010,
    _osr011,
    _osr012,
)
REGISTRY: dict[str, Check] = {module.CHECK.code: module.CHECK for module in _MODULES}


def run(**evidence: Any) -> list[Finding]:
    """Run every check on a study.

    Parameters
    ----------
    **evidence
        The fields of `Evidence`, all optional: ``scores, calibration, thresholds,
        results, protocols, parts, headline, claim, tuned_on``.

    Returns
    -------
    list of Finding
        One per check, in the order of their codes. A check that lacks what it looks
        at is "not applicable", which is neither praise nor blame.

    Examples
    --------
    >>> from openset.protocols import holdout
    >>> findings = run(protocols=holdout(10, 6, 4, repeats=5), headline="f_score")
    >>> [f.code for f in findings if f.is_finding]
    ['OSR001', 'OSR005']
    """
    return _all(Evidence(**evidence))


def run_folder(path: str | Path, *, limit: int | None = LIMIT) -> list[Finding]:
    """Run every check on a study folder, or on a run folder of ``openset bench``.

    A folder holds some of these, and the checks see what is there:

    * ``scores/NAME.npz`` (or ``.csv``, ``.parquet``): test scores;
    * ``calibration/NAME.npz``: the scores thresholds were chosen on; a single file
      ``calibration/scores.npz`` serves all;
    * ``rejectors/NAME/`` (``openset calibrate --out``), or ``thresholds/NAME.json``
      (`Threshold.to_json`): thresholds; a single ``rejector/`` serves all;
    * ``cells/ID.json``: finished cells of ``openset bench``; ID names their scores;
    * ``results.csv``: what `Results.save` writes;
    * ``protocol*.json``: protocols, or draws of several;
    * ``parts.json``: ``{"train": [sample ids], "test": [...]}``;
    * ``study.json``: ``headline``, ``thresholds`` (a number, a record or a path, for
      all or for each NAME), ``claim`` (a number, or ``{"difference": 0.01, "better":
      "a", "worse": "b", "metric": "openauc"}``) and ``tuned_on``.

    Parameters
    ----------
    path
        The folder.
    limit
        At most so many sets of scores are looked at, the same share of every network
        and detector, always the same ones; None for all. Results, protocols and the
        methods of thresholds are always looked at in full.
    """
    return _all(read_folder(path, limit=limit))


def _all(evidence: Evidence) -> list[Finding]:
    return [check(evidence) for check in REGISTRY.values()]
