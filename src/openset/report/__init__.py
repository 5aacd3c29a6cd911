"""Figures and tables of results, and the report page.

Every display has `columns` and `to_frame()` (its numbers), `plot()` (matplotlib: PNG,
SVG, PDF) and `svg()` (for web pages), and is shown as a figure in notebooks; `write`
puts them all on one page.
"""

from openset.report.curves import oscr as oscr
from openset.report.curves import risk_coverage as risk_coverage
from openset.report.curves import roc as roc
from openset.report.decisions import confusion_matrix as confusion_matrix
from openset.report.decisions import per_class_rejection as per_class_rejection
from openset.report.display import Display as Display
from openset.report.histograms import feature_magnitudes as feature_magnitudes
from openset.report.histograms import histogram as histogram
from openset.report.operating import (
    metric_against_unknown_tpr as metric_against_unknown_tpr,
)
from openset.report.operating import osa_over_urr as osa_over_urr
from openset.report.page import write as write
from openset.report.settings import alpha_sweep as alpha_sweep
from openset.report.settings import critical_difference as critical_difference
from openset.report.settings import learning_curves as learning_curves
from openset.report.settings import sensitivity as sensitivity
