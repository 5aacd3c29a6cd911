"""Options and views of thresholds that the common tests do not reach."""

from dataclasses import replace

import numpy as np
import pytest
from pytest import approx  # noqa: PT013
from scipy.stats import binom, norm

from openset import Scores, thresholds
from openset.thresholds.alpha import weight_of
from openset.thresholds.anchor import anchored_share
from openset.thresholds.prices import Prices
from tests.unit.thresholds.makers import grouped, scattered


def test_with_confidence_the_rank_is_the_largest_that_keeps_the_promise():
    scores = scattered(3)
    known = np.sort(scores.known[~scores.is_unknown])
    found = thresholds.conformal(scores, 0.1, confidence=0.9)
    # P(Beta(r, n + 1 - r) <= e) is P(Binomial(n, e) >= r).
    ranks = np.arange(1, known.size + 1)
    holds = binom.sf(ranks - 1, known.size, 0.1) >= 0.9
    assert found.value == known[np.count_nonzero(holds) - 1]


def test_shares_of_all_or_none_stay_at_a_finite_distance():
    assert anchored_share(1.0, 1.0, 3, anchor=1.0) == approx(0.99)
    assert anchored_share(0.0, 1.0, 3, anchor=0.0) == approx(0.01)
    assert anchored_share(1.0, 0.5, 2, anchor=0.8, strength=1.0) == approx(
        norm.cdf((2 * norm.ppf(0.99) + norm.ppf(0.4)) / 3)
    )


def test_what_one_side_costs_is_its_mean_price():
    scores = scattered(0)
    threshold = thresholds.osa(scattered(1))
    known = scores.take(~scores.is_unknown)
    of_each = np.where(known.known < threshold.value, 3.0, 2.0 * ~known.is_correct)
    prices = {"false_unknown": 3.0, "confusion": 2.0}
    assert thresholds.cost(known, threshold, **prices) == approx(of_each.mean())


def test_class_numbers_with_large_gaps_cost_what_small_ones_do():
    small = scattered(2)
    spread = Scores(
        labels=np.where(small.is_unknown, -1, small.labels * 100_000),
        predicted=small.predicted * 100_000,
        known=small.known,
    )
    prices = {"missed_unknown": 2.0, "false_unknown": 1.0, "confusion": 0.5}
    found = [thresholds.by_cost(scores, **prices) for scores in (small, spread)]
    assert found[0].value == found[1].value
    assert found[0].rate.value == found[1].rate.value


def test_an_operation_as_text_and_as_numbers():
    done = thresholds.operate(grouped(0), grouped(1))
    assert repr(done).startswith(f"Operation(oosa={done.oosa:.4f}, oracle=")
    numbers = done.to_dict()
    assert numbers["gap"] == done.gap
    assert numbers["threshold"] == done.threshold.value
    assert [row["group"] for row in numbers["groups"]] == ["far", "near"]


def test_a_weight_in_words_must_be_counts():
    with pytest.raises(ValueError, match=r"alpha must be .* or 'counts', got 'half'"):
        weight_of("osa", "half", scattered(0))


def test_the_worst_cost_and_the_side_that_weighs_more():
    prices = Prices.of("by_cost", missed_unknown=3.0, false_unknown=1.0)
    assert prices.worst(0.25) == 0.25 * 1 + 0.75 * 3
    assert prices.known_side(0.25) == 0.25 / 2.5
    free = Prices.of("by_cost", missed_unknown=0.0, false_unknown=0.0)
    assert free.worst(0.25) == 1.0
    assert free.known_side(0.25) == 0.25


def test_a_matrix_needs_a_row_for_every_class_of_the_scores():
    with pytest.raises(ValueError, match="at least 6, got shape"):
        thresholds.by_cost(scattered(0), np.ones((3, 3)) - np.eye(3))


def test_a_report_without_an_accuracy_does_not_mention_it():
    calibration = scattered(0)
    found = thresholds.report(calibration, thresholds.osa(calibration))
    assert "accuracy without rejection" in str(found)
    assert "accuracy without rejection" not in str(replace(found, accuracy=None))
