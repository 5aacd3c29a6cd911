"""The share of unknowns in operation, and what a rejection means there."""

from dataclasses import replace

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import UndefinedMetricError
from openset.metrics import Rates
from openset.metrics.intervals import wilson
from openset.thresholds import at_prevalence, prevalence

RATES = Rates(
    n_known=500,
    n_unknown=100,
    n_correct=480,
    n_accepted_known=490,
    n_accepted_correct=475,
    n_rejected_unknown=90,
)


def test_expectations_are_shares_of_samples():
    """Of 100 000 samples 5 000 are unknown: counted in whole samples."""
    known, unknown = 95_000, 5_000
    found = at_prevalence(RATES, 0.05)
    false_unknown, hits = known // 50, unknown * 9 // 10
    assert found.rejected == approx((false_unknown + hits) / 100_000)
    assert found.unknown_precision == approx(hits / (hits + false_unknown))
    right, accepted = known * 475 // 500, known * 49 // 50 + unknown // 10
    assert found.accepted_precision == approx(right / accepted)


def test_where_nothing_is_rejected_or_accepted_there_is_no_precision():
    all_in = replace(RATES, n_accepted_known=500, n_rejected_unknown=0)
    assert at_prevalence(all_in, 0.5).unknown_precision is None
    none_in = replace(
        RATES, n_accepted_known=0, n_accepted_correct=0, n_rejected_unknown=100
    )
    assert at_prevalence(none_in, 0.5).accepted_precision is None


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
def test_the_estimate_inverts_the_rejected_share(share):
    rejected = at_prevalence(RATES, share).rejected
    found = prevalence(round(rejected * 100_000), 100_000, RATES)
    assert found.value == approx(share, abs=1e-5)
    assert found.interval.low <= found.value <= found.interval.high
    assert found.expected.prevalence == found.value
    assert (found.at_low.prevalence, found.at_high.prevalence) == (
        found.interval.low,
        found.interval.high,
    )
    assert found.is_plausible


@pytest.mark.parametrize("n_rejected", [3, 30, 64, 500, 930])
def test_the_interval_holds_what_a_test_does_not_reject(n_rejected):
    """A slow grid of shares instead of a quadratic."""
    n = 1000
    counts = ((n_rejected, n), (10, 500), (90, 100))
    q, f, u = (count / size for count, size in counts)
    low, high = np.array([[(i := wilson(*c, 0.95)).low, i.high] for c in counts]).T
    pi = np.linspace(0, 1, 100_001)
    gap = q - (1 - pi) * f - pi * u
    down = (q - low[0]) ** 2
    down = down + (1 - pi) ** 2 * (high[1] - f) ** 2 + pi**2 * (high[2] - u) ** 2
    up = (high[0] - q) ** 2
    up = up + (1 - pi) ** 2 * (f - low[1]) ** 2 + pi**2 * (u - low[2]) ** 2
    kept = pi[(gap - np.sqrt(down) <= 0) & (gap + np.sqrt(up) >= 0)]
    found = prevalence(n_rejected, n, RATES)
    if kept.size:
        ends = (found.interval.low, found.interval.high)
        assert ends == approx((kept.min(), kept.max()), abs=2e-5)
    assert found.is_plausible == (kept.size > 0)


def test_samples_unlike_the_calibration_are_not_explained():
    strict = replace(RATES, n_accepted_known=250, n_accepted_correct=240)
    found = prevalence(10, 1000, strict)  # half of the knowns were rejected before
    assert not found.is_plausible
    assert (found.value, found.interval.low, found.interval.high) == (0, 0, 0)
    assert "no share of unknowns" in str(found)
    lax = replace(RATES, n_rejected_unknown=50)
    found = prevalence(900, 1000, lax)  # of unknowns, too, one half was rejected
    assert not found.is_plausible
    assert (found.value, found.interval.low, found.interval.high) == (1, 1, 1)


def test_it_reads_as_a_sentence_and_is_plain_data():
    found = prevalence(64, 1000, RATES)
    low, high = found.interval.low, found.interval.high
    ends = [at_prevalence(RATES, one).unknown_precision for one in (low, high)]
    assert str(found) == (
        f"about 5.0% of the samples are unknown ({low:.1%} to {high:.1%}), if they are "
        "like those of the calibration; of the rejected ones, 70% are unknown "
        f"({ends[0]:.0%} to {ends[1]:.0%})"
    )
    document = found.to_dict()
    assert document["value"] == found.value
    assert document["expected"]["unknown_precision"] == approx(0.703, abs=1e-3)


def test_where_nothing_or_everything_is_rejected():
    perfect = replace(RATES, n_accepted_known=500)
    none = prevalence(0, 1000, perfect)
    assert (none.value, none.expected.unknown_precision) == (0, None)
    assert none.at_high.unknown_precision == 1
    assert "of the rejected ones" not in str(none)
    every = prevalence(1000, 1000, replace(RATES, n_rejected_unknown=100))
    assert (every.value, every.interval.high) == (1, 1)


def test_rates_that_do_not_tell_knowns_from_unknowns():
    half = replace(RATES, n_accepted_known=250, n_rejected_unknown=50)
    for worse in (half, replace(RATES, n_rejected_unknown=1)):
        with pytest.raises(UndefinedMetricError, match="rejected no more often"):
            prevalence(5, 100, worse)
    barely = Rates(
        n_known=10,
        n_unknown=10,
        n_correct=9,
        n_accepted_known=6,
        n_accepted_correct=6,
        n_rejected_unknown=5,
    )
    found = prevalence(45, 100, barely)
    assert (found.interval.low, found.interval.high) == (0, 1)
    with pytest.raises(UndefinedMetricError, match="without unknown samples"):
        prevalence(5, 100, replace(RATES, n_unknown=0, n_rejected_unknown=0))


def test_bad_counts_are_named():
    with pytest.raises(ValueError, match="n_rejected must be at most n = 5, got 6"):
        prevalence(6, 5, RATES)
    with pytest.raises(ValueError, match="prevalence must be a number in"):
        at_prevalence(RATES, 1.5)
    for level in (0, 1, 1.5):
        with pytest.raises(ValueError, match=r"^thresholds.prevalence: level must be"):
            prevalence(5, 100, RATES, level=level)
