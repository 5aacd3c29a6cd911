"""Unknowns made from known data."""

import numpy as np
import pytest

from openset import Outputs, detectors, selection

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(6, 12))
BIAS = RNG.normal(size=6)


def drawn(n=240, *, seed=1, head=True):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 6
    features = 1.5 * WEIGHT[labels] + 0.7 * rng.normal(size=(n, 12))
    extra = {"weight": WEIGHT, "bias": BIAS} if head else {}
    return Outputs(
        features=features,
        logits=features @ WEIGHT.T + BIAS,
        labels=labels,
        classes=list("abcdef"),
        **extra,
    )


@pytest.mark.parametrize("kind", selection.SYNTHETIC_KINDS)
def test_they_are_unknown_and_say_that_they_are_synthetic(kind):
    known = drawn()
    made = selection.synthetic(known, kind, n=100, rng=3)
    assert len(made) == 100
    assert set(made.labels) == {-1}
    assert set(made.groups) == {f"synthetic:{kind}"}
    again = selection.synthetic(known, kind, n=100, rng=3)
    np.testing.assert_array_equal(made.logits, again.logits)


def test_mixup_lies_between_samples_of_different_classes():
    logits = np.diag([10.0, 20.0, 30.0])
    made = selection.synthetic(Outputs(logits=logits, labels=[0, 1, 2]), n=500)
    assert (made.logits / [10, 20, 30]).max() <= 0.7
    pairs = {tuple(np.flatnonzero(row)) for row in made.logits}
    assert pairs == {(0, 1), (0, 2), (1, 2)}  # never a class with itself


def test_left_out_samples_have_their_lowest_other_logit_for_their_own_class():
    known = drawn(seed=4)
    made = selection.synthetic(known, "left-out")
    assert len(made) == len(known)
    for row, label, found in zip(known.logits, known.labels, made.logits, strict=True):
        expected = row.copy()
        expected[label] = min(z for c, z in enumerate(row) if c != label)
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(made.features, known.features)
    few = selection.synthetic(known, "left-out", n=50, rng=2)
    chosen = np.flatnonzero((known.features == few.features[:, None]).all(-1).any(0))
    assert chosen.size == 50
    np.testing.assert_array_equal(few.logits, made.logits[chosen])
    two = selection.synthetic(Outputs(logits=[[3.0, 1.0]], labels=[0]), "left-out")
    np.testing.assert_array_equal(two.logits, [[1.0, 1.0]])


def slowly_left_out(detector, train, known, folds, seed):
    """Score one sample at a time; return (label, predicted, knownness) in order."""
    order = np.random.default_rng(seed).permutation(np.unique(known.labels))
    parts = np.array_split(order, folds)
    found = []
    for i, removed in enumerate(parts):
        keep = [c for c in range(6) if c not in removed]
        rows = [j for j in range(len(train)) if train.labels[j] in keep]
        fitted = detector.fit(
            Outputs(
                features=train.features[rows],
                logits=train.logits[np.ix_(rows, keep)],
                labels=[keep.index(train.labels[j]) for j in rows],
                weight=train.weight[keep],
                bias=train.bias[keep],
            )
        )
        for f, z, label in zip(known.features, known.logits, known.labels, strict=True):
            if label in removed or label in parts[(i + 1) % folds]:
                one = fitted.score(Outputs(features=[f], logits=[z[keep]], labels=[-1]))
                shown = -1 if label in removed else label
                found.append((shown, keep[one.predicted[0]], one.known[0]))
    return np.array(found)


@pytest.mark.parametrize("folds", [2, 4])
def test_each_class_is_left_out_once_and_scored_as_known_once(folds):
    train, known = drawn(60, seed=2), drawn(30, seed=3)
    detector = detectors.ViM(dim=3)  # of logits, features and head
    found = selection.leave_classes_out(detector, train, known, folds=folds, rng=7)
    expected = slowly_left_out(detector, train, known, folds, 7)
    np.testing.assert_array_equal(found.labels, expected[:, 0])
    np.testing.assert_array_equal(found.predicted, expected[:, 1])
    np.testing.assert_allclose(found.known, expected[:, 2])
    groups = np.where(found.is_unknown, "synthetic:left-out", "")
    np.testing.assert_array_equal(found.groups, groups)
    assert found.n_classes == 6


def test_what_making_unknowns_needs_is_named():
    leave_out, make = selection.leave_classes_out, selection.synthetic
    bare = Outputs(features=drawn().features, labels=drawn().labels)
    one, unknown = (Outputs(logits=[[3.0, 1.0]], labels=[y]) for y in (0, -1))
    fitted, osnn = detectors.MSP().fit(), detectors.OSNN()
    for call, words in (
        (lambda: leave_out(osnn, bare, drawn()), "logits must be given, got None"),
        (lambda: leave_out(osnn, drawn(), bare), "logits must be given, got None"),
        (lambda: leave_out(fitted, drawn(), drawn()), "a detector that is not fitted"),
        (lambda: make(bare, "left-out"), "logits must be given for two or more"),
        (lambda: make([[1.0, 2.0]]), "synthetic: known must be Outputs, "),
        (lambda: make(unknown), "known must be labelled, with samples of"),
        (lambda: make(drawn(), "left_out"), "kind must be one of 'mixup', 'left-out'"),
        (lambda: make(one), "known must be of at least two classes"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            call()
    make(Outputs(logits=np.eye(2), labels=[0, 1]))  # two classes are enough
    without_head = drawn(60, head=False)
    assert leave_out(osnn, without_head, without_head).n_unknown == 60


def test_at_least_two_classes_must_remain():
    train, three = drawn(60), drawn(60).take(np.arange(60) % 6 < 3)
    out = {"detector": detectors.MSP(), "train": train}
    default = selection.leave_classes_out(**out, known=train)
    five = selection.leave_classes_out(**out, known=train, folds=5)
    np.testing.assert_array_equal(default.known, five.known)
    selection.leave_classes_out(**out, known=three, folds=3)
    for folds in (1, 2, 4):
        with pytest.raises(ValueError, match=f"folds must be .*, got {folds} for 3 cl"):
            selection.leave_classes_out(**out, known=three, folds=folds)
