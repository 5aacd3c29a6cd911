"""The interval for a new kind of unknowns, against its formula."""

from math import hypot, sqrt

import numpy as np
import pytest
from scipy.stats import norm, t

from openset import thresholds
from openset.metrics import Rates
from openset.thresholds.new_kind import new_kind
from tests.unit.thresholds.makers import grouped


def by_formula(rates, kinds, alpha, level):
    """Kinds are (how many, how many of them rejected)."""
    z = [norm.ppf((rejected + 0.5) / (n + 1)) for n, rejected in kinds]
    k, mean = len(z), sum(z) / len(z)
    freedom = 3 + k - 1
    variance = (3 * 0.6**2 + sum((one - mean) ** 2 for one in z)) / freedom
    half = t.ppf((1 + level) / 2, freedom) * sqrt(variance * (1 + 1 / k))
    value, low, high = (
        alpha * rates.ccr + (1 - alpha) * norm.cdf(mean + step)
        for step in (0, -half, half)
    )
    spread = sqrt(1.5 * max(rates.ccr * (1 - rates.ccr), 0.01) / rates.n_known)
    noise = alpha * norm.ppf((1 + level) / 2) * spread
    low = max(0, value - hypot(value - low, noise))
    return value, low, min(1, value + hypot(high - value, noise))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("level", [0.5, 0.9])
@pytest.mark.parametrize(
    "kinds",
    [[(100, 90)], [(50, 0)], [(50, 50), (80, 10)], [(30, 29), (400, 380), (60, 55)]],
)
def test_it_is_what_the_formula_gives(kinds, alpha, level):
    scores = grouped(0)
    rates = Rates.at(scores, 1.0)
    n, rejected = np.array(kinds).T
    found = new_kind(rates.ccr, rates.n_known, n, rejected / n, alpha, level=level)
    expected = by_formula(rates, kinds, alpha, level)
    span = found.interval
    assert (found.value, span.low, span.high) == pytest.approx(expected, abs=1e-9)
    assert span.level == level
    assert 0 <= span.low <= found.value <= span.high <= 1


def test_the_ends_stay_between_nought_and_one():
    n = np.array([50])
    assert new_kind(1.0, 20, n, np.array([1.0]), 0.5).interval.high == 1
    assert new_kind(0.0, 20, n, np.array([0.0]), 0.5).interval.low == 0


@pytest.mark.parametrize("objective", ["osa", "per_class", "worst_group"])
def test_the_report_takes_the_kinds_and_their_rejected_samples(objective):
    scores = grouped(0)
    chosen = getattr(thresholds, objective)(scores, 0.3)
    found = thresholds.report(scores, chosen)
    rejected = ~chosen.accepts(scores)
    kinds = [
        (300, np.count_nonzero(rejected & (scores.groups == name)))
        for name in ("far", "near")
    ]
    rates = Rates.of(scores, ~rejected)
    value, low, high = by_formula(rates, kinds, 0.3, 0.9)
    span = found.new_kind.interval
    assert (found.new_kind.value, span.low, span.high) == pytest.approx(
        (value, low, high), abs=1e-9
    )
    assert f"{value:.2f}, between {low:.2f} and {high:.2f} (90%) on kinds like" in (
        str(found)
    )


def test_without_unknowns_nothing_is_said_of_a_new_kind():
    scores = grouped(0)
    known = scores.take(~scores.is_unknown)
    found = thresholds.report(known, thresholds.at_tpr(known, 0.9))
    assert (found.new_kind, found.kinds) == (None, ())
    assert "kinds like these" not in str(found)
