"""The bound on rejected knowns, by counting and by the binomial distribution."""

import numpy as np
import pytest
from pytest import approx  # noqa: PT013
from scipy.stats import beta, binom

from openset import Scores, thresholds


def knowns(values):
    n = len(values)
    return Scores(labels=[0] * n, predicted=[0] * n, known=values)


@pytest.mark.parametrize("n", [5, 19, 20, 60, 200])
@pytest.mark.parametrize("error_rate", [0.01, 0.05, 0.1, 0.5])
@pytest.mark.parametrize("confidence", [None, 0.5, 0.9])
def test_the_rank_is_the_largest_that_keeps_the_promise(n, error_rate, confidence):
    """The r-th smallest rejects at most ε if r of n scores are of the lowest ε."""
    scores = knowns(np.arange(n, dtype=float))
    keeps = [
        r / (n + 1) <= error_rate + 1e-12
        if confidence is None
        else binom.sf(r - 1, n, error_rate) >= confidence
        for r in range(1, n + 1)
    ]
    rank = sum(keeps)
    assert keeps == [True] * rank + [False] * (n - rank)
    found = thresholds.conformal(scores, error_rate, confidence=confidence)
    assert found.value == (rank - 1 if rank else -np.inf)
    assert found.target == error_rate
    assert found.rate.value == approx(rank / (n + 1))
    if rank:
        span = found.rate.interval
        ends = beta.cdf([span.low, span.high], rank, n + 1 - rank)
        assert ends == approx([0.025, 0.975])
        assert (span.level, span.method) == (0.95, "Beta")
        assert found.interval == (rank - 2 if rank > 1 else -np.inf, rank - 1)
    else:
        assert found.rate.interval is None
        assert found.interval == (-np.inf, -np.inf)


def test_tied_knowns_are_rejected_together_or_not_at_all():
    scores = knowns([1.0, 2, 2, 2, 5, 6, 7, 8, 9])
    for rank, low, value in ((1, -np.inf, 1), (2, 1, 2), (4, 1, 2), (5, 2, 5)):
        found = thresholds.conformal(scores, rank / 10)
        assert (found.interval.low, found.value) == (low, value)
        assert found.rate.value == approx(rank / 10)


def test_unknowns_do_not_count():
    scores = Scores(
        labels=[0] * 19 + [-1] * 5,
        predicted=[0] * 24,
        known=[*range(19), -1.0, -2.0, 0.5, 3.5, 99.0],
    )
    found = thresholds.conformal(scores, 0.2)
    assert (found.value, found.interval.low, found.n) == (3.0, 2.0, (19, 5))
    assert thresholds.conformal(scores) == thresholds.conformal(scores, 0.05)
