"""Figures and tables of results, and the report page.

Every display has `to_frame()` (its numbers), `plot()` (matplotlib: PNG, SVG, PDF) and
`svg()` (for web pages), and is shown as a figure in notebooks; `write` puts them all on
one page.
"""

from openset.report._critical_difference import critical_difference
from openset.report._curves import oscr, roc
from openset.report._display import Display
from openset.report._feature_magnitudes import feature_magnitudes
from openset.report._gallery import gallery
from openset.report._histogram import histogram
from openset.report._learning_curves import learning_curves, sensitivity
from openset.report._matplotlib import draw
from openset.report._metric_against_unknown_tpr import metric_against_unknown_tpr
from openset.report._osa_over_urr import osa_over_urr
from openset.report._page import render, write
from openset.report._regions import confusion_regions
from openset.report._rejection import per_class_rejection
from openset.report._risk_coverage import risk_coverage
from openset.report._sweeps import alpha_sweep, surrogate_sweep
from openset.report._watch_page import write_watch
from openset.report.imbalance import random_scores, sample_counts

__all__ = [
    "Display",
    "alpha_sweep",
    "confusion_regions",
    "critical_difference",
    "draw",
    "feature_magnitudes",
    "gallery",
    "histogram",
    "learning_curves",
    "metric_against_unknown_tpr",
    "osa_over_urr",
    "oscr",
    "per_class_rejection",
    "random_scores",
    "render",
    "risk_coverage",
    "roc",
    "sample_counts",
    "sensitivity",
    "surrogate_sweep",
    "write",
    "write_watch",
]
