"""Unknowns made from known data."""

import numpy as np
import pytest

from openset import Outputs, Rejector, detectors, metrics, selection, thresholds
from openset.outputs import replaced
from tests.extras import torch

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


def test_their_logits_are_what_the_head_says():
    made = selection.synthetic(drawn(), "mixup")
    np.testing.assert_allclose(made.logits, made.features @ WEIGHT.T + BIAS, atol=1e-9)


def test_mixup_lies_between_samples_of_different_classes():
    logits = np.diag([10.0, 20.0, 30.0])
    made = selection.synthetic(Outputs(logits=logits, labels=[0, 1, 2]), n=500)
    assert ((made.logits > 0).sum(axis=1) == 2).all()  # never a class with itself
    share = made.logits / [10, 20, 30]
    assert share.max() <= 0.7
    assert set(map(tuple, made.logits > 0)) == {
        (True, True, False),
        (True, False, True),
        (False, True, True),
    }


def test_the_own_class_of_a_left_out_sample_cannot_win():
    known = drawn()
    made = selection.synthetic(known, "left-out")
    assert (made.logits.argmax(axis=1) != known.labels).all()


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


def test_unknown_samples_are_not_made_use_of_and_dtypes_are_kept():
    labels = np.where(np.arange(240) < 100, -1, drawn().labels)
    features = np.float32(drawn().features)
    features[:100] = 1e6
    mixed = Outputs(features=features, labels=labels)
    made = selection.synthetic(mixed, "mixup")
    assert len(made) == 140
    assert made.features.dtype == np.float32
    assert np.abs(made.features).max() < 100
    assert made.logits is None


def test_mixup_draws_the_share_of_either_sample_from_the_middle():
    logits = np.diag([1.0, 1.0])
    made = selection.synthetic(Outputs(logits=logits, labels=[0, 1]), n=2000, rng=1)
    np.testing.assert_allclose(made.logits.sum(axis=1), 1)
    assert 0.3 <= made.logits.min() < 0.302
    assert 0.698 < made.logits.max() <= 0.7


def test_the_second_sample_is_drawn_from_all_those_of_other_classes():
    labels = np.array([2, 0, 1, 0, 2, 2])
    made = selection.synthetic(Outputs(logits=np.eye(6), labels=labels), n=3000)
    pairs = [np.flatnonzero(row) for row in made.logits]
    found = np.zeros((6, 6), int)
    np.add.at(found, tuple(np.array(pairs).T), 1)
    expected = {(i, j) for i, j in np.argwhere(labels[:, None] != labels) if i < j}
    assert {(int(i), int(j)) for i, j in np.argwhere(found)} == expected
    # The first sample is any, the second any of another class: 3, 4 or 5 of these.
    n_other = np.array([3, 4, 5, 4, 3, 3])
    for i, j in expected:
        share = (1 / n_other[i] + 1 / n_other[j]) / 6
        assert abs(found[i, j] - 3000 * share) < 5 * np.sqrt(3000 * share)


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
        for j in range(len(known)):
            label = known.labels[j]
            if label not in removed and label not in parts[(i + 1) % folds]:
                continue
            one = Outputs(
                features=known.features[[j]],
                logits=known.logits[np.ix_([j], keep)],
                labels=[-1],
            )
            score = fitted.score(one)
            is_out = label in removed
            found.append(
                (-1 if is_out else label, keep[score.predicted[0]], score.known[0])
            )
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


def test_unless_said_otherwise_there_are_five_folds_and_the_seed_is_nought():
    train, known = drawn(60, seed=2), drawn(30, seed=3)
    one, other = (
        selection.leave_classes_out(detectors.MSP(), train, known, **options)
        for options in ({}, {"folds": 5, "rng": 0})
    )
    np.testing.assert_array_equal(one.known, other.known)
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(
        selection.synthetic(known).logits, selection.synthetic(known, rng=0).logits
    )


def test_a_detector_is_told_the_names_of_the_classes_that_are_left(monkeypatch):
    seen = []

    def noted(self, train):
        seen.append(train.classes)
        return {}

    monkeypatch.setattr(detectors.MSP, "fit_state", noted)
    known = drawn(30)
    selection.leave_classes_out(detectors.MSP(), known, known, folds=6, rng=1)
    order = np.random.default_rng(1).permutation(6)
    assert seen == [tuple(c for c in "abcdef" if c != "abcdef"[i]) for i in order]
    seen.clear()
    bare = replaced(known, classes=())
    selection.leave_classes_out(detectors.MSP(), bare, bare, folds=2)
    assert seen == [(), ()]


def test_at_least_two_classes_are_left_in():
    def of_classes(n):
        return drawn().take(drawn().labels < n)

    for n, folds in ((3, 3), (4, 2), (4, 4)):
        some = of_classes(n)
        selection.leave_classes_out(detectors.MSP(), some, some, folds=folds)
    for n, folds in ((3, 2), (2, 2), (4, 5)):
        some = of_classes(n)
        with pytest.raises(ValueError, match=f"got {folds} for {n} classes"):
            selection.leave_classes_out(detectors.MSP(), some, some, folds=folds)


def test_what_leaving_out_needs_is_named():
    bare = Outputs(features=drawn().features, labels=drawn().labels)
    for train, known in ((bare, drawn()), (drawn(), bare)):
        with pytest.raises(ValueError, match="logits must be given, got None"):
            selection.leave_classes_out(detectors.OSNN(), train, known)
    fitted = detectors.MSP().fit()
    with pytest.raises(TypeError, match="detector must be a detector that is not fit"):
        selection.leave_classes_out(fitted, drawn(), drawn())
    with pytest.raises(ValueError, match="logits must be given for two or more"):
        selection.synthetic(bare, "left-out")
    with pytest.raises(
        TypeError, match=r"selection\.synthetic: known must be Outputs, "
    ):
        selection.synthetic([[1.0, 2.0]])
    unknown = Outputs(logits=[[1.0, 2.0]], labels=[-1])
    with pytest.raises(ValueError, match="known must be labelled, with samples of"):
        selection.synthetic(unknown)


def test_of_a_combination_every_detector_ranks_the_classes_left_out():
    train, known = drawn(seed=2), drawn(seed=3)
    names = ("msp", "osnn")
    both = detectors.Combined(parts=names)
    found = selection.leave_classes_out(both, train, known, folds=3)
    alone = [
        selection.leave_classes_out(detectors.make(name), train, known, folds=3)
        for name in names
    ]
    for i in range(0, len(found), 17):
        shares = []
        for one in alone:
            knowns = one.known[~one.is_unknown]
            ties = np.mean(knowns == one.known[i])
            shares.append(np.mean(knowns < one.known[i]) + ties / 2)
        assert found.known[i] == pytest.approx(np.mean(shares))
    assert (found.labels == alone[0].labels).all()
    assert (found.predicted == alone[0].predicted).all()


def test_classes_left_out_for_good_are_harder_to_see_for_the_detector():
    train, known = drawn(seed=2), drawn(seed=3)
    scores = selection.leave_classes_out(detectors.PostMax(), train, known, folds=3)
    assert scores.n_unknown == scores.n_known == len(known)
    assert set(scores.groups[scores.is_unknown]) == {"synthetic:left-out"}
    assert metrics.accuracy(scores) > 0.8  # classes have their old numbers
    assert metrics.auroc(scores) > 0.7
    found = thresholds.report(scores, thresholds.osa(scores))
    assert found.synthetic == ("synthetic:left-out",)
    assert "CAL005" in found.codes


def test_a_rejector_calibrated_on_them_says_so_and_still_rejects():
    train, known = drawn(seed=2), drawn(seed=3)
    fitted = detectors.PostMax().fit(train)
    rejector = Rejector.calibrate(
        fitted, known=known, surrogate=["mixup", "left-out"], alpha=0.5
    )
    assert "CAL005" in rejector.report.codes
    assert rejector.report.synthetic == ("synthetic:left-out", "synthetic:mixup")
    strange = np.random.default_rng(5).normal(size=(200, 12))
    new = Outputs(features=strange, logits=strange @ WEIGHT.T + BIAS)
    assert (rejector.predict(new) == -1).mean() > 0.5
    assert (rejector.predict(drawn(seed=6)) != -1).mean() > 0.5


def test_torch_outputs_get_torch_surrogates():
    def as_torch(outputs):
        return Outputs(
            logits=torch.as_tensor(np.array(outputs.logits)),
            features=torch.as_tensor(np.array(outputs.features)),
            labels=outputs.labels,
        )

    fitted = detectors.PostMax().fit(as_torch(drawn(seed=2)))
    rejector = Rejector.calibrate(
        fitted, known=as_torch(drawn(seed=3)), surrogate="mixup"
    )
    same = Rejector.calibrate(
        detectors.PostMax().fit(drawn(seed=2)),
        known=drawn(seed=3),
        surrogate="mixup",
    )
    assert rejector.threshold.value == pytest.approx(same.threshold.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: selection.synthetic(drawn(), "magic"), "kind must be one of"),
        (lambda: selection.synthetic(drawn(), "noise"), "kind must be one of"),
        (lambda: selection.synthetic(Outputs(logits=[[1.0, 2]])), "must be labelled"),
        (
            lambda: selection.synthetic(Outputs(logits=[[1.0, 2]], labels=[0])),
            "at least two classes",
        ),
        (
            lambda: selection.synthetic(
                Outputs(logits=[[1.0]], labels=[0]), "left-out"
            ),
            "two or more classes",
        ),
        (
            lambda: selection.leave_classes_out(
                detectors.MSP(), drawn(), drawn(), folds=1
            ),
            "folds must be between 2",
        ),
    ],
)
def test_what_cannot_be_made_is_said(call, message):
    with pytest.raises(ValueError, match=message):
        call()
