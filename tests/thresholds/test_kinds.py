"""Rates against each kind of unknowns, and the interval for a new kind."""

from math import hypot, sqrt

import numpy as np
import pytest
from scipy.stats import norm, t

from openset import Scores, metrics, thresholds
from openset.thresholds.kinds import by_group, new_kind
from tests.thresholds.makers import grouped


@pytest.mark.parametrize("names", ["a", "ab", "abc"])
@pytest.mark.parametrize("highest", [3.0, np.inf])
def test_every_threshold_is_counted_for_every_group(names, highest, rng):
    labels = np.repeat([0, -1], [12, 15])
    known = rng.integers(0, 4, 27).astype(float)
    known[known == 3] = highest
    scores = Scores(
        labels=labels,
        predicted=rng.integers(0, 2, 27),
        known=known,
        groups=rng.choice(list(names), 27),
    )
    table = by_group(scores, 0.3)
    # A threshold of inf rejects all, unless a score is inf.
    finite = [value for value in (highest, 2.0, 1.0, 0.0) if value < np.inf]
    assert table.values.tolist() == [np.inf, *finite]
    assert table.names == tuple(names)
    for m, value in enumerate(table.values):
        assert table.ccr[m] == metrics.ccr(scores, value)
        assert table.tpr[m] == np.mean(known[labels == 0] >= value)
        of_each = table.rates(metrics.Rates.at(scores, value), value)
        for g, name in enumerate(names):
            mine = scores.take(~scores.is_unknown | (scores.groups == name))
            assert of_each[g] == metrics.Rates.at(mine, value)
            assert table.urr[g, m] == of_each[g].urr
            assert table.auroc[g] == pytest.approx(metrics.auroc(mine))
    osa = 0.3 * table.ccr + 0.7 * table.urr
    np.testing.assert_array_equal(table.osa, osa)
    np.testing.assert_array_equal(table.regret, osa.max(axis=1)[:, None] - osa)
    between = table.rates(metrics.Rates.at(scores, 1.5), 1.5)
    assert between == table.rates(metrics.Rates.at(scores, 2.0), 2.0)


def by_formula(ccr, n_known, kinds, alpha):
    """Kinds are (how many, how many of them rejected)."""
    z = [norm.ppf((rejected + 0.5) / (n + 1)) for n, rejected in kinds]
    k, mean = len(z), sum(z) / len(z)
    freedom = 3 + k - 1
    variance = (3 * 0.6**2 + sum((one - mean) ** 2 for one in z)) / freedom
    half = t.ppf(0.95, freedom) * sqrt(variance * (1 + 1 / k))
    value, low, high = (
        alpha * ccr + (1 - alpha) * norm.cdf(mean + step) for step in (0, -half, half)
    )
    noise = alpha * norm.ppf(0.95) * sqrt(1.5 * max(ccr * (1 - ccr), 0.01) / n_known)
    low = max(0, value - hypot(value - low, noise))
    return value, low, min(1, value + hypot(high - value, noise))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize(
    "kinds",
    [[(100, 90)], [(50, 0)], [(50, 50), (80, 10)], [(30, 29), (400, 380), (60, 55)]],
)
def test_the_interval_for_a_new_kind_is_what_the_formula_gives(kinds, alpha):
    n, rejected = np.array(kinds).T
    for ccr in (0.0, 0.8, 1.0):
        found = new_kind(ccr, 20, n, rejected / n, alpha)
        expected = by_formula(ccr, 20, kinds, alpha)
        span = found.interval
        assert (found.value, span.low, span.high) == pytest.approx(expected, abs=1e-9)
        assert 0 <= span.low <= found.value <= span.high <= 1
        assert (span.level, f"{len(kinds)} kind" in span.method) == (0.9, True)


def test_the_report_takes_the_users_groups_as_kinds():
    """Ten groups are ten kinds, however alike; synthetic ones are none beside real."""
    scores = grouped(0)
    made = np.where(scores.groups == "far", "synthetic:mixup", scores.groups)
    halves = np.char.add(scores.groups.astype(str), (np.arange(1200) % 2).astype(str))
    for names, kinds in (
        (scores.groups, ["far", "near"]),
        (made, ["near"]),
        (halves, ["far0", "far1", "near0", "near1"]),
        (np.full(1200, "synthetic:mixup"), ["synthetic:mixup"]),
    ):
        one = Scores(
            labels=scores.labels,
            predicted=scores.predicted,
            known=scores.known,
            groups=names,
        )
        chosen = thresholds.osa(one, 0.3)
        found = thresholds.report(one, chosen)
        rates = chosen.rates(one)
        masks = [one.is_unknown & (names == kind) for kind in kinds]
        counts = [(mask.sum(), (mask & ~chosen.accepts(one)).sum()) for mask in masks]
        span = found.new_kind.interval
        assert (found.new_kind.value, span.low, span.high) == pytest.approx(
            by_formula(rates.ccr, rates.n_known, counts, 0.3), abs=1e-9
        )
