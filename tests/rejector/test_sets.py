"""Prediction sets: the rule, by hand and by a slow loop; in the rejector."""

from math import ceil

import numpy as np
import pytest
from scipy.special import softmax

from openset import Rejector, detectors
from openset.rejector import SetRule
from tests.rejector.data import calibrated, drawn


def slow_limit(scores, coverage):
    rank = ceil((len(scores) + 1) * coverage - 1e-12)
    return 1 if rank > len(scores) else sorted(scores)[rank - 1]


def test_sets_hold_the_classes_within_the_limit(monkeypatch):
    rng = np.random.default_rng(0)
    logits, new = rng.normal(size=(120, 8)), rng.normal(size=(40, 8))
    labels = rng.integers(0, 8, 120)
    rule = SetRule.calibrate(logits, labels, coverage=0.8)
    own = [1 - softmax(z)[y] for z, y in zip(logits, labels, strict=True)]
    limit = slow_limit(own, 0.8)
    expected = [
        [1 - p <= limit + 1e-12 or p == softmax(z).max() for p in softmax(z)]
        for z in new
    ]
    assert rule.contains(new).tolist() == expected
    monkeypatch.setattr("openset.rejector.sets._AT_A_TIME", 24)  # in many parts
    assert rule.contains(new).tolist() == expected


@pytest.mark.parametrize("n", [8, 9])
def test_too_few_samples_leave_every_class_possible(n):
    rule = SetRule.calibrate([[9.0, 0.0]] * n, [0] * n, coverage=0.9)
    assert (rule.limit == 1) == rule.contains([[9.0, 0.0]]).all() == (n < 9)


def test_the_rejector_answers_with_sets_or_unknown(tmp_path):
    known, fitted = drawn(300, seed=2), detectors.Energy().fit(drawn(300, seed=1))
    made = calibrated(fitted, known=known, sets=0.97)
    accepted = made.predict(known) != -1
    own = 1 - softmax(known.logits, axis=1)[np.arange(300), known.labels]
    assert made.sets.n == accepted.sum()
    assert made.sets.limit == pytest.approx(slow_limit(own[accepted].tolist(), 0.97))
    new = drawn(200, seed=4, labelled=False)
    decided = made.decide(new)
    sizes = decided.sets.sum(axis=1)
    assert (sizes[decided.is_rejected] == 0).all()
    assert (sizes[~decided.is_rejected] >= 1).all()
    assert sizes.max() > 1
    for classes, label in zip(decided.set_classes, decided.labels, strict=True):
        assert classes == [] if label == -1 else label in classes
    again = Rejector.load(made.save(tmp_path / "r"))
    assert again.sets == made.sets
    assert again.decide(new).set_classes == decided.set_classes
    plain = calibrated(fitted).decide(new)
    assert plain.sets is plain.set_classes is None


def test_sets_know_logits_that_are_infinite():
    logits = np.array([[5.0, 1.0, 0.0]] * 6 + [[np.inf, 1.0, 0.0]] * 6)
    labels = np.zeros(12, dtype=int)
    rule = SetRule.calibrate(logits, labels, coverage=0.9)
    finite = np.where(np.isinf(logits), 1000.0, logits)
    assert rule == SetRule.calibrate(finite, labels, coverage=0.9)
    all_classes = SetRule.calibrate(logits[:1], [0], coverage=0.9)
    assert all_classes.contains([[np.inf, 0.0, 0.0], [-np.inf] * 3]).all()
    both = rule.contains([[np.inf, np.inf, 0.0]])
    assert both.tolist() == rule.contains([[1000.0, 1000.0, 0.0]]).tolist()
