"""Runs all checks on an evaluation, or on the folder of one."""

from pathlib import Path
from typing import Any

from openset.checks import samples, statements  # noqa: F401  # they list their checks
from openset.checks.evidence import Evidence
from openset.checks.finding import Finding, findings
from openset.checks.folder import LIMIT, read_folder


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
        * ``parts``: sample ids, ``{"train": [...], "test": [...]}``;
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
    >>> found = run(protocols=holdout(10, 6, 4, repeats=5), headline="f_score")
    >>> [f.code for f in found if f.is_finding]
    ['OSR001', 'OSR005']
    """
    return findings(Evidence(**evidence))


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
    * ``study.json``: ``headline``, ``thresholds`` (a number or a record, for all or
      for each NAME), ``claim`` (a number, or ``{"difference": 0.01, "better":
      "a", "worse": "b", "metric": "openauc"}``) and ``tuned_on``.

    Parameters
    ----------
    path
        The folder.
    limit
        Read at most this many sets of scores, evenly spaced in the order of their
        names. None reads all of them. Results, protocols and the methods of thresholds
        are always read in full.
    """
    return findings(read_folder(Path(path), limit=limit))
