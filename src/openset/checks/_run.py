"""All checks, in the order of their codes."""

from collections.abc import Collection
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
from openset.checks._finding import Check, Finding
from openset.checks._folder import read_study
from openset.checks._study import Study

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


def run(**study: Any) -> list[Finding]:
    """Run every check on a study.

    Parameters
    ----------
    **study
        The fields of `Study`, all optional: ``scores, calibration, thresholds,
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
    return _all(Study(**study))


def run_folder(
    path: str | Path, *, names: Collection[str] | None = None
) -> list[Finding]:
    """Run every check on a study folder; of the scores look at `names` only, if given.

    A folder holds some of these, and the checks see what is there:

    * ``scores/NAME.npz`` (or ``.csv``, ``.parquet``): test scores;
    * ``calibration/NAME.npz``: the scores thresholds were chosen on; a single file
      ``calibration/scores.npz`` serves all;
    * ``results.csv``: what `Results.save` writes;
    * ``protocol*.json``: protocols, or draws of several;
    * ``parts.json``: ``{"train": [sample ids], "test": [...]}``;
    * ``study.json``: ``headline``, ``thresholds`` (a number, or one for each NAME),
      ``claim`` (a number, or ``{"difference": 0.01, "better": "a", "worse": "b",
      "metric": "openauc"}``) and ``tuned_on``.
    """
    return _all(read_study(path, names=names))


def _all(study: Study) -> list[Finding]:
    return [check(study) for check in REGISTRY.values()]
