"""Objectives of a threshold: what the contract and the exhaustive search leave out."""

import numpy as np
import pytest
from pytest import approx  # noqa: PT013
from scipy.stats import beta

from openset import Scores, thresholds
from openset.metrics import Rates
from openset.thresholds.threshold import of_osa
from tests.thresholds.makers import grouped, scattered


def knowns(values):
    n = len(values)
    return Scores(labels=[0] * n, predicted=[0] * n, known=values)


def test_accepting_all_leaves_no_lower_end():
    scores = scattered(0, 50)
    both = Scores(labels=[0, -1], predicted=[0, 0], known=[1.0, 2.0])
    for chosen in (
        thresholds.osa(scores, 1.0),
        thresholds.by_cost(scores, missed_unknown=0, confusion=0),
        thresholds.worst_group(scores, 1.0),
        thresholds.at_fpr(scores, 1.0),
        thresholds.at_tpr(both, 1.0),
    ):
        assert chosen.interval.low == -np.inf, chosen.method
        assert np.isfinite(chosen.value), chosen.method


def test_an_unknown_at_infinity_is_never_rejected():
    scores = Scores(
        labels=[0, 0, -1, -1, -1], predicted=[0] * 5, known=[4, 2, np.inf, 1, 0]
    )
    with pytest.raises(ValueError, match=r"fpr must be at least 0\.333333, the share"):
        thresholds.at_fpr(scores, 0.3)
    found = thresholds.at_fpr(scores, 0.4)
    assert (found.value, found.interval.low) == (2.0, 1.0)


def test_prices_far_apart_are_added_up_exactly():
    scores = Scores(
        labels=[0, 1, -1, -1, -1, -1, -1],
        predicted=[0, 1, 1, 0, 1, 0, 1],
        known=[5, 2, 2, 2, 2, 1, 4],
    )
    prices = {"missed_unknown": 1e-9, "false_unknown": 1e9, "confusion": 3}
    found = thresholds.by_cost(scores, **prices, alpha=0.3)
    assert found.value == 2.0  # both knowns accepted, four of five unknowns missed
    assert found.rate.value == approx(0.7 * 4 / 5 * 1e-9, rel=1e-12)


def test_worst_group_tells_the_rate_of_the_threshold_it_gives():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(6, 20))
        scores = Scores(
            labels=np.where(np.arange(n) < n // 2, 0, -1),
            predicted=np.zeros(n, int),
            known=rng.integers(0, 5, n).astype(float),
            groups=rng.integers(0, 2, n),
        )
        found = thresholds.worst_group(scores, 0.5)
        rates = [
            Rates.at(scores.take(~scores.is_unknown | mine), found.value)
            for g in np.unique(scores.groups[scores.is_unknown])
            for mine in [scores.groups == g]
        ]
        hardest = min(rates, key=lambda one: round(one.osa(0.5), 12))
        assert found.rate.value == approx(hardest.osa(0.5))
        assert found.rate.interval == of_osa(hardest, 0.5)


def test_rejecting_all_may_be_best_for_every_group():
    scores = Scores(
        labels=[0, -1, -1], predicted=[1, 0, 0], known=[1, 3, 2], groups=["", "a", "b"]
    )
    found = thresholds.worst_group(scores)
    assert (found.value, found.interval.low, found.rate.value) == (np.inf, 3.0, 0.5)


@pytest.mark.parametrize("n", [5, 19, 20, 60, 200])
@pytest.mark.parametrize("error_rate", [0.01, 0.05, 0.1, 0.5])
def test_the_rank_is_the_largest_that_keeps_the_promise(n, error_rate):
    rank = sum(r / (n + 1) <= error_rate + 1e-12 for r in range(1, n + 1))
    scores = knowns(np.arange(n, dtype=float))
    found = thresholds.conformal(scores, error_rate)
    assert found.value == (rank - 1 if rank else -np.inf)
    assert found.rate.value == approx(rank / (n + 1))
    if rank:
        span = found.rate.interval
        ends = beta.cdf([span.low, span.high], rank, n + 1 - rank)
        assert ends == approx([0.025, 0.975])
        assert found.interval == (rank - 2 if rank > 1 else -np.inf, rank - 1)
    else:
        assert found.rate.interval is None
        assert found.interval == (-np.inf, -np.inf)


def test_tied_knowns_are_rejected_together_or_not_at_all():
    scores = knowns([1.0, 2, 2, 2, 5, 6, 7, 8, 9])
    unknowns = Scores(labels=[-1] * 3, predicted=[0] * 3, known=[0.5, 3.0, 99.0])
    with_others = Scores.concat([scores, unknowns])  # which do not count
    for rank, low, value in ((1, -np.inf, 1), (2, 1, 2), (4, 1, 2), (5, 2, 5)):
        found = thresholds.conformal(scores, rank / 10)
        assert (found.interval.low, found.value) == (low, value)
        assert thresholds.conformal(with_others, rank / 10).value == value
        assert found.rate.value == approx(rank / 10)


def test_an_objective_is_named_with_options_or_is_a_function():
    scores = grouped(0)
    choose = thresholds.choose_by
    named = {
        "at_fpr:fpr=0.01": thresholds.at_fpr(scores, 0.01),
        "osa:alpha=counts": thresholds.osa(scores, "counts"),
        "by_cost:confusion=9": thresholds.by_cost(scores, confusion=9, alpha=0.3),
        "at_tpr": thresholds.at_tpr(scores),
        thresholds.conformal: thresholds.conformal(scores),
    }
    for text, expected in named.items():
        assert choose(text, scores, caller="me", alpha=0.3) == expected
    for bad, error, words in (
        ("best", ValueError, "objective must be one of 'osa'"),
        ("osa:fpr=0.1", ValueError, "an option of osa must be one of 'alpha', got"),
        ("at_fpr:fpr=much", ValueError, "fpr must be a number"),
        (lambda _: 0.5, TypeError, "a function from Scores to Threshold"),
    ):
        with pytest.raises(error, match=words):
            choose(bad, scores, caller="me")
    found = {n: thresholds.needs_unknowns(n) for n in ("at_fpr:fpr=0.1", "conformal")}
    assert list(found.values()) == [True, False]
    assert not thresholds.needs_unknowns(thresholds.osa)
