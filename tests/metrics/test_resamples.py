"""The bootstrap draws samples or clusters, and needs two of each."""

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores, UndefinedMetricError, metrics


def two_detectors(seed=0, n=300, gap=0.5):
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, -1], n)
    predicted = np.where(rng.random(2 * n) < 0.9, 0, 1)
    signal = np.repeat([1.0, 0.0], n) + rng.normal(size=2 * n)
    a = Scores(labels=labels, predicted=predicted, known=signal)
    return a, a.with_known(signal + gap * rng.normal(size=2 * n))


def test_cluster_bootstrap_is_wider_when_samples_repeat():
    a, _ = two_detectors(n=60)
    rows = np.repeat(np.arange(120), 5)
    groups = rows  # each sample five times: five copies are one sample
    copied = Scores(
        labels=a.labels[rows],
        predicted=a.predicted[rows],
        known=a.known[rows],
        groups=groups,
    )

    def interval(scores, clusters=None):
        options = {"bootstrap": 300, "clusters": clusters}
        return metrics.evaluate(scores, metrics=["aupr"], **options).intervals["aupr"]

    naive, single = interval(copied), interval(a)
    honest = interval(copied, "groups")
    assert honest.high - honest.low > 1.8 * (naive.high - naive.low)
    assert honest.high - honest.low == approx(single.high - single.low, rel=0.2)


@pytest.mark.parametrize("n", [1, -1, True])
def test_evaluate_asks_for_two_resamples_or_none(n):
    scores = two_detectors()[0]
    with pytest.raises(ValueError, match=r"bootstrap must be an integer >= 2, got"):
        metrics.evaluate(scores, bootstrap=n)
    assert "fpr_at_tpr" not in metrics.evaluate(scores, bootstrap=0).intervals
    assert "fpr_at_tpr" in metrics.evaluate(scores, bootstrap=2).intervals


def test_one_cluster_a_side_tells_nothing_about_others():
    a, _ = two_detectors()
    groups = np.where(a.is_unknown, np.arange(600) % 9, 0)
    one = Scores(labels=a.labels, predicted=a.predicted, known=a.known, groups=groups)
    words = "got 1 known and 9 unknown groups"
    with pytest.raises(UndefinedMetricError, match=f"^evaluate: .*{words}"):
        metrics.evaluate(one, bootstrap=10, clusters="groups")
