"""Confidence intervals of shares, and of weighted sums of shares."""

from collections.abc import Sequence
from math import sqrt

from openset.metrics import Interval, Rates
from openset.metrics.intervals import wilson

CONFIDENCE = 0.95
"""Confidence level of the intervals in thresholds, operations and choices."""


def of_share(hits: int, n: int) -> Interval | None:
    """Wilson's interval, or None without samples."""
    return wilson(hits, n, CONFIDENCE) if n else None


def of_osa(rates: Rates, alpha: float) -> Interval:
    """Interval of the open-set accuracy with this weight of the known samples."""
    return of_sum(
        [
            (alpha, rates.n_accepted_correct, rates.n_known),
            (1 - alpha, rates.n_rejected_unknown, rates.n_unknown),
        ]
    )


def of_sum(parts: Sequence[tuple[float, int, int]]) -> Interval:
    """Interval of ``sum(weight * hits / n)`` over independent sets of samples.

    `parts` are triples (weight, hits, n). The distances from each share to the ends of
    its Wilson interval are added as variances are (Zou and Donner, "Construction of
    confidence limits about effect measures", Statistics in Medicine 2008).
    """
    value = down = up = 0.0
    for weight, hits, n in parts:
        one, share = wilson(hits, n, CONFIDENCE), hits / n
        value += weight * share
        down += (weight * (share - one.low)) ** 2
        up += (weight * (one.high - share)) ** 2
    low, high = value - sqrt(down), value + sqrt(up)
    return Interval(max(low, 0.0), min(high, 1.0), CONFIDENCE, "Wilson, summed")
