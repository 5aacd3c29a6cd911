"""OpenMax: a slow oracle, and which logits lose how much."""

import numpy as np
import pytest
from scipy import stats

from openset import Outputs
from openset.detectors import OpenMax


def network(n=240, seed=0, n_classes=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    logits = rng.normal(0, 1.5, (n, n_classes))
    logits[np.arange(n), labels] += 4
    return Outputs(logits=logits, labels=labels)


TRAIN, NEW = network(), network(40, seed=1)


def distance(weight, a, b):
    euclidean = np.sqrt(((a - b) ** 2).sum())
    return weight * euclidean + 1 - (a @ b) / (np.linalg.norm(a) * np.linalg.norm(b))


def slow_openmax(train, new, *, tail, alpha, weight):
    """One sample and one class at a time, SciPy's Weibull fit, libMR's T = 1."""
    n_classes = train.logits.shape[1]
    is_correct = train.logits.argmax(axis=1) == train.labels
    laws = []
    for c in range(n_classes):
        own = train.logits[is_correct & (train.labels == c)]
        mean = own.mean(axis=0)
        largest = sorted(distance(weight, row, mean) for row in own)[-tail:]
        z = np.array(largest) + 1 - largest[0]
        shape, _, scale = stats.weibull_min.fit(z, floc=0)
        laws.append((mean, largest[0], shape, scale))
    table = []
    for row in new.logits:
        revised, unknown = row.copy(), 0.0
        for i, c in enumerate(np.argsort(-row, kind="stable")[:alpha], start=1):
            mean, least, shape, scale = laws[c]
            z = distance(weight, row, mean) + 1 - least
            w = (alpha + 1 - i) / alpha * stats.weibull_min.cdf(z, shape, scale=scale)
            revised[c] = row[c] * (1 - w)
            unknown += row[c] * w
        terms = np.exp(np.append(revised, unknown))
        table.append(terms / terms.sum())
    return np.array(table)


@pytest.mark.parametrize(
    "options",
    [
        {"tail": 20, "alpha": 4, "weight": 1 / 200},
        {"tail": 5, "alpha": 2, "weight": 3.0},
        {"tail": 200, "alpha": 1, "weight": 0.0},
    ],
)
def test_probabilities_are_those_of_the_definition(options):
    fitted = OpenMax(**options, translate=1.0).fit(TRAIN)
    expected = slow_openmax(TRAIN, NEW, **options)
    table = fitted.class_probabilities(NEW)
    np.testing.assert_allclose(table, expected, atol=2e-4)  # SciPy's fit has 4 digits
    np.testing.assert_allclose(table.sum(axis=1), 1)
    np.testing.assert_allclose(fitted.probability(NEW), 1 - table[:, -1])
    odds = np.log1p(-table[:, -1]) - np.log(table[:, -1])
    np.testing.assert_allclose(fitted.known(NEW), odds, atol=1e-8)


def shares_lost(alpha, logits):
    """Share of each logit that goes to the unknown class, far from every mean."""
    rng = np.random.default_rng(0)
    labels = np.arange(100) % len(logits)
    near = np.eye(len(logits))[labels] + 0.1 * rng.normal(size=(100, len(logits)))
    recipe = OpenMax(alpha=alpha, translate=1.0)
    fitted = recipe.fit(Outputs(logits=near, labels=labels))
    row = 1e3 * np.array([logits])
    revised, unknown = fitted.detector._revised(fitted.state, row)
    assert unknown[0] == pytest.approx((row - revised).sum())
    return (1 - revised / row)[0]


def test_the_released_rank_weights_go_from_one_to_one_over_alpha():
    logits = [3.0, 9.0, 1.0, 5.0, 2.0]
    np.testing.assert_allclose(shares_lost(3, logits), [1 / 3, 1, 0, 2 / 3, 0])
    np.testing.assert_allclose(shares_lost(1, logits), [0, 1, 0, 0, 0])
    # alpha is at most the number of classes
    np.testing.assert_allclose(shares_lost(10, logits), [0.6, 1, 0.2, 0.8, 0.4])
    # of equal logits the lowest class comes first
    np.testing.assert_allclose(shares_lost(2, [4.0, 4.0, 4.0]), [1, 0.5, 0])


def test_classes_with_few_samples_are_not_revised():
    labels = np.r_[np.zeros(40, int), [1, 1], np.full(40, 2)]
    logits = np.eye(3)[labels] * 8 + np.random.default_rng(0).normal(size=(82, 3))
    fitted = OpenMax(alpha=3).fit(Outputs(logits=logits, labels=labels))
    np.testing.assert_array_equal(fitted.state["revised"], [1, 0, 1])
    far = Outputs(logits=[[0.0, 500.0, 0.0]])
    np.testing.assert_allclose(fitted.known(far), 500)  # nothing was taken from it
