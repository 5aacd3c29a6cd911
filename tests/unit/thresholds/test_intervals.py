"""Intervals of shares and of weighted sums of shares."""

from math import sqrt

import pytest
from pytest import approx  # noqa: PT013

from openset.metrics import Rates
from openset.metrics.intervals import wilson
from openset.thresholds.intervals import CONFIDENCE, of_osa, of_share, of_sum


def test_a_share_has_wilsons_interval_unless_it_is_of_nothing():
    assert of_share(3, 10) == wilson(3, 10, 0.95)
    assert of_share(0, 10) == wilson(0, 10, 0.95)
    assert of_share(0, 0) is None
    assert CONFIDENCE == 0.95


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.2, 0.8), (1.0, 0.0)])
def test_distances_to_the_ends_are_added_as_variances_are(weights):
    counts = [(30, 40), (17, 60)]
    parts = [(w, *count) for w, count in zip(weights, counts, strict=True)]
    value = down = up = 0.0
    for weight, hits, n in parts:
        span = wilson(hits, n, 0.95)
        value += weight * hits / n
        down += weight**2 * (hits / n - span.low) ** 2
        up += weight**2 * (span.high - hits / n) ** 2
    found = of_sum(parts)
    assert (found.low, found.high) == approx((value - sqrt(down), value + sqrt(up)))
    assert (found.level, found.method) == (0.95, "Wilson, summed")


def test_one_share_alone_has_its_own_interval():
    for hits in (0, 3, 10):
        found, alone = of_sum([(1.0, hits, 10)]), wilson(hits, 10, 0.95)
        assert (found.low, found.high) == approx((alone.low, alone.high))


def test_the_ends_of_a_sum_stay_between_nought_and_one():
    assert of_sum([(1.0, 10, 10), (1.0, 1, 10)]).high == 1.0
    assert of_sum([(-1.0, 10, 10), (0.5, 5, 10)]).low == 0.0


def test_the_accuracy_weighs_knowns_by_alpha():
    rates = Rates(
        n_known=40,
        n_unknown=60,
        n_correct=35,
        n_accepted_known=33,
        n_accepted_correct=30,
        n_rejected_unknown=17,
    )
    assert of_osa(rates, 0.2) == of_sum([(0.2, 30, 40), (0.8, 17, 60)])
    assert rates.osa(0.2) in of_osa(rates, 0.2)
