"""Metrics of open-set recognition: exact, also where scores are tied.

Higher knownness means more known; a sample is accepted iff ``known >= threshold``.
Ranking metrics take no threshold, the others do. A metric that is undefined on the
data raises `UndefinedMetricError`; it never returns 0 or NaN instead.

:func:`table` has a row for every number that is reported: its key, label, direction,
parameters. :func:`register` adds a metric of your own.
"""

from openset.metrics import bins, consistency, counts, intervals
from openset.metrics._accumulator import Accumulator
from openset.metrics._accuracy import accuracy
from openset.metrics._aggregate import acc_plus_auroc, acc_times_auroc
from openset.metrics._at_rate import error_at_tpr, fpr_at_tpr
from openset.metrics._aupr import aupr
from openset.metrics._auroc import auroc
from openset.metrics._brackets import Bracket
from openset.metrics._confusion import confusion
from openset.metrics._evaluation import Evaluation, by_group, evaluate
from openset.metrics._fscore import f_score
from openset.metrics._imbalance import (
    halfpoint_score,
    imbalance_ratio,
    inner_score,
    outer_score,
    overall_score,
)
from openset.metrics._nacc import normalized_accuracy
from openset.metrics._oaa import oaa
from openset.metrics._openauc import openauc, partial_openauc
from openset.metrics._osa import OSACurve, ccr, oosa, osa, osa_curve, osa_optimum, urr
from openset.metrics._oscr import OSCRCurve, ccr_at_fpr, oscr_curve
from openset.metrics._rates import Rates
from openset.metrics._registry import Metric, get, names, register, sections, table
from openset.metrics._risk_coverage import (
    RiskCoverageCurve,
    augrc,
    aurc,
    risk_coverage_curve,
)
from openset.metrics._scod import scod_risk
from openset.metrics._sketch import Sketch
from openset.metrics._sweep import Sweep, sweep
from openset.metrics._youden import youden
from openset.metrics.intervals import Interval, bootstrap

__all__ = [
    "Accumulator",
    "Bracket",
    "Evaluation",
    "Interval",
    "Metric",
    "OSACurve",
    "OSCRCurve",
    "Rates",
    "RiskCoverageCurve",
    "Sketch",
    "Sweep",
    "acc_plus_auroc",
    "acc_times_auroc",
    "accuracy",
    "augrc",
    "aupr",
    "aurc",
    "auroc",
    "bins",
    "bootstrap",
    "by_group",
    "ccr",
    "ccr_at_fpr",
    "confusion",
    "consistency",
    "counts",
    "error_at_tpr",
    "evaluate",
    "f_score",
    "fpr_at_tpr",
    "get",
    "halfpoint_score",
    "imbalance_ratio",
    "inner_score",
    "intervals",
    "names",
    "normalized_accuracy",
    "oaa",
    "oosa",
    "openauc",
    "osa",
    "osa_curve",
    "osa_optimum",
    "oscr_curve",
    "outer_score",
    "overall_score",
    "partial_openauc",
    "register",
    "risk_coverage_curve",
    "scod_risk",
    "sections",
    "sweep",
    "table",
    "urr",
    "youden",
]
