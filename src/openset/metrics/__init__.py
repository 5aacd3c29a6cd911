"""Metrics of open-set recognition: exact, also where scores are tied.

Higher knownness means more known; a sample is accepted iff ``known >= threshold``.
Ranking metrics take no threshold, the others do. A metric that is undefined on the
data raises `UndefinedMetricError`; it never returns 0 or NaN instead.

:func:`table` has a row for every number that is reported: its key, label, direction,
parameters. :func:`register` adds a metric of your own.
"""

from openset.metrics import counts as counts
from openset.metrics import intervals as intervals
from openset.metrics.accumulator import Accumulator as Accumulator
from openset.metrics.at_threshold import ccr as ccr
from openset.metrics.at_threshold import confusion as confusion
from openset.metrics.at_threshold import f_score as f_score
from openset.metrics.at_threshold import normalized_accuracy as normalized_accuracy
from openset.metrics.at_threshold import osa as osa
from openset.metrics.at_threshold import urr as urr
from openset.metrics.at_threshold import youden as youden
from openset.metrics.curves import OSACurve as OSACurve
from openset.metrics.curves import OSCRCurve as OSCRCurve
from openset.metrics.curves import Sweep as Sweep
from openset.metrics.curves import oosa as oosa
from openset.metrics.curves import osa_curve as osa_curve
from openset.metrics.curves import osa_optimum as osa_optimum
from openset.metrics.curves import oscr_curve as oscr_curve
from openset.metrics.curves import sweep as sweep
from openset.metrics.evaluation import Evaluation as Evaluation
from openset.metrics.evaluation import by_group as by_group
from openset.metrics.evaluation import evaluate as evaluate
from openset.metrics.imbalance import halfpoint_score as halfpoint_score
from openset.metrics.imbalance import imbalance_ratio as imbalance_ratio
from openset.metrics.imbalance import inner_score as inner_score
from openset.metrics.imbalance import outer_score as outer_score
from openset.metrics.imbalance import overall_score as overall_score
from openset.metrics.intervals import Interval as Interval
from openset.metrics.ranking import acc_plus_auroc as acc_plus_auroc
from openset.metrics.ranking import acc_times_auroc as acc_times_auroc
from openset.metrics.ranking import accuracy as accuracy
from openset.metrics.ranking import aupr as aupr
from openset.metrics.ranking import auroc as auroc
from openset.metrics.ranking import ccr_at_fpr as ccr_at_fpr
from openset.metrics.ranking import error_at_tpr as error_at_tpr
from openset.metrics.ranking import fpr_at_tpr as fpr_at_tpr
from openset.metrics.ranking import openauc as openauc
from openset.metrics.ranking import partial_openauc as partial_openauc
from openset.metrics.rates import Rates as Rates
from openset.metrics.registry import Metric as Metric
from openset.metrics.registry import get as get
from openset.metrics.registry import names as names
from openset.metrics.registry import register as register
from openset.metrics.registry import sections as sections
from openset.metrics.registry import table as table
from openset.metrics.selective import RiskCoverageCurve as RiskCoverageCurve
from openset.metrics.selective import augrc as augrc
from openset.metrics.selective import aurc as aurc
from openset.metrics.selective import oaa as oaa
from openset.metrics.selective import risk_coverage_curve as risk_coverage_curve
from openset.metrics.selective import scod_risk as scod_risk
from openset.metrics.sketch import Bracket as Bracket
from openset.metrics.sketch import Sketch as Sketch
