"""The threshold for the group of unknowns it suits least."""

import numpy as np
import pytest

from openset import Scores, metrics, thresholds
from openset.thresholds.intervals import of_osa


def test_worst_group_tells_the_rate_of_the_threshold_it_gives():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(6, 20))
        labels = np.where(np.arange(n) < n // 2, 0, -1)
        scores = Scores(
            labels=labels,
            predicted=np.zeros(n, int),
            known=rng.integers(0, 5, n).astype(float),
            groups=rng.integers(0, 2, n),
        )
        for prefer in ("smallest", "highest", "widest"):
            found = thresholds.worst_group(scores, 0.5, prefer=prefer, at="middle")
            groups = [
                scores.take(~scores.is_unknown | (scores.groups == g))
                for g in np.unique(scores.groups[scores.is_unknown])
            ]
            rates = [metrics.Rates.at(one, found.value) for one in groups]
            hardest = min(rates, key=lambda one: round(one.osa(0.5), 12))
            assert found.rate.value == pytest.approx(hardest.osa(0.5))
            assert found.rate.interval == of_osa(hardest, 0.5)


def test_rejecting_all_may_be_best_for_every_group():
    scores = Scores(
        labels=[0, -1, -1], predicted=[1, 0, 0], known=[1, 3, 2], groups=["", "a", "b"]
    )
    found = thresholds.worst_group(scores)
    assert (found.value, found.interval.low) == (np.inf, 3.0)
    assert found.rate.value == 0.5
    by_osa = thresholds.worst_group(scores, criterion="osa")
    assert by_osa.value == np.inf
