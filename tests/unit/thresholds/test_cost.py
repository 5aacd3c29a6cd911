"""Costs of decisions."""

import numpy as np
import pytest

from openset import Scores, thresholds
from tests.unit.thresholds.makers import scattered


def test_prices_far_apart_are_added_up_exactly():
    scores = Scores(
        labels=[0, 1, -1, -1, -1, -1, -1],
        predicted=[0, 1, 1, 0, 1, 0, 1],
        known=[5, 2, 2, 2, 2, 1, 4],
    )
    prices = {"missed_unknown": 1e-9, "false_unknown": 1e9, "confusion": 3}
    found = thresholds.by_cost(scores, **prices, alpha=0.3)
    assert found.value == 2.0  # both knowns accepted, four of five unknowns missed
    assert found.rate.value == pytest.approx(0.7 * 4 / 5 * 1e-9, rel=1e-12)


@pytest.mark.parametrize("n_classes", [3, 400])
@pytest.mark.parametrize("alpha", [0.3, "counts"])
def test_the_least_cost_is_that_of_a_search_for_many_classes_too(n_classes, alpha):
    """Prices that differ by class, of few samples: each pair has a price of its own."""
    rng = np.random.default_rng(n_classes)
    n = 60
    labels = np.where(rng.random(n) < 0.6, rng.integers(0, n_classes, n), -1)
    scores = Scores(
        labels=labels,
        predicted=np.where(rng.random(n) < 0.6, np.maximum(labels, 0), n_classes - 1),
        known=rng.normal(size=n).round(1) + (labels >= 0),
    )
    matrix = rng.integers(0, 9, (n_classes + 1, n_classes + 1)) / 4
    share = scores.n_known / n if alpha == "counts" else alpha
    weight = np.where(
        scores.is_unknown, (1 - share) / scores.n_unknown, share / scores.n_known
    )

    def cost(value):
        decided = scores.decided(value)  # -1 reads the last column
        return float(weight @ matrix[scores.labels, decided])

    cuts = [np.inf, *np.unique(scores.known)]
    least = min(map(cost, cuts))
    found = thresholds.by_cost(scores, matrix, alpha=alpha)
    assert found.rate.value == pytest.approx(least)
    assert found.value == min(cut for cut in cuts if cost(cut) < least + 1e-12)
    assert found.alpha == pytest.approx(share)


def test_every_mistake_costs_one_by_default():
    scores = scattered(0, 60)
    chosen = thresholds.osa(scattered(1, 60))
    for alpha in (None, 0.2):
        share = 0.5 if alpha is None else alpha
        found = thresholds.cost(scores, chosen, alpha=alpha)
        assert found == pytest.approx(1 - chosen.rates(scores).osa(share))
    by_cost = thresholds.by_cost(scores)
    assert by_cost.rate.value == pytest.approx(1 - thresholds.osa(scores).rate.value)
