"""Thresholds against a slow search over every candidate, on tied and infinite data."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openset import Scores, thresholds
from tests.property.strategies import scores

RATES = st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.3, 0.5, 0.9, 0.95, 1.0])
# Weights whose shares are whole numbers, large ones, and ones beyond 64 bits.
WEIGHTS = [1 / 3, 0.123456789012, 0.12345678901234567]
ALPHAS = st.one_of(st.just("counts"), RATES, st.sampled_from(WEIGHTS))


def weight_of(made, alpha):
    if alpha == "counts":
        return Fraction(made.n_known, len(made))
    return Fraction(1, 3) if alpha == 1 / 3 else Fraction(str(alpha))


def candidates(made):
    """All thresholds that decide differently: every score, and "reject all"."""
    values = np.unique(made.known).tolist()
    if values[-1] != np.inf:
        values.append(np.inf)
    return values


def rate(made, mask, value):
    return Fraction(int((mask & (made.known >= value)).sum()), int(mask.sum()))


def osa_of(made, value, alpha):
    ccr = Fraction(int((made.is_correct & (made.known >= value)).sum()), made.n_known)
    return alpha * ccr + (1 - alpha) * (1 - rate(made, made.is_unknown, value))


@given(scores(), ALPHAS)
def test_osa_is_the_best_of_all_candidates_and_its_interval_is_all_of_it(made, alpha):
    weight = weight_of(made, alpha)
    values = {v: osa_of(made, v, weight) for v in candidates(made)}
    best = max(values.values())
    optimal = [v for v, value in values.items() if value == best]
    found = thresholds.osa(made, alpha)
    assert found.value == min(optimal)
    assert found.rate.value == pytest.approx(float(best))
    low, high = found.interval
    assert low < found.value <= high or found.value == low == -np.inf
    inside = [v for v in values if low < v <= high]
    assert set(inside) <= set(optimal)
    below = [v for v in values if v <= low < found.value]
    assert not below or osa_of(made, max(below), weight) < best


@given(scores(), RATES)
def test_at_fpr_is_the_smallest_candidate_that_keeps_the_rate(made, fpr):
    good = [
        v
        for v in candidates(made)
        if rate(made, made.is_unknown, v) <= Fraction(str(fpr))
    ]
    if not good:  # an unknown is +inf: nothing rejects it
        with pytest.raises(ValueError, match="fpr must be at least"):
            thresholds.at_fpr(made, fpr)
        return
    found = thresholds.at_fpr(made, fpr)
    assert found.value == min(good)
    assert found.rate.value == float(rate(made, made.is_unknown, found.value))


@given(scores(), RATES.filter(bool))
def test_at_tpr_is_the_largest_candidate_that_keeps_the_rate(made, tpr):
    good = [
        v
        for v in candidates(made)
        if rate(made, ~made.is_unknown, v) >= Fraction(str(tpr))
    ]
    found = thresholds.at_tpr(made, tpr)
    assert found.value == max(good)
    assert found.rate.value == float(rate(made, ~made.is_unknown, found.value))


COST = st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, 5.0, 1 / 3])


@given(scores(), ALPHAS, COST, COST, COST)
def test_by_cost_equals_an_exhaustive_search(made, alpha, missed, false, wrong):
    weight = weight_of(made, alpha)

    def cost(value):
        total = {True: Fraction(0), False: Fraction(0)}
        for label, is_correct, known in zip(
            made.labels.tolist(), made.is_correct, made.known, strict=True
        ):
            if label == -1:
                price = missed if known >= value else 0
            else:
                price = false if known < value else 0 if is_correct else wrong
            total[label == -1] += Fraction(str(price))
        known_side = weight * total[False] / made.n_known
        return known_side + (1 - weight) * total[True] / made.n_unknown

    costs = {v: cost(v) for v in candidates(made)}
    least = min(costs.values())
    names = ("missed_unknown", "false_unknown", "confusion")
    prices = dict(zip(names, (missed, false, wrong), strict=True))
    found = thresholds.by_cost(made, **prices, alpha=alpha)
    assert found.value == min(v for v, value in costs.items() if value == least)
    assert found.rate.value == pytest.approx(float(least), abs=1e-9)


@st.composite
def grouped(draw):
    made = draw(scores())
    names = draw(
        st.lists(st.sampled_from("ab"), min_size=len(made), max_size=len(made))
    )
    return Scores(
        labels=made.labels, predicted=made.predicted, known=made.known, groups=names
    )


@given(grouped(), ALPHAS)
def test_worst_group_equals_an_exhaustive_search(made, alpha):
    weight = weight_of(made, alpha)
    parts = [
        made.take(~made.is_unknown | (made.groups == name))
        for name in np.unique(made.groups[made.is_unknown])
    ]
    table = {v: [osa_of(part, v, weight) for part in parts] for v in candidates(made)}
    best_of = [max(column) for column in zip(*table.values(), strict=True)]

    def value(v):
        return -max(b - x for b, x in zip(best_of, table[v], strict=True))

    found = thresholds.worst_group(made, alpha)
    assert float(value(found.value)) == pytest.approx(float(max(map(value, table))))
