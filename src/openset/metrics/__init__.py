"""Metrics of open-set recognition: exact, also where scores are tied.

Higher knownness means more known; a sample is accepted iff ``known >= threshold``.
Ranking metrics take no threshold, the others do. A metric that is undefined on the
data raises `UndefinedMetricError`; it never returns 0 or NaN instead.

:func:`table` has a row for every number that is reported: its key, label, direction,
parameters. :func:`register` adds a metric of your own.
"""

from openset.metrics import counts, intervals
from openset.metrics.accumulator import Accumulator
from openset.metrics.at_threshold import (
    ccr,
    confusion,
    f_score,
    normalized_accuracy,
    osa,
    urr,
    youden,
)
from openset.metrics.curves import (
    OSACurve,
    OSCRCurve,
    Sweep,
    oosa,
    osa_curve,
    osa_optimum,
    oscr_curve,
    sweep,
)
from openset.metrics.evaluation import Evaluation, by_group, evaluate
from openset.metrics.imbalance import (
    halfpoint_score,
    imbalance_ratio,
    inner_score,
    outer_score,
    overall_score,
)
from openset.metrics.intervals import Interval, bootstrap
from openset.metrics.ranking import (
    acc_plus_auroc,
    acc_times_auroc,
    accuracy,
    aupr,
    auroc,
    ccr_at_fpr,
    error_at_tpr,
    fpr_at_tpr,
    openauc,
    partial_openauc,
)
from openset.metrics.rates import Rates
from openset.metrics.registry import Metric, get, names, register, sections, table
from openset.metrics.selective import (
    RiskCoverageCurve,
    augrc,
    aurc,
    oaa,
    risk_coverage_curve,
    scod_risk,
)
from openset.metrics.sketch import Bracket, Sketch

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
    "bootstrap",
    "by_group",
    "ccr",
    "ccr_at_fpr",
    "confusion",
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
