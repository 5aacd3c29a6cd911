"""WeiPer against a loop over numbers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from openset import Outputs
from openset.detectors import WeiPer
from openset.outputs import replaced
from openset.testing import example_outputs as split

TRAIN, TEST = split(200, seed=1), split(30, seed=2, unknown=0.4)


def slow_weiper(recipe, fitted, train, test):
    """Bin, smooth and compare number by number, with the fitted perturbations."""
    r, n_classes = recipe.repeats, len(train.bias)
    weight = fitted.state["perturbed"].astype(float).reshape(r, n_classes, -1)

    def spaces(part):
        logits = np.einsum("rcd,nd->nrc", weight, part.features) + train.bias
        return part.features, logits

    def histogram(values, low, high):
        edges = np.linspace(low, high, recipe.bins + 1)
        return np.histogram(values, edges)[0] / values.size

    def smoothed(h):
        before = (recipe.smooth - 1) // 2
        after = recipe.smooth - 1 - before
        padded = np.pad(h, (before, after), mode="edge")
        return np.convolve(padded, np.ones(recipe.smooth) / recipe.smooth, "valid")

    def scaled(h, more):
        return (h + more) / (h + more).sum()

    total = np.zeros(len(test))
    for one, other, more, factor in zip(
        spaces(train), spaces(test), (0.01, 0.025), (1.0, recipe.weight_logits),
        strict=True,
    ):  # fmt: skip
        gap = (one.max() - one.min()) / len(train)
        low, high = one.min() - gap, one.max() + gap
        mean = np.mean([histogram(row, low, high) for row in one], axis=0)
        q = scaled(mean, more)
        for i, row in enumerate(other):
            p = scaled(smoothed(histogram(row, low, high)), more)
            total[i] -= factor * ((p - q) * np.log(p / q)).sum()
    confidence = softmax(spaces(test)[1], axis=2).max(axis=2).mean(axis=1)
    return total + recipe.weight_msp * confidence


@pytest.mark.parametrize(
    "recipe",
    [
        WeiPer(repeats=7),
        WeiPer(repeats=3, bins=30, smooth=5, weight_logits=2.5, weight_msp=0.1),
    ],
)
def test_weiper_equals_a_loop_over_numbers(recipe):
    fitted = recipe.fit(TRAIN)
    outside = replaced(TEST, features=TEST.features * 9)  # of the range of the bins
    for part in (TEST, outside):
        expected = slow_weiper(recipe, fitted, TRAIN, part)
        assert_allclose(fitted.known(part), expected)


def test_weiper_draws_training_samples_and_predicts_from_features():
    fits = [WeiPer(repeats=3, max_samples=50, seed=s).fit(TRAIN) for s in (0, 0, 1)]
    known = [fitted.known(TEST) for fitted in fits]
    assert_array_equal(known[0], known[1])
    assert not np.array_equal(known[0], known[2])
    alone = Outputs(features=TEST.features, labels=TEST.labels)
    predicted = fits[0].score(alone).predicted
    assert_array_equal(predicted, TEST.logits.argmax(axis=1))
