"""The rejector: deciding, explaining, and objectives by name."""

import warnings

import numpy as np
import pytest

from openset import (
    CalibrationError,
    CalibrationWarning,
    Outputs,
    Rejector,
    Scores,
    detectors,
    selection,
    thresholds,
)
from openset.rejector._rejector import need_rejector
from tests.extras import torch

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(4, 8))


def drawn(n=120, *, seed=0, unknown=False, labelled=True, classes=tuple("abcd")):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n)
    features = rng.normal(size=(n, 8)) + (0 if unknown else 1.5) * WEIGHT[labels]
    truth = np.full(n, -1) if unknown else labels
    return Outputs(
        features=features,
        logits=features @ WEIGHT.T,
        labels=truth if labelled else None,
        classes=classes,
    )


@pytest.fixture(scope="module")
def fitted():
    return detectors.PostMax().fit(drawn(300, seed=1))


@pytest.fixture(scope="module")
def rejector(fitted):
    return Rejector.calibrate(
        fitted, known=drawn(200, seed=2), surrogate=drawn(200, seed=3, unknown=True)
    )


def test_outputs_of_another_width_are_refused_without_training_outputs(tmp_path):
    fitted = detectors.MaxLogit().fit()  # it has seen no outputs
    known, surrogate = drawn(200, seed=2), drawn(200, seed=3, unknown=True)
    narrow = Outputs(logits=surrogate.logits[:, :3], labels=surrogate.labels)
    with pytest.raises(ValueError, match="must be 4, as in fit or calibration"):
        Rejector.calibrate(fitted, known=known, surrogate=narrow)
    made = Rejector.calibrate(fitted, known=known, surrogate=surrogate)
    for rejector in (made, Rejector.load(made.save(tmp_path / "rejector"))):
        with pytest.raises(ValueError, match=r"n_classes must be 4, .*, got 3"):
            rejector.predict(Outputs(logits=known.logits[:, :3]))
        with pytest.raises(ValueError, match=r"n_features must be 8, .*, got 5"):
            rejector.predict(
                Outputs(logits=known.logits, features=known.features[:, :5])
            )
        assert rejector.predict(Outputs(logits=known.logits)).shape == (200,)


def test_a_class_called_unknown_is_not_taken_for_a_rejected_sample():
    known = drawn(200, seed=2, classes=("cat", "unknown", "None", "Unknown"))
    surrogate = drawn(200, seed=3, unknown=True, classes=())
    rejector = Rejector.calibrate(
        detectors.MaxLogit().fit(), known=known, surrogate=surrogate
    )
    names = [rejector.name_of(label) for label in (-1, 0, 1, 2, 3, 4)]
    assert names == ["unknown", "cat", "unknown (class 1)", "None", "Unknown", "4"]


def test_widths_of_fit_go_before_those_of_the_calibration():
    narrow = Outputs(logits=drawn().logits[:, :3], labels=[-1] * 120)
    fitted = detectors.MaxLogit().fit(drawn())
    with pytest.raises(ValueError, match=r"n_classes must be 4, .*, got 3"):
        Rejector.calibrate(fitted, known=narrow)


def test_decisions_are_the_class_or_minus_one(rejector, fitted):
    new = drawn(50, seed=4, labelled=False)
    known = fitted.known(new)
    expected = np.where(
        known >= rejector.threshold.value, new.logits.argmax(axis=1), -1
    )
    found = rejector.predict(new)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(rejector.known(new), known)
    np.testing.assert_array_equal(rejector.predict(new, batch_size=7), expected)
    assert 0 < (found == -1).sum() < 50


def test_labels_of_new_data_change_nothing(rejector):
    new = drawn(50, seed=4)
    bare = drawn(50, seed=4, labelled=False)
    np.testing.assert_array_equal(rejector.predict(new), rejector.predict(bare))


def test_typical_is_uniform_for_knowns_and_small_for_unknowns(rejector):
    known = rejector.typical(drawn(2000, seed=5))
    unknown = rejector.typical(drawn(2000, seed=6, unknown=True))
    assert 0 <= known.min() <= known.max() <= 1
    assert known.mean() == pytest.approx(0.5, abs=0.06)
    assert unknown.mean() < 0.3


def test_an_explanation_adds_up(rejector):
    new = drawn(30, seed=4)
    decisions = rejector.predict(new)
    for i in (0, 7, -1):
        why = rejector.explain(new, i, top=3)
        assert why.decision == decisions[i]
        assert why.margin == pytest.approx(why.known - why.threshold)
        assert (why.margin >= 0) == (why.decision != -1)
        best = [index for index, _, _ in why.top]
        assert best == np.argsort(-new.logits[i])[:3].tolist()
        assert why.name == "abcd"[why.predicted] == why.top[0][1]
        assert why.to_dict()["known"] == why.known
    rejected = int(np.flatnonzero(decisions == -1)[0])
    why = rejector.explain(new, rejected)
    bounds = f"{why.known:.4g} < threshold {why.threshold:.4g}"
    assert str(why).startswith(f"unknown: knownness {bounds}; at least")
    with pytest.raises(ValueError, match="i must be in"):
        rejector.explain(new, 30)


def test_names_fall_back_to_numbers(rejector):
    assert [rejector.name_of(c) for c in (-1, 2, 9)] == ["unknown", "c", "9"]


@pytest.mark.parametrize(
    ("objective", "options"),
    [
        ("at_fpr", {"fpr": 0.2}),
        ("at_tpr", {"tpr": 0.8, "at": "middle"}),
        ("by_cost", {"missed_unknown": 5}),
        ("per_class", {"strength": 10}),
        ("conformal", {"error_rate": 0.1}),
        ("worst_group", {"alpha": 0.5}),
    ],
)
def test_every_objective_has_a_name(fitted, objective, options):
    known, surrogate = drawn(200, seed=2), drawn(200, seed=3, unknown=True)
    made = Rejector.calibrate(
        fitted, known=known, surrogate=surrogate, objective=objective, **options
    )
    scores = fitted.score(Outputs.concat([known, surrogate]))
    expected = getattr(thresholds, objective)(scores, **options)
    assert made.threshold == expected
    np.testing.assert_array_equal(
        made.predict(surrogate), expected.decide(fitted.score(surrogate))
    )


def test_unknowns_among_the_known_count_as_surrogate(fitted):
    known, surrogate = drawn(200, seed=2), drawn(200, seed=3, unknown=True)
    together = Rejector.calibrate(fitted, known=Outputs.concat([known, surrogate]))
    apart = Rejector.calibrate(fitted, known=known, surrogate=surrogate)
    assert together.threshold == apart.threshold


def test_surrogates_need_no_labels_and_may_be_several(fitted):
    known = drawn(200, seed=2)
    bare = drawn(200, seed=3, unknown=True, labelled=False)
    halves = [bare.take(slice(0, 80)), bare.take(slice(80, 200))]
    one = Rejector.calibrate(fitted, known=known, surrogate=bare)
    two = Rejector.calibrate(fitted, known=known, surrogate=halves)
    assert one.threshold == two.threshold


def test_a_knowns_only_objective_needs_no_surrogate(fitted):
    made = Rejector.calibrate(
        fitted, known=drawn(200, seed=2), objective="conformal", error_rate=0.05
    )
    rejected = (made.predict(drawn(3000, seed=9)) == -1).mean()
    assert rejected == pytest.approx(0.05, abs=0.04)
    assert "unknown" not in made.reference


def test_operation_on_calibration_samples_is_refused(rejector):
    test = Outputs.concat([drawn(150, seed=7), drawn(150, seed=8, unknown=True)])
    done = rejector.operate(test, alpha=0.5)
    assert 0 <= done.gap < 0.1
    with pytest.raises(ValueError, match="other samples than those the threshold"):
        rejector.operate(
            Outputs.concat([drawn(200, seed=2), drawn(150, seed=8, unknown=True)])
        )


def test_it_moves_to_torch_and_decides_the_same(rejector):
    new = drawn(50, seed=4)
    tensors = Outputs(
        logits=torch.as_tensor(np.array(new.logits)),
        features=torch.as_tensor(np.array(new.features)),
    )
    with pytest.raises(ValueError, match="must be in the library and on the device"):
        rejector.predict(tensors)
    moved = rejector.to(tensors.logits)
    np.testing.assert_array_equal(moved.predict(tensors), rejector.predict(new))


def test_an_explanation_asks_for_a_row(rejector):
    new = drawn(5, seed=4)
    for bad in (1.5, "0", None):
        with pytest.raises(ValueError, match="i must be an integer"):
            rejector.explain(new, bad)
    with pytest.raises(ValueError, match=r"i must be in \[-5, 4\], got 5"):
        rejector.explain(new, 5)


def test_bad_calibration_data_are_named(fitted):
    known, unknown = drawn(50, seed=2), drawn(50, seed=3, unknown=True)
    for arguments, message in (
        ({"known": drawn(50, labelled=False)}, "known must be labelled"),
        ({"known": known, "surrogate": known}, "surrogate must be unknown samples"),
        ({"known": known, "surrogate": "magic"}, "surrogate must be one of 'mixup'"),
        ({"known": known}, "surrogate must be given for objective 'osa', got none"),
        (
            {"known": known, "surrogate": unknown, "objective": "x"},
            "objective must be one of",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            Rejector.calibrate(fitted, **arguments)
    with pytest.raises(TypeError, match="an option must be one of alpha"):
        Rejector.calibrate(fitted, known=known, surrogate=unknown, fpr=0.1)


def test_it_says_what_it_is_made_of(rejector):
    assert repr(rejector).startswith("Rejector(PostMax(")
    assert str(rejector.threshold) in repr(rejector)


def test_a_choice_brings_its_objective_and_its_options():
    train, known = drawn(300, seed=1), drawn(200, seed=2)
    surrogate = drawn(200, seed=3, unknown=True)
    choice = selection.choose(
        {name: detectors.make(name).fit(train) for name in ("msp", "postmax")},
        known=known,
        surrogate=surrogate,
        objectives="at_fpr",
        options={"fpr": 0.2},
    )
    parts = {"known": known, "surrogate": surrogate}
    found = Rejector.calibrate(choice, **parts)
    by_hand = Rejector.calibrate(choice.fitted, **parts, objective="at_fpr", fpr=0.2)
    assert found.threshold.to_dict() == by_hand.threshold.to_dict()
    # What is said here goes first; options of another objective are not taken over.
    stricter = Rejector.calibrate(choice, **parts, fpr=0.05)
    assert stricter.threshold.value > found.threshold.value
    assert (
        Rejector.calibrate(choice, **parts, objective="osa").threshold.method == "osa"
    )


def test_without_logits_there_are_no_best_classes_to_explain():
    train = drawn(300, seed=1)
    bare = Outputs(features=train.features, labels=train.labels)
    known = drawn(200, seed=2)
    bare_known = Outputs(features=known.features, labels=known.labels)
    fitted = detectors.make("osnn").fit(bare)  # it names the class itself
    rejector = Rejector.calibrate(fitted, known=bare_known, objective="at_tpr", tpr=0.9)
    found = rejector.explain(bare_known, 0)
    assert found.top == ()
    assert found.decision == rejector.predict(bare_known)[0]


def test_a_network_of_another_width_is_refused(rejector):
    rejector.check_network("serve", "model", n_classes=4, n_features=None)
    words = "serve: n_classes of model must be 4, as in the rejector, got 5. Calibrate"
    with pytest.raises(ValueError, match=words):
        rejector.check_network("serve", "model", n_classes=5, n_features=8)


def test_only_rejectors_pass_for_rejectors(rejector):
    need_rejector("predict", rejector)
    with pytest.raises(
        TypeError, match="predict: rejector must be a Rejector, got str"
    ):
        need_rejector("predict", "folder/")


def cautioned(fitted, **options):
    """Calibrate; return the rejector and what was warned of."""
    options = {"surrogate": drawn(200, seed=3, unknown=True), **options}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = Rejector.calibrate(fitted, known=drawn(200, seed=2), **options)
    return made, caught


def like_knowns():
    """Unknowns that cannot be told from knowns."""
    outputs = drawn(200, seed=7)
    return Outputs(
        features=outputs.features,
        logits=outputs.logits,
        labels=np.full(200, -1),
        classes=outputs.classes,
    )


def test_every_caution_is_a_warning_at_the_line_of_the_caller(fitted):
    made, caught = cautioned(fitted)
    assert {"CAL006", "CAL011"} <= {one.code for one in made.cautions}
    assert [str(one.message) for one in caught] == [str(one) for one in made.cautions]
    assert {one.category for one in caught} == {CalibrationWarning}
    assert {one.filename for one in caught} == {__file__}


def test_a_threshold_that_collapses_is_refused_unless_the_risk_is_accepted(fitted):
    options = {"alpha": 0.95, "surrogate": like_knowns()}
    with pytest.raises(CalibrationError, match=r"CAL00[12].*accept_risk=True"):
        cautioned(fitted, **options)
    made, caught = cautioned(fitted, **options, accept_risk=True)
    grave = [str(one) for one in made.cautions if one.severity == "error"]
    assert grave
    assert set(grave) <= {str(one.message) for one in caught}
    assert isinstance(CalibrationError("x"), ValueError)


@pytest.mark.parametrize(
    ("objective", "options"), [("at_tpr", {"tpr": 1.0}), ("at_fpr", {"fpr": 0.0})]
)
def test_a_rate_at_the_edge_that_was_asked_for_is_kept(fitted, objective, options):
    options = {"surrogate": like_knowns(), **options}
    made, caught = cautioned(fitted, objective=objective, **options)
    assert {"CAL001", "CAL002"} & set(made.report.codes)
    assert len(caught) == len(made.cautions)


def test_without_unknowns_that_is_warned_of(fitted):
    made, caught = cautioned(fitted, objective="conformal", surrogate=None)
    assert "CAL010" in made.report.codes
    assert any(str(one.message).startswith("CAL010") for one in caught)


def test_with_the_training_data_known_classes_are_left_out(fitted):
    known, surrogate = drawn(200, seed=2), drawn(200, seed=3, unknown=True)
    train = drawn(300, seed=1)
    made, _ = cautioned(fitted, train=train)
    near = selection.leave_classes_out(fitted.detector, train, known, folds=3)
    scores = Scores.concat([fitted.score(known), fitted.score(surrogate)])
    expected = thresholds.report(scores, made.threshold, near=near)
    assert made.report.cautions == expected.cautions
    assert "not checked: whether" in str(cautioned(fitted)[0].report)
    assert "not checked: whether" not in str(made.report)


@pytest.mark.parametrize("n", [200, 2000])
def test_either_side_of_the_calibration_data_is_refused_as_a_test(rejector, n):
    seen = drawn(200, seed=2), drawn(200, seed=3, unknown=True)
    new = drawn(n, seed=4), drawn(n, seed=5, unknown=True)
    assert 0 < rejector.operate(Outputs.concat(new)).oosa < 1
    for test in ((new[0], seen[1]), (seen[0], new[1]), seen):
        with pytest.raises(ValueError, match="other samples than those"):
            rejector.operate(Outputs.concat(test))


def test_the_weight_of_the_report_is_that_of_the_threshold(fitted):
    test = Outputs.concat([drawn(90, seed=4), drawn(30, seed=5, unknown=True)])
    for alpha, used in ((None, 0.5), (0.7, 0.7), ("counts", 200 / 300)):
        made, _ = cautioned(
            fitted, alpha=alpha, surrogate=drawn(100, seed=3, unknown=True)
        )
        assert made.threshold.alpha == used
        assert made.operate(test).alpha_test == used
        assert made.operate(test, alpha="counts").alpha_test == 0.75


def test_decisions_count_what_was_rejected(rejector):
    found = rejector.decide(drawn(50, seed=4))
    assert len(found) == 50
    assert found.is_rejected.tolist() == (found.labels == -1).tolist()
    assert found.n_rejected == np.count_nonzero(found.labels == -1)


def test_training_outputs_for_calibration_need_labels_and_logits(fitted):
    parts = {"known": drawn(200, seed=2), "surrogate": drawn(200, seed=3, unknown=True)}
    with pytest.raises(ValueError, match="train must be outputs with labels and logit"):
        Rejector.calibrate(fitted, train=drawn(300, seed=1, labelled=False), **parts)
    # The only known class cannot be left out: calibrated as without `train`.
    parts["known"] = parts["known"].take(parts["known"].labels == 0)
    found = Rejector.calibrate(fitted, train=drawn(300, seed=1), **parts)
    plain = Rejector.calibrate(fitted, **parts)
    assert found.report.to_dict() == plain.report.to_dict()


def test_outputs_that_name_classes_in_another_order_are_refused(fitted, tmp_path):
    known, surrogate = drawn(200, seed=2), drawn(200, seed=3, unknown=True)
    made = Rejector.calibrate(fitted, known=known, surrogate=surrogate)
    made.save(tmp_path / "rejector")
    turned = drawn(50, seed=4, classes=tuple("bacd"))
    mixed = Outputs.concat([turned, drawn(9, seed=5, unknown=True, classes=())])
    rule = "in the same order, got 'b' for class 0, which is 'a' there"
    for one in (made, Rejector.load(tmp_path / "rejector")):
        for use in (one.predict, one.score, one.known, one.decide, one.operate):
            with pytest.raises(ValueError, match=f"those of the rejector, {rule}"):
                use(mixed)
        assert one.predict(drawn(50, seed=4, classes=())).size == 50


def test_calibration_refuses_parts_with_classes_in_another_order():
    bare = detectors.MaxLogit().fit()  # knows of no classes itself
    known, turned = drawn(200, seed=2), tuple("bacd")
    unknown = drawn(200, seed=3, unknown=True)
    train = drawn(200, seed=1, classes=turned)
    parts = {
        "surrogate": {"surrogate": drawn(9, unknown=True, classes=turned)},
        "train": {"surrogate": unknown, "train": train},
        "sets_known": {"surrogate": unknown, "sets": "lac", "sets_known": train},
    }
    for name, given in parts.items():
        with pytest.raises(ValueError, match=f"classes of {name} must be those of kn"):
            Rejector.calibrate(bare, known=known, **given)
