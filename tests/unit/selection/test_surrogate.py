"""Unknowns made from known data."""

import numpy as np
import pytest
import torch

from openset import Outputs, Rejector, detectors, metrics, selection, thresholds

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
