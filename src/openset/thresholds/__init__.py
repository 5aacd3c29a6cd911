"""Thresholds: where to cut a knownness, chosen on calibration data, with their birth.

A sample is accepted iff ``known >= threshold``. Every way to choose takes calibration
scores, never the test's, and returns a `Threshold`. `operate` applies it to a test set;
`choose` picks detector and objective; `synthetic` makes unknowns where there are none.
"""

from openset.thresholds._choose import HEDGED, Choice, choose
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
from openset.thresholds._operate import (
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
from openset.thresholds._surrogate import (
    KINDS,
    leave_classes_out,
    synthetic,
    synthetic_like,
)
from openset.thresholds._table import Table
from openset.thresholds._threshold import Count, Rate, Span, Threshold
from openset.thresholds._worst_group import worst_group

__all__ = [
    "HEDGED",
    "KINDS",
    "KNOWNS_ALONE",
    "OBJECTIVES",
    "Caution",
    "Choice",
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
    "choose",
    "choose_by",
    "conformal",
    "cost",
    "leave_classes_out",
    "operate",
    "osa",
    "per_class",
    "report",
    "sweep_alpha",
    "sweep_surrogate",
    "synthetic",
    "synthetic_like",
    "worst_group",
]
