"""Statistical tests: two detectors, several folds or seeds, many methods."""

from openset.stats.boards import Leaderboard, direction, leaderboard
from openset.stats.friedman import Ranks, ranks
from openset.stats.same_runs import (
    CORRECTIONS,
    PairedTest,
    adjust,
    independent_runs,
    paired_t,
)
from openset.stats.same_samples import Comparison, compare
from openset.stats.score_files import METRICS, read_results
from openset.stats.tables import latex_text

__all__ = [
    "CORRECTIONS",
    "METRICS",
    "Comparison",
    "Leaderboard",
    "PairedTest",
    "Ranks",
    "adjust",
    "compare",
    "direction",
    "independent_runs",
    "latex_text",
    "leaderboard",
    "paired_t",
    "ranks",
    "read_results",
]
