"""Figures and tables for papers: the numbers first, then the drawing."""

from openset.report._draw import draw
from openset.report._operation import (
    OperatingCurve,
    OperatingCurves,
    operating_curves,
)
from openset.report._regions import Regions, confusion_regions
from openset.report.imbalance import (
    RandomScores,
    SampleCounts,
    random_scores,
    sample_counts,
)

__all__ = [
    "OperatingCurve",
    "OperatingCurves",
    "RandomScores",
    "Regions",
    "SampleCounts",
    "confusion_regions",
    "draw",
    "operating_curves",
    "random_scores",
    "sample_counts",
]
