"""Thresholds: where to cut a knownness, chosen on calibration data.

A sample is accepted iff ``known >= threshold``. Every objective takes calibration
scores, never test scores, and returns a `Threshold` that records how it was chosen.
`operate` applies it to a test set. To choose among detectors, see
:mod:`openset.selection`.
"""

from openset.thresholds._conformal import conformal
from openset.thresholds._cost import by_cost, cost
from openset.thresholds._fingerprint import Fingerprint
from openset.thresholds._objectives import (
    KNOWNS_ALONE,
    OBJECTIVES,
    Objective,
    check_options,
    choose_by,
)
from openset.thresholds._operation import (
    Operation,
    Point,
    operate,
    sweep_alpha,
    sweep_surrogate,
)
from openset.thresholds._osa import osa
from openset.thresholds._per_class import per_class
from openset.thresholds._rates import at_fpr, at_tpr
from openset.thresholds._report import Caution, Report, report
from openset.thresholds._table import Table
from openset.thresholds._threshold import Count, Rate, Span, Threshold
from openset.thresholds._worst_group import worst_group

__all__ = [
    "KNOWNS_ALONE",
    "OBJECTIVES",
    "Caution",
    "Count",
    "Fingerprint",
    "Objective",
    "Operation",
    "Point",
    "Rate",
    "Report",
    "Span",
    "Table",
    "Threshold",
    "at_fpr",
    "at_tpr",
    "by_cost",
    "check_options",
    "choose_by",
    "conformal",
    "cost",
    "operate",
    "osa",
    "per_class",
    "report",
    "sweep_alpha",
    "sweep_surrogate",
    "worst_group",
]
