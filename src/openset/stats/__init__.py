"""Statistical tests: two detectors, several folds or seeds, many methods."""

from openset.stats._compare import Comparison, compare
from openset.stats._compare_runs import RunComparison, compare_runs
from openset.stats._formats import latex_text
from openset.stats._leaderboard import Leaderboard, direction, leaderboard
from openset.stats._paired_t import CORRECTIONS, PairedTest, adjust, paired_t
from openset.stats._ranks import Ranks, ranks
from openset.stats._read_results import METRICS, read_results

__all__ = [
    "CORRECTIONS",
    "METRICS",
    "Comparison",
    "Leaderboard",
    "PairedTest",
    "Ranks",
    "RunComparison",
    "adjust",
    "compare",
    "compare_runs",
    "direction",
    "latex_text",
    "leaderboard",
    "paired_t",
    "ranks",
    "read_results",
]
