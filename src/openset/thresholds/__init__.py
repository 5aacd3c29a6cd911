"""Thresholds on the knownness of samples, chosen on calibration data.

A sample is accepted iff ``known >= threshold``. Every objective takes calibration
scores, never test scores, and returns a `Threshold` that records how it was chosen;
:func:`objectives` lists them. :func:`report` describes a threshold on its calibration
samples, :func:`operate` applies it to a test set, :func:`prevalence` estimates the
share of unknown samples in operation. To choose among detectors, see
:mod:`openset.selection`.
"""

from openset.thresholds._anchored import anchored
from openset.thresholds._at_rate import at_fpr, at_tpr
from openset.thresholds._cautions import Caution
from openset.thresholds._conformal import conformal
from openset.thresholds._cost import by_cost, cost
from openset.thresholds._fingerprint import Fingerprint
from openset.thresholds._objectives import check_options, choose_by, objectives
from openset.thresholds._operation import (
    Operation,
    operate,
    sweep_alpha,
    sweep_surrogate,
)
from openset.thresholds._osa import osa
from openset.thresholds._per_class import per_class
from openset.thresholds._prevalence import (
    Expected,
    Prevalence,
    at_prevalence,
    prevalence,
)
from openset.thresholds._report import Report, report
from openset.thresholds._threshold import Threshold
from openset.thresholds._worst_group import worst_group

__all__ = [
    "Caution",
    "Expected",
    "Fingerprint",
    "Operation",
    "Prevalence",
    "Report",
    "Threshold",
    "anchored",
    "at_fpr",
    "at_prevalence",
    "at_tpr",
    "by_cost",
    "check_options",
    "choose_by",
    "conformal",
    "cost",
    "objectives",
    "operate",
    "osa",
    "per_class",
    "prevalence",
    "report",
    "sweep_alpha",
    "sweep_surrogate",
    "worst_group",
]
