"""Intervals of shares, and of weighed sums of them."""

from collections.abc import Sequence
from math import sqrt

from openset.metrics import Interval
from openset.metrics.intervals import wilson

LEVEL = 0.95
"""Confidence of the interval that every threshold carries."""


def of_share(hits: int, n: int, level: float = LEVEL) -> Interval | None:
    """Wilson's interval, or None without samples."""
    return wilson(hits, n, level) if n else None


def of_sum(parts: Sequence[tuple[float, int, int]], level: float = LEVEL) -> Interval:
    """Interval of ``sum(weight * hits / n)`` over independent samples.

    The distances from each share to its Wilson ends are added as variances are
    (Zou and Donner, "Construction of confidence limits about effect measures",
    Statistics in Medicine 2008).
    """
    value = down = up = 0.0
    for weight, hits, n in parts:
        one, share = wilson(hits, n, level), hits / n
        value += weight * share
        down += (weight * (share - one.low)) ** 2
        up += (weight * (one.high - share)) ** 2
    low, high = value - sqrt(down), value + sqrt(up)
    return Interval(max(low, 0.0), min(high, 1.0), level, "Wilson, summed")
