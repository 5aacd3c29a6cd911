"""Is the difference real? Tests for two detectors, for folds, for many methods."""

from openset.metrics import bootstrap
from openset.stats._compare import Comparison, compare
from openset.stats._leaderboard import Entry, Leaderboard, direction, leaderboard
from openset.stats._paired_t import PairedTest, adjust, paired_t
from openset.stats._ranks import Ranks, ranks

__all__ = [
    "Comparison",
    "Entry",
    "Leaderboard",
    "PairedTest",
    "Ranks",
    "adjust",
    "bootstrap",
    "compare",
    "direction",
    "leaderboard",
    "paired_t",
    "ranks",
]
