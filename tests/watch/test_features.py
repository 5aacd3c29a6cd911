"""The maximum mean discrepancy: against all pairs and all splits."""

from itertools import combinations

import numpy as np
import pytest

from openset import Scores, thresholds
from openset.watch import Part, Watch, mmd


def slow_discrepancy(first, second):
    """Compute the squared MMD by loops over pairs."""
    pairs = combinations([*first, *second], 2)
    width = np.median([((a - b) ** 2).sum() for a, b in pairs])

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
    some_differ = np.repeat([[1.0, 1.0], [3.0, 3.0]], 5, axis=0)
    assert mmd(np.ones((40, 2)), some_differ).p_value < 0.01


ROWS = np.random.default_rng(0).normal(size=(40, 3))


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (ROWS, ROWS[:, :2], "new must be as wide as the reference, 3"),
        (ROWS, ROWS * np.inf, "mmd: new must be a table of finite"),
        (ROWS[0], ROWS, "reference must be a table of finite numbers"),
        (ROWS, np.ma.array(ROWS, mask=ROWS > 1), "new must be free of masked values"),
    ],
)
def test_features_that_cannot_be_compared_are_refused(first, second, words):
    with pytest.raises(ValueError, match=words):
        mmd(first, second)


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
