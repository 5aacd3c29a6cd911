"""Coverage of prediction sets among accepted knowns, by simulation."""

import numpy as np
import pytest
from scipy.stats import binomtest

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


@pytest.mark.parametrize("method", ["lac", "raps"])
@pytest.mark.parametrize("same", [False, True])
def test_the_class_of_an_accepted_known_is_in_its_set(method, same):
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
        rule = SetRule.calibrate(
            *accepted(*held, threshold), method=method, coverage=0.9
        )
        new, truth = accepted(*draw(rng, 20), threshold)
        hits += rule.contains(new)[np.arange(truth.size), truth].sum()
        total += truth.size
    share = hits / total
    # Samples of one repeat share their limit: its own spread is about 0.03.
    slack = 4 * np.sqrt(0.09 / total + 0.03**2 / REPEATS)
    assert share >= 0.9 - slack
    assert share <= 0.93 + slack  # not idle


def test_by_class_every_class_has_the_coverage():
    rng = np.random.default_rng(2)
    hits, total = (np.zeros((2, 3)) for _ in range(2))
    for _ in range(REPEATS):
        held, (new, truth) = draw(rng, 200), draw(rng, 20)
        for i in range(2):
            rule = SetRule.calibrate(*held, method="lac", by_class=bool(i))
            is_in = rule.contains(new)[np.arange(truth.size), truth]
            hits[i] += np.bincount(truth[is_in], minlength=3)
            total[i] += np.bincount(truth, minlength=3)
    for c in range(3):
        test = binomtest(int(hits[1, c]), int(total[1, c]), 0.9)
        assert test.proportion_ci(0.9999).high >= 0.9
    assert hits[0, 1] / total[0, 1] < 0.85  # without: the hard class is missed
