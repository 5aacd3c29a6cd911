"""Coverage of prediction sets among accepted knowns, by simulation."""

import numpy as np
import pytest

from openset import Scores, thresholds
from openset.rejector import SetRule

REPEATS = 500


def draw(rng, n):
    """Logits of three classes, of which the second is hard; some are misclassified."""
    labels = rng.integers(0, 3, n)
    logits = rng.normal(size=(n, 3))
    logits[np.arange(n), labels] += np.array([3.0, 1.0, 3.0])[labels]
    return logits, labels


def accepted(logits, labels, threshold):
    kept = logits.max(axis=1) >= threshold
    return logits[kept], labels[kept]


@pytest.mark.parametrize("same", [False, True])
def test_the_class_of_an_accepted_known_is_in_its_set(same):
    """Guaranteed with other samples than chose the threshold; nearly so with these."""
    rng = np.random.default_rng(1)
    n, hits, total = 150, 0, 0
    for _ in range(REPEATS):
        logits, labels = draw(rng, n)
        known = logits.max(axis=1)
        zeros = np.zeros(n, dtype=int)
        scores = Scores(labels=zeros, predicted=zeros, known=known)
        threshold = thresholds.at_tpr(scores, 0.8).value
        held = (logits, labels) if same else draw(rng, n)
        rule = SetRule.calibrate(*accepted(*held, threshold), coverage=0.9)
        new, truth = accepted(*draw(rng, 20), threshold)
        hits += rule.contains(new)[np.arange(truth.size), truth].sum()
        total += truth.size
    share = hits / total
    # Samples of one repeat share their limit: its own spread is about 0.03.
    slack = 4 * np.sqrt(0.09 / total + 0.03**2 / REPEATS)
    assert share >= 0.9 - slack
    assert share <= 0.93 + slack  # not idle
