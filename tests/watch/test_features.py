"""The maximum mean discrepancy: against all pairs and all splits."""

from itertools import combinations

import numpy as np
import pytest

from openset import Scores, thresholds
from openset.watch import Part, Watch, mmd


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
    with pytest.raises(ValueError, match="mmd: new must be a table of finite"):
        mmd(rows, np.full((4, 3), np.inf))
    with pytest.raises(ValueError, match="reference must be a table of finite numbers"):
        mmd(rows[0], rows)


def test_a_watch_keeps_features_that_its_caller_writes_over():
    rng = np.random.default_rng(0)
    n, features = 60, rng.normal(size=(60, 3))
    reference = Scores(labels=[0] * n, predicted=[0] * n, known=np.arange(n))
    threshold = thresholds.at_tpr(reference)
    mine = features.copy()
    watch = Watch(threshold, reference, features=mine)
    mine += 100
    assert not watch.check(reference, features=features).is_alarm

    def parts(buffer):
        for start in range(0, n, 20):
            rows = slice(start, start + 20)
            buffer[:] = features[rows]
            yield Part(reference.take(rows), buffer)

    found = list(watch.stream(parts(np.empty((20, 3))), 30))
    for verdict, rows in zip(found, (slice(30), slice(30, 60)), strict=True):
        own = watch.check(reference.take(rows), features=features[rows])
        assert verdict.features == own.features
    masked = np.ma.array(features, mask=features > 1)
    with pytest.raises(ValueError, match="features must be free of masked values"):
        watch.check(reference, features=masked)
    with pytest.raises(ValueError, match="new must be free of masked values"):
        mmd(features, masked)
