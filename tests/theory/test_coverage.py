"""Promised guarantees, by simulation: intervals cover, variances are unbiased.

The truth is known: knowns are N(1, 1), unknowns N(0, 1), and a known sample is named
rightly with a probability that grows with its score, so that accuracy and order are
tied together as they are in a network.
"""

import numpy as np
import pytest
from pytest import approx  # noqa: PT013
from scipy.stats import binomtest, norm

from openset import Scores, evaluate, stats

REPEATS = 1500


def draw(rng, n_known, n_unknown, *, decimals=None):
    known = rng.normal(1, 1, n_known)
    right = rng.random(n_known) < norm.cdf(known + 0.5)
    values = np.concatenate([known, rng.normal(0, 1, n_unknown)])
    return Scores(
        labels=np.repeat([0, -1], [n_known, n_unknown]),
        predicted=np.concatenate([np.where(right, 0, 1), np.zeros(n_unknown, int)]),
        known=values if decimals is None else values.round(decimals),
    )


@pytest.fixture(scope="module")
def truth():
    # Its error is a hundredth of the width of the intervals, or less.
    return evaluate(draw(np.random.default_rng(99), 400_000, 400_000))


@pytest.mark.parametrize(("n_known", "n_unknown"), [(60, 40), (200, 50)])
def test_95_percent_intervals_cover_95_percent(truth, n_known, n_unknown):
    rng = np.random.default_rng(1)
    hits = {"auroc": 0, "openauc": 0}
    for _ in range(REPEATS):
        scores = draw(rng, n_known, n_unknown)
        intervals = evaluate(scores, metrics=[*hits]).intervals
        for name in hits:
            hits[name] += name in intervals and truth[name] in intervals[name]
    for name, count in hits.items():
        assert count / REPEATS == approx(0.95, abs=0.015), name


def test_the_bootstrap_covers(truth):
    rng = np.random.default_rng(4)
    wanted = {"fpr_at_tpr": 0, "ccr_at_fpr_0.1": 0, "aupr": 0}
    repeats = 200
    for i in range(repeats):
        scores = draw(rng, 150, 150)
        for name in wanted:
            found = evaluate(scores, metrics=[name], bootstrap=200, rng=i)
            wanted[name] += truth[name] in found.intervals[name]
    # Quantile-like metrics are discrete: the percentile bootstrap is a bit short.
    for name, hits in wanted.items():
        assert 0.86 <= hits / repeats <= 0.995, name


@pytest.mark.parametrize(
    ("metric", "n", "decimals"),
    # Rounded scores: the bound of a partial area lies inside a step of many ties.
    [("openauc", (80, 60), None), ("partial_openauc", (200, 200), 0)],
)
def test_comparing_equals_rejects_five_percent(metric, n, decimals):
    """Two detectors of equal quality, correlated: p < 0.05 in 5 % of the data sets."""
    rng = np.random.default_rng(5)
    rejected = 0
    for _ in range(REPEATS):
        base = draw(rng, *n)
        known = [base.known + rng.normal(0, 0.7, sum(n)) for _ in range(2)]
        if decimals is not None:
            known = [one.round(decimals) for one in known]
        a, b = map(base.with_known, known)
        rejected += stats.compare(a, b, metric, resamples=200).p_value < 0.05
    assert binomtest(rejected, REPEATS, 0.05).pvalue > 1e-4


def test_wilson_intervals_cover():
    rng = np.random.default_rng(7)
    truth = 0.93
    hits = 0
    for _ in range(REPEATS):
        right = rng.random(80) < truth
        scores = Scores(
            labels=[0] * 80 + [-1],
            predicted=[*np.where(right, 0, 1), 0],
            known=np.zeros(81),
        )
        hits += truth in evaluate(scores).intervals["accuracy"]
    assert hits / REPEATS == approx(0.95, abs=0.03)
