"""Figures and tables for papers: the numbers first, then the drawing."""

from openset.report._draw import draw
from openset.report._regions import Regions, confusion_regions
from openset.report.imbalance import (
    RandomScores,
    SampleCounts,
    random_scores,
    sample_counts,
)

__all__ = [
    "RandomScores",
    "Regions",
    "SampleCounts",
    "confusion_regions",
    "draw",
    "random_scores",
    "sample_counts",
]
