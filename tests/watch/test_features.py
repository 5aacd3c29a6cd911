"""The maximum mean discrepancy: against all pairs and all splits."""

from itertools import combinations

import numpy as np
import pytest

from openset.watch import mmd


def slow_discrepancy(first, second):
    """Compute the squared MMD by loops over pairs."""
    rows = [*first, *second]
    pairs = [((a - b) ** 2).sum() for a, b in combinations(rows, 2)]
    width = np.median(pairs)

    def mean(left, right):
        values = [np.exp(-((a - b) ** 2).sum() / width) for a in left for b in right]
        return np.mean(values)

    return mean(first, first) + mean(second, second) - 2 * mean(first, second)


def test_the_discrepancy_is_that_of_all_pairs_and_its_p_value_that_of_all_splits(rng):
    first, second = rng.normal(size=(6, 3)), rng.normal(0.9, 1, size=(4, 3))
    found = mmd(first, second, limit=0.0005)
    squared = slow_discrepancy(first, second)
    assert found.distance == pytest.approx(np.sqrt(squared))
    pooled = np.concatenate([first, second])
    splits = [
        slow_discrepancy(np.delete(pooled, rows, axis=0), pooled[list(rows)])
        for rows in combinations(range(10), 4)
    ]
    exact = np.mean(np.array(splits) >= squared - 1e-12)
    assert found.p_value == pytest.approx(exact, abs=0.02)  # 10,000 permutations
    assert found == mmd(first, second, limit=0.0005)


def test_scale_and_place_of_features_do_not_matter(rng):
    first, second = rng.normal(size=(40, 5)), rng.normal(0.5, 1, size=(30, 5))
    found = mmd(first, second)
    for scale, place in ((1e300, 0), (1e-200, 0), (1, 1e6)):
        other = mmd(first * scale + place, second * scale + place)
        assert other.distance == pytest.approx(found.distance, rel=1e-3)
        assert other.p_value == pytest.approx(found.p_value, abs=0.01)
    assert mmd(np.ones((9, 2)), np.ones((7, 2))).p_value == 1
    assert (
        mmd(np.ones((40, 2)), np.append(np.ones((5, 2)), [[3, 3]] * 5, 0)).p_value
        < 0.01
    )


def test_features_that_cannot_be_compared_are_refused(rng):
    rows = rng.normal(size=(40, 3))
    with pytest.raises(ValueError, match="new must be as wide as the reference, 3"):
        mmd(rows, rows[:, :2])
    with pytest.raises(ValueError, match="mmd: new must be finite"):
        mmd(rows, np.full((4, 3), np.inf))
    with pytest.raises(ValueError, match="reference must be a non-empty array of two"):
        mmd(rows[0], rows)
