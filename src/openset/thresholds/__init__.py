"""Thresholds on the knownness of samples, chosen on calibration data.

A sample is accepted iff ``known >= threshold``. Every objective takes calibration
scores, never test scores, and returns a `Threshold` that records how it was chosen;
:func:`objectives` lists them. :func:`report` describes a threshold on its calibration
samples, :func:`operate` applies it to a test set, :func:`prevalence` estimates the
share of unknown samples in operation. To choose among detectors, see
:mod:`openset.selection`.
"""

from openset.thresholds.by_name import check_options as check_options
from openset.thresholds.by_name import choose_by as choose_by
from openset.thresholds.by_name import needs_unknowns as needs_unknowns
from openset.thresholds.by_name import objectives as objectives
from openset.thresholds.calibration import Caution as Caution
from openset.thresholds.calibration import Report as Report
from openset.thresholds.calibration import report as report
from openset.thresholds.fingerprint import Fingerprint as Fingerprint
from openset.thresholds.objectives import at_fpr as at_fpr
from openset.thresholds.objectives import at_tpr as at_tpr
from openset.thresholds.objectives import by_cost as by_cost
from openset.thresholds.objectives import conformal as conformal
from openset.thresholds.objectives import osa as osa
from openset.thresholds.objectives import worst_group as worst_group
from openset.thresholds.operation import Operation as Operation
from openset.thresholds.operation import operate as operate
from openset.thresholds.threshold import Threshold as Threshold
from openset.thresholds.traffic import Expected as Expected
from openset.thresholds.traffic import Prevalence as Prevalence
from openset.thresholds.traffic import at_prevalence as at_prevalence
from openset.thresholds.traffic import prevalence as prevalence
