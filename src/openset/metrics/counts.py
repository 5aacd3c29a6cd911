"""Shared counts, from which kernels of metrics and thresholds are computed."""

from openset.metrics._class_counts import ClassCounts, class_counts, positions
from openset.metrics._osa import optimum
from openset.metrics._ranking_counts import (
    BestLevel,
    Prefer,
    RankingCounts,
    best_level,
    ranking_counts,
)
from openset.metrics._weight import ALPHA, Alpha, weight_of

__all__ = [
    "ALPHA",
    "Alpha",
    "BestLevel",
    "ClassCounts",
    "Prefer",
    "RankingCounts",
    "best_level",
    "class_counts",
    "optimum",
    "positions",
    "ranking_counts",
    "weight_of",
]
