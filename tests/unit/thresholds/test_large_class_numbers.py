"""Class numbers may be large and far apart: the thresholds are those of small ones."""

import numpy as np

from openset import Scores, thresholds


def drawn(classes):
    """Draw scores of four classes under given numbers, and of unknowns."""
    rng = np.random.default_rng(0)
    names = np.array([*classes, -1])
    labels, predicted = rng.integers(0, 5, 300), rng.integers(0, 4, 300)
    predicted = np.where(rng.random(300) < 0.3, predicted, np.minimum(labels, 3))
    known = rng.normal(size=300) + (labels < 4) + (labels == predicted)
    return Scores(labels=names[labels], predicted=names[predicted], known=known)


def test_costs_do_not_overflow():
    """Two pairs of label and prediction once had the same number, modulo 2^64."""
    large = 2**33 - 1
    far = drawn([large - 3 * 2**31, large - 2**32, large - 2**31, large])
    near = drawn(range(4))
    for prices in ({}, {"confusion": 3.0}, {"missed_unknown": 0.1, "confusion": 9}):
        found = thresholds.by_cost(far, **prices)
        expected = thresholds.by_cost(near, **prices)
        assert found.value == expected.value
        assert found.rate == expected.rate


def test_thresholds_per_class_are_those_of_the_classes_that_occur():
    classes = [0, 7, 1000, 20_000]
    found = thresholds.per_class(drawn(classes), strength=5.0)
    expected = thresholds.per_class(drawn(range(4)), strength=5.0)
    assert tuple(found.per_class[c] for c in classes) == expected.per_class
    others = {*found.per_class} - {*expected.per_class}
    assert others <= {expected.value}
