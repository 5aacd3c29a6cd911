"""Costs of decisions."""

import pytest

from openset import Scores, thresholds


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
