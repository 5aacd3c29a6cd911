"""AURC, AUGRC, SCOD risk and OAA, against other code and worked by hand."""

import math

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores, UndefinedMetricError, metrics
from openset.metrics.intervals import replicates
from openset.metrics.sums import digamma_step


def draw(seed=0, n=400, *, decimals=None):
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 4, n)
    predicted = np.where(rng.random(n) < 0.7, np.maximum(labels, 0), 2)
    known = rng.normal(size=n) + (labels >= 0) + (labels == predicted)
    known = known if decimals is None else known.round(decimals)
    return Scores(labels=labels, predicted=predicted, known=known)


def is_error(scores):
    return ~scores.is_correct


def test_rounding_errors_do_not_add_up_over_many_ties():
    n, m = 100_000, 4
    rng = np.random.default_rng(0)
    scores = Scores(
        labels=np.where(rng.random(n) < 0.2, -1, 0),
        predicted=(rng.random(n) < 0.3).astype(int),
        known=np.repeat(np.arange(n // m), m)[::-1],
    )
    share = is_error(scores).reshape(-1, m).sum(axis=1).repeat(m)
    risks = np.cumsum(share) / m / np.arange(1, n + 1)
    assert metrics.aurc(scores) == approx(math.fsum(risks) / n, rel=0, abs=1e-15)


def test_sums_of_reciprocals_keep_all_digits():
    for low in (1, 2, 31, 32, 33, 40, 1000):
        for by in (1, 2, 7):
            expected = math.fsum(1 / (low + j) for j in range(by))
            found = digamma_step(np.array([float(low)]), np.array([float(by)]))
            rel = 2e-15 if low >= 32 else 1e-13
            assert found[0] == approx(expected, rel=rel, abs=0), (low, by)


def test_many_ties_in_many_samples_stay_exact():
    """Two levels of half a million samples: sums of harmonic numbers, no loop."""
    n = 500_000
    labels = np.repeat([0, -1, 0, -1], [n - 1, 1, 1, n - 1])
    known = np.repeat([1.0, 0.0], n)
    scores = Scores(labels=labels, predicted=np.zeros(2 * n, int), known=known)
    errors = np.append(np.arange(1, n + 1) / n, 1 + np.arange(1, n + 1) * (1 - 1 / n))
    expected = np.mean(errors / np.arange(1, 2 * n + 1))
    assert metrics.aurc(scores) == approx(expected, rel=1e-10)


def test_a_replicate_that_accepts_nothing_has_no_risk():
    scores = Scores(labels=[0, 0, -1, -1], predicted=[0] * 4, known=[4, 1, 1, 1])
    row = metrics.get("scod_risk")
    drawn = replicates(scores, {"it": row}, threshold=4.0, resamples=50)["it"]
    assert set(drawn) == {0.0}  # the best sample is right, or not drawn


def test_the_closed_set_forms_need_no_unknowns():
    scores = Scores(labels=[0, 0], predicted=[0, 1], known=[2, 1])
    assert metrics.aurc(scores, over="known") == 0.25
    for function in (metrics.aurc, metrics.augrc, metrics.risk_coverage_curve):
        with pytest.raises(UndefinedMetricError, match="undefined without unknown s"):
            function(scores)
        with pytest.raises(ValueError, match=r"over must be one of"):
            function(scores, over="unknown")
        with pytest.raises(UndefinedMetricError, match="undefined without known sam"):
            function(
                Scores(labels=[-1, -1], predicted=[0, 1], known=[2, 1]), over="known"
            )
    curve = metrics.risk_coverage_curve(
        Scores(labels=[-1, 0], predicted=[0, 1], known=[2, 1]), over="known"
    )
    assert curve.risk.tolist() == [1, 1, 1]
    assert curve.coverage.tolist() == [0, 0, 1]


def test_the_mean_of_oaa_over_coverages_is_given_by_augrc():
    scores = draw()
    curve = metrics.risk_coverage_curve(scores)
    values = [metrics.oaa(scores, t) for t in curve.thresholds]
    mean = np.diff(curve.coverage) @ (np.array(values[1:]) + values[:-1]) / 2
    expected = 0.5 + is_error(scores).mean() - 2 * metrics.augrc(scores)
    assert mean == approx(expected)
