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
    """Run every check on an evaluation.

    Parameters
    ----------
    **evidence
        What is known about the evaluation; all optional:

        * ``scores``: test scores, one `Scores` or several by name (of the detector);
        * ``calibration``: the scores thresholds were chosen on, one for all or by name;
        * ``thresholds``: a number, a `Threshold` or its `to_dict()`, or one per name;
        * ``results``: the reported numbers, as `Results`;
        * ``protocols``: which classes were known and unknown;
        * ``parts``: sample ids, ``{"train": [...], "test": [...]}``, or a `Cut`;
        * ``headline``: the metric the conclusions rest on;
        * ``claim``: a claimed difference, a number or a `Claim`;
        * ``tuned_on``: what hyper-parameters were chosen on, of `TUNED_ON`.

    Returns
    -------
    list of Finding
        One per check, in the order of their codes. A check that lacks its evidence is
        "not applicable".

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

    The folder holds some of these:

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
        Read at most this many sets of scores: the same share of every network and
        detector, and the same ones each time. None reads all of them. Results,
        protocols and the methods of thresholds are always read in full.
    """
    return _all(read_folder(path, limit=limit))


def _all(evidence: Evidence) -> list[Finding]:
    return [check(evidence) for check in REGISTRY.values()]
