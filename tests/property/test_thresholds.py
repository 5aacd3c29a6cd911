"""Thresholds against a slow search over every candidate, on tied and infinite data."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import kolmogorov
from scipy.stats import norm

from openset import Scores, metrics, thresholds
from openset.thresholds import Threshold
from tests.property.strategies import scores

RATES = st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.3, 0.5, 0.9, 0.95, 1.0])
ALPHAS = st.one_of(st.none(), st.just("counts"), RATES)


def weight_of(made, alpha):
    if alpha is None:
        return Fraction(1, 2)
    if alpha == "counts":
        return Fraction(made.n_known, len(made))
    return Fraction(str(alpha))


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
    for prefer in ("smallest", "highest", "widest"):
        for at in ("score", "middle"):
            found = thresholds.osa(made, alpha, prefer=prefer, at=at)
            assert osa_of(made, found.value, weight) == best
            assert found.interval.low < found.value <= found.interval.high or (
                found.value == found.interval.low == -np.inf
            )
            assert found.rate.value == pytest.approx(float(best))
    optimal = [v for v, value in values.items() if value == best]
    assert thresholds.osa(made, alpha).value == min(optimal)
    assert thresholds.osa(made, alpha, prefer="highest").value == max(optimal)


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
    middle = thresholds.at_fpr(made, fpr, at="middle")
    np.testing.assert_array_equal(middle.accepts(made), found.accepts(made))


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
    middle = thresholds.at_tpr(made, tpr, at="middle")
    np.testing.assert_array_equal(middle.accepts(made), found.accepts(made))


COST = st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, 5.0, 1 / 3])


@st.composite
def scores_and_costs(draw):
    made = draw(scores())
    size = int(made.classes.max()) + 2
    flat = draw(st.lists(COST, min_size=size**2, max_size=size**2))
    return made, np.reshape(flat, (size, size))


@given(scores_and_costs(), ALPHAS)
def test_by_cost_equals_an_exhaustive_search(drawn, alpha):
    made, matrix = drawn

    def cost(value):
        total = {True: Fraction(0), False: Fraction(0)}
        for label, predicted, known in zip(
            made.labels.tolist(), made.predicted.tolist(), made.known, strict=True
        ):
            column = predicted if known >= value else -1
            total[label == -1] += Fraction(str(matrix[label, column]))
        if alpha == "counts":
            return sum(total.values()) / len(made)
        share = weight_of(made, alpha)
        known_side = share * total[False] / made.n_known
        return known_side + (1 - share) * total[True] / made.n_unknown

    costs = {v: cost(v) for v in candidates(made)}
    least = min(costs.values())
    for prefer in ("smallest", "highest", "widest"):
        found = thresholds.by_cost(made, matrix, alpha=alpha, prefer=prefer)
        assert float(cost(found.value)) == pytest.approx(float(least), abs=1e-12)
        assert found.rate.value == pytest.approx(float(least), abs=1e-9)
    optimal = [v for v, value in costs.items() if value == least]
    assert thresholds.by_cost(made, matrix, alpha=alpha).value == min(optimal)


@given(scores_and_costs(), scores(), ALPHAS)
def test_the_cost_of_a_threshold_is_that_of_its_decisions(drawn, other, alpha):
    made, matrix = drawn
    threshold = thresholds.osa(other)
    rows = [
        (label < 0, matrix[label, predicted if known >= threshold.value else -1])
        for label, predicted, known in zip(
            made.labels, made.predicted, made.known, strict=True
        )
    ]
    sides = [np.mean([c for u, c in rows if u == side]) for side in (False, True)]
    expected = np.mean([c for _, c in rows])
    if alpha != "counts":
        share = float(weight_of(made, alpha))
        expected = share * sides[0] + (1 - share) * sides[1]
    fresh = dataclasses.replace(threshold, fingerprint=None)
    found = thresholds.cost(made, fresh, matrix, alpha=alpha)
    assert found == pytest.approx(expected, abs=1e-12)


@given(scores(), ALPHAS)
def test_equal_costs_give_the_threshold_of_open_set_accuracy(made, alpha):
    by_cost = thresholds.by_cost(made, alpha=alpha)
    assert by_cost.value == thresholds.osa(made, alpha).value
    share = alpha if alpha == "counts" else float(weight_of(made, alpha))
    best = metrics.osa_optimum(made, alpha=share).value
    assert by_cost.rate.value == pytest.approx(1 - best)


@st.composite
def grouped(draw):
    made = draw(scores())
    names = draw(
        st.lists(st.sampled_from("ab"), min_size=len(made), max_size=len(made))
    )
    return Scores(
        labels=made.labels, predicted=made.predicted, known=made.known, groups=names
    )


@given(grouped(), ALPHAS, st.sampled_from(["regret", "osa"]))
def test_worst_group_equals_an_exhaustive_search(made, alpha, criterion):
    weight = weight_of(made, alpha)
    parts = [
        made.take(~made.is_unknown | (made.groups == name))
        for name in np.unique(made.groups[made.is_unknown])
    ]
    table = {v: [osa_of(part, v, weight) for part in parts] for v in candidates(made)}
    best_of = [max(column) for column in zip(*table.values(), strict=True)]

    def value(v):
        if criterion == "osa":
            return min(table[v])
        return -max(b - x for b, x in zip(best_of, table[v], strict=True))

    found = thresholds.worst_group(made, alpha, criterion=criterion)
    assert float(value(found.value)) == pytest.approx(float(max(map(value, table))))


@given(scores(), ALPHAS)
def test_thresholds_per_class_that_stand_alone_are_best_for_each_class(made, alpha):
    weight = weight_of(made, alpha)
    found = thresholds.per_class(made, alpha, strength=0)

    def gain(c, value):
        mine = (made.predicted == c) & (made.known >= value)
        hits = Fraction(int((mine & made.is_correct).sum()), made.n_known)
        missed = Fraction(int((mine & made.is_unknown).sum()), made.n_unknown)
        return weight * hits - (1 - weight) * missed

    for c in np.unique(made.predicted).tolist():
        best = max(gain(c, v) for v in candidates(made))
        assert float(gain(c, found.per_class[c])) == pytest.approx(float(best))
    one = thresholds.osa(made, alpha)
    assert found.rate.value >= one.rate.value - 1e-12
    total = thresholds.per_class(made, alpha, strength=np.inf)
    assert set(total.per_class) == {one.value}


@given(scores())
def test_a_threshold_per_class_decides_the_same_as_a_cut_of_margins(made):
    found = thresholds.per_class(made, strength=1)
    cut, value = found.cut(made)
    np.testing.assert_array_equal(cut.decided(value), found.decide(made))


@given(scores(), st.sampled_from(["osa", "at_tpr", "per_class", "conformal"]))
def test_json_gives_back_the_same_threshold(made, name):
    found = getattr(thresholds, name)(made)
    assert Threshold.from_json(found.to_json()) == found


@given(scores(max_side=40), st.sampled_from([0.01, 0.05, 0.1, 0.5]))
def test_conformal_is_the_largest_threshold_whose_bound_holds(made, level):
    n = made.n_known
    known = np.sort(made.known[~made.is_unknown])
    found = thresholds.conformal(made, level)
    allowed = [r for r in range(n + 1) if Fraction(r, n + 1) <= Fraction(str(level))]
    expected = known[max(allowed) - 1] if max(allowed) else -np.inf
    assert found.value == expected


def kinds_by_hand(made):
    """Masks of the kinds of unknowns: connected groups that do not differ."""
    masks = [
        made.is_unknown & (made.groups == name)
        for name in np.unique(made.groups[made.is_unknown])
    ]
    n_pairs = max(len(masks) * (len(masks) - 1) // 2, 1)

    def differ(a, b):
        x, y = made.known[a], made.known[b]
        distance = max(
            abs(np.mean(x <= v) - np.mean(y <= v)) for v in np.append(x, y).tolist()
        )
        size = x.size * y.size / (x.size + y.size)
        return kolmogorov(np.sqrt(size) * distance) < 0.01 / n_pairs

    kinds = []
    for mask in masks:
        same = [
            i for i, kind in enumerate(kinds) if any(not differ(mask, m) for m in kind)
        ]
        kinds = [
            *(kind for i, kind in enumerate(kinds) if i not in same),
            [mask, *(m for i in same for m in kinds[i])],
        ]
    return [np.any(kind, axis=0) for kind in kinds]


@given(
    grouped(),
    ALPHAS,
    st.sampled_from([0.3, 0.8, 1.0]),
    st.sampled_from([0.0, 0.5, 2.0, 1000.0]),
)
def test_anchored_is_the_candidate_nearest_to_the_share_between(
    made, alpha, anchor, strength
):
    weight, kinds = weight_of(made, alpha), kinds_by_hand(made)

    def osa(value):
        correct = int((made.is_correct & (made.known >= value)).sum())
        rejected = sum(1 - rate(made, kind, value) for kind in kinds) / len(kinds)
        return weight * Fraction(correct, made.n_known) + (1 - weight) * rejected

    found = thresholds.anchored(made, alpha, anchor=anchor, strength=strength)
    cuts = candidates(made)
    values = [osa(v) for v in cuts]
    best = min(v for v, value in zip(cuts, values, strict=True) if value == max(values))
    accuracy = made.is_correct.sum() / made.n_known
    ends = [
        norm.ppf(min(max(share, 0.01), 0.99))
        for share in (anchor * accuracy, float(rate(made, ~made.is_unknown, best)))
    ]
    k = len(kinds)
    wanted = norm.cdf((strength * ends[0] + k * ends[1]) / (strength + k))

    def distance(value):
        return abs(float(rate(made, ~made.is_unknown, value)) - wanted)

    if strength == 0:
        assert found.value == best
    else:
        assert distance(found.value) <= min(map(distance, cuts)) + 1e-12
        mine = rate(made, ~made.is_unknown, found.value)
        assert found.value == max(
            v for v in cuts if rate(made, ~made.is_unknown, v) == mine
        )
    assert found.rate.value == pytest.approx(float(osa_of(made, found.value, weight)))
    assert (found.alpha, found.target) == (float(weight), anchor)
    if np.isfinite(found.interval.low):  # all thresholds inside decide the same
        inside = np.nextafter(found.interval.low, np.inf)
        np.testing.assert_array_equal(
            made.known >= min(inside, found.value), found.accepts(made)
        )
