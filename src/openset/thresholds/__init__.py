"""Thresholds on the knownness of samples, chosen on calibration data.

A sample is accepted iff ``known >= threshold``. Every objective takes calibration
scores, never test scores, and returns a `Threshold` that records how it was chosen;
:func:`objectives` lists them. :func:`report` describes a threshold on its calibration
samples, :func:`operate` applies it to a test set, :func:`prevalence` estimates the
share of unknown samples in operation. To choose among detectors, see
:mod:`openset.selection`.
"""

from openset.thresholds.by_name import (
    check_options,
    choose_by,
    needs_unknowns,
    objectives,
)
from openset.thresholds.calibration import Caution, Report, report
from openset.thresholds.fingerprint import Fingerprint
from openset.thresholds.objectives import (
    at_fpr,
    at_tpr,
    by_cost,
    conformal,
    osa,
    worst_group,
)
from openset.thresholds.operation import Operation, operate
from openset.thresholds.threshold import Threshold
from openset.thresholds.traffic import Expected, Prevalence, at_prevalence, prevalence

__all__ = [
    "Caution",
    "Expected",
    "Fingerprint",
    "Operation",
    "Prevalence",
    "Report",
    "Threshold",
    "at_fpr",
    "at_prevalence",
    "at_tpr",
    "by_cost",
    "check_options",
    "choose_by",
    "conformal",
    "needs_unknowns",
    "objectives",
    "operate",
    "osa",
    "prevalence",
    "report",
    "worst_group",
]
