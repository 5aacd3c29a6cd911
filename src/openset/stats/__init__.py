"""Is the difference real? Tests for two detectors, for folds, for many methods."""

from openset.metrics import bootstrap
from openset.stats._compare import Comparison, compare
from openset.stats._paired_t import PairedTest, adjust, paired_t

__all__ = [
    "Comparison",
    "PairedTest",
    "adjust",
    "bootstrap",
    "compare",
    "paired_t",
]
