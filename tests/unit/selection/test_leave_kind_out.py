"""Candidates on a kind of unknowns that was left out, against plain loops."""

from dataclasses import replace

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores, thresholds
from openset.selection._candidates import Data
from openset.selection._leave_kind_out import Trial, ranked, trials_of, turns_of
from openset.thresholds.intervals import of_sum
from openset.thresholds.prices import Prices
from tests.unit.selection.makers import drawn, fitted_column


def data_of(shifts, *, n=40, alpha=0.4):
    known, surrogate = drawn(shifts, n=n)
    width = known.features.shape[1]
    named = {f"c{i}": fitted_column(i) for i in range(width)}
    data = Data.of(
        "test", named, known, surrogate, batch_size=None, alpha=alpha, by="both"
    )
    wrong = (data.labels[::7, None] + 1) % 3  # some are classified wrongly
    predicted = data.predicted.copy()
    predicted[::7] = wrong
    return replace(data, predicted=predicted)


TWO = {"a": (1, 2), "b": (2, 0)}


def generator(seed=0):
    return np.random.default_rng(seed)


def test_known_samples_are_in_folds_of_equal_size_and_each_group_is_left_out():
    data = data_of(TWO)
    turns = turns_of("me", data, 3, generator())
    assert sorted(np.bincount(turns.fold)) == [13, 13, 14]
    assert not (np.diff(turns.fold) >= 0).all()  # in random order
    assert (turns.names, turns.folds, turns.by_groups) == (("a", "b"), 3, True)
    np.testing.assert_array_equal(turns.place, data.place)


def test_unknowns_of_one_group_are_left_out_part_by_part():
    turns = turns_of("me", data_of({"a": (1, 2)}), 3, generator())
    assert turns.names == ("part 1", "part 2", "part 3")
    assert sorted(np.bincount(turns.place)) == [13, 13, 14]
    assert not turns.by_groups


def test_impossible_folds_are_named():
    data = data_of({"a": (1,)}, n=4)
    for folds in (1, 5):
        with pytest.raises(
            ValueError, match=f"^me: folds must be from 2 to 4.*{folds}"
        ):
            turns_of("me", data, folds, generator())
    assert turns_of("me", data, 4, generator()).folds == 4
    assert turns_of("me", data, 2, generator()).folds == 2
    few = replace(data, unknown=data.unknown[:2], place=data.place[:2])
    with pytest.raises(ValueError, match="surrogate must be at least 3 samples, or"):
        turns_of("me", few, 3, generator())
    assert turns_of("me", few, 2, generator()).folds == 2


def slow_trials(data, turns, d, prices):
    """Decide about one sample at a time; return hits, rejected and costs by group."""
    found = {}
    for g, name in enumerate(turns.names):
        hits, costs = {}, {}
        n_rejected = dict.fromkeys(np.flatnonzero(turns.place == g), 0)
        paid = dict.fromkeys(n_rejected, 0.0)
        for k in range(turns.folds):
            rows = [i for i in range(data.n_known) if turns.fold[i] != k]
            rest = [j for j in range(data.n_unknown) if turns.place[j] != g]
            scores = Scores(
                labels=[*data.labels[rows], *[-1] * len(rest)],
                predicted=[*data.predicted[rows, d], *[0] * len(rest)],
                known=[*data.known[rows, d], *data.unknown[rest, d]],
            )
            limit = thresholds.osa(scores, data.alpha).value
            for i in set(range(data.n_known)) - set(rows):
                is_right = data.predicted[i, d] == data.labels[i]
                is_accepted = data.known[i, d] >= limit
                hits[i] = is_accepted and is_right
                price = 0.0 if is_right else prices.confusion
                costs[i] = price if is_accepted else prices.false_unknown
            for j in n_rejected:
                is_rejected = data.unknown[j, d] < limit
                n_rejected[j] += is_rejected
                paid[j] += 0.0 if is_rejected else prices.missed_unknown
        found[name] = (
            [hits[i] for i in range(data.n_known)],
            [n / turns.folds for n in n_rejected.values()],
            [costs[i] for i in range(data.n_known)],
            [price / turns.folds for price in paid.values()],
        )
    return found


@pytest.mark.parametrize("folds", [2, 3])
def test_every_known_is_decided_about_once_and_every_unknown_in_each_fold(folds):
    data = data_of(TWO)
    turns = turns_of("me", data, folds, generator(folds))
    prices = Prices.of("me", missed_unknown=5, false_unknown=2, confusion=3)
    options = {"objectives": ["osa"], "options": None, "prices": prices}
    for d, name in enumerate(data.names):
        expected = slow_trials(data, turns, d, prices)
        for one in trials_of(data, turns, name, **options):
            assert (one.detector, one.objective) == (name, "osa")
            hits, rejected, of_known, of_unknown = expected.pop(one.group)
            np.testing.assert_array_equal(one.hits, hits)
            np.testing.assert_allclose(one.rejected, rejected)
            np.testing.assert_array_equal(one.cost_known, of_known)
            np.testing.assert_allclose(one.cost_unknown, of_unknown)
        assert not expected


def test_without_prices_nothing_is_paid():
    data = data_of(TWO)
    turns = turns_of("me", data, 2, generator())
    for one in trials_of(
        data, turns, "c0", objectives=["osa"], options=None, prices=None
    ):
        assert not one.cost_known.any()
        assert not one.cost_unknown.any()


def trial(hits, rejected, *, detector="d", group="a", costs=(0.0, 0.0)):
    return Trial(
        detector=detector,
        objective="osa",
        group=group,
        hits=np.array(hits, float),
        rejected=np.array(rejected, float),
        cost_known=np.full(len(hits), costs[0]),
        cost_unknown=np.full(len(rejected), costs[1]),
    )


def test_the_row_of_a_kind_has_its_rates_and_their_interval():
    one = trial([1, 0, 1, 1], [1, 0.5, 0, 1, 0.5], costs=(2.0, 3.0))
    row = one.cell(0.4, is_cost=True)
    assert (row["n"], row["ccr"], row["urr"]) == (5, 0.75, approx(0.6))
    assert row["oosa"] == approx(0.4 * 0.75 + 0.6 * 0.6)
    span = of_sum([(0.4, 3, 4), (0.6, 3, 5)])
    assert (row["low"], row["high"]) == (span.low, span.high)
    assert row["cost"] == approx(0.4 * 2 + 0.6 * 3)
    assert "cost" not in one.cell(0.4, is_cost=False)


def test_candidates_are_ranked_by_mean_and_worst_kind():
    data = data_of(TWO)
    first = [
        trial([1, 1, 1, 0], [1, 1, 1, 1], group="a"),
        trial([1, 1, 1, 0], [0, 0, 1, 1], group="b"),
    ]
    second = [
        trial([1, 0, 1, 0], [1, 1, 1, 1], group="a", detector="e"),
        trial([1, 0, 1, 0], [1, 1, 1, 0], group="b", detector="e"),
    ]
    rows = ranked([*first, *second], data, None)
    assert [row["detector"] for row in rows] == ["e", "d"]
    best, other = rows
    assert best["mean"] == approx((0.4 * 0.5 + 0.6) / 2 + (0.4 * 0.5 + 0.6 * 0.75) / 2)
    assert best["worst"] == approx(0.4 * 0.5 + 0.6 * 0.75)
    assert best["value"] == approx((best["mean"] + best["worst"]) / 2)
    assert (best["worst_group"], other["worst_group"]) == ("b", "b")
    # The knowns are the same for both kinds; each kind has half of the rest.
    span = of_sum([(0.4, 3, 4), (0.3, 4, 4), (0.3, 2, 4)])
    assert (other["mean_low"], other["mean_high"]) == approx((span.low, span.high))
    span = of_sum([(0.4, 3, 4), (0.6, 2, 4)])
    assert (other["worst_low"], other["worst_high"]) == approx((span.low, span.high))


def test_by_prices_the_cheapest_comes_first_and_its_dearest_kind_is_the_worst():
    data = data_of(TWO)
    prices = Prices.of("me", missed_unknown=5, false_unknown=2)
    trials = [
        trial([1], [1], detector=name, group=group, costs=(known, unknown))
        for name, group, known, unknown in (
            ("d", "a", 1.0, 2.0),
            ("d", "b", 1.0, 4.0),
            ("e", "a", 1.0, 3.0),
            ("e", "b", 1.0, 2.5),
        )
    ]
    cheap, dear = ranked(trials, data, prices)
    assert (cheap["detector"], dear["detector"]) == ("e", "d")
    assert (cheap["worst_group"], dear["worst_group"]) == ("a", "b")
    assert dear["mean"] == approx(0.4 * 1 + 0.6 * 3)
    assert dear["worst"] == approx(0.4 * 1 + 0.6 * 4)
    assert dear["value"] == approx(-(dear["mean"] + dear["worst"]) / 2 / 3.8)


def test_of_equals_the_first_listed_is_the_best():
    trials = [trial([1], [1], detector=name) for name in "cab"]
    rows = ranked(trials, data_of(TWO), None)
    assert [row["detector"] for row in rows] == ["c", "a", "b"]
