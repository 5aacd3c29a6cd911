"""OOSA end to end, its sweeps, and the report of a calibration."""

import json
from dataclasses import replace

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores, metrics, thresholds
from openset.thresholds import Report, Table


def drawn(seed, n=300, *, near=1.0, far=-1.0, known=2.5, groups=True):
    """Half knowns, a quarter unknowns near them, a quarter far."""
    rng = np.random.default_rng(seed)
    names = np.repeat(["known", "near", "far"], [2 * n, n, n])
    centre = np.repeat([known, near, far], [2 * n, n, n])
    labels = np.where(names == "known", rng.integers(0, 3, 4 * n), -1)
    wrong = rng.random(4 * n) < 0.1
    return Scores(
        labels=labels,
        predicted=np.where(wrong, 3, np.maximum(labels, 0)),
        known=centre + rng.normal(size=4 * n),
        groups=names if groups else None,
        n_classes=4,
    )


def test_operation_agrees_with_the_metrics():
    calibration, test = drawn(0), drawn(1)
    done = thresholds.operate(calibration, test)
    value = thresholds.osa(calibration).value
    assert done.oosa == approx(metrics.oosa(test, calibration))
    assert done.oosa == approx(metrics.osa(test, value))
    assert done.oracle == metrics.osa_optimum(test).value
    assert done.gap == approx(done.oracle - done.oosa)
    assert (done.ccr, done.urr) == (metrics.ccr(test, value), metrics.urr(test, value))
    assert (done.alpha_calibration, done.alpha_test) == (0.5, 0.5)
    assert done.oosa in done.interval


def test_alpha_can_differ_between_choosing_and_reporting():
    calibration, test = drawn(0), drawn(1)
    done = thresholds.operate(calibration, test, alpha=0.9, alpha_test=0.3)
    value = thresholds.osa(calibration, 0.9).value
    assert done.threshold.value == value
    assert (done.alpha_calibration, done.alpha_test) == (0.9, 0.3)
    assert done.oosa == approx(metrics.osa(test, value, alpha=0.3))


def test_each_group_is_reported_against_all_knowns():
    calibration, test = drawn(0), drawn(1)
    done = thresholds.operate(calibration, test, alpha=0.5)
    by_name = {row["group"]: row for row in done.groups}
    for name, row in by_name.items():
        part = test.take(~test.is_unknown | (test.groups == name))
        assert row["n"] == 300
        assert row["oosa"] == approx(metrics.osa(part, done.threshold.value, alpha=0.5))
        assert row["oracle"] == metrics.osa_optimum(part, alpha=0.5).value
    assert by_name["near"]["urr"] < by_name["far"]["urr"]


def test_the_figure_has_the_curve_a_star_and_a_diamond():
    done = thresholds.operate(drawn(0), drawn(1))
    table = done.figure().to_frame()
    curve = table[table.kind == "curve"]
    star = table[table.kind == "operational"].iloc[0]
    diamond = table[table.kind == "best"].iloc[0]
    assert diamond.osa == curve.osa.max() == done.oracle
    at_star = curve[curve.threshold >= done.threshold.value].iloc[-1]
    assert (star.urr, star.osa) == (approx(at_star.urr), approx(at_star.osa))


def test_thresholds_per_class_operate_as_they_decide():
    calibration, test = drawn(0), drawn(1)
    done = thresholds.operate(calibration, test, objective="per_class", strength=5)
    decided = done.threshold.decide(test)
    right = decided == test.labels
    assert done.oosa == approx(right.mean())
    assert done.gap >= 0


def test_margins_beyond_all_floats_are_infinite():
    scores = Scores(
        labels=[0, 0, -1], predicted=[0, 0, 0], known=[1.5e308, -1.5e308, 1]
    )
    for end in (-1.5e308, 1.5e308):
        chosen = thresholds.per_class(scores, 0.5)
        chosen = replace(chosen, per_class=(end,), fingerprint=None)
        cut, value = chosen.cut(scores)
        assert ((cut.known >= value) == chosen.accepts(scores)).all()


def test_calibration_and_test_must_differ():
    scores = drawn(0)
    with pytest.raises(ValueError, match="calibration must be other samples"):
        thresholds.operate(scores, scores)
    copy = scores.take(np.arange(len(scores))[::-1])
    with pytest.raises(ValueError, match=r"thresholds\.operate: test scores must be"):
        thresholds.operate(scores, copy)


def test_evaluate_takes_a_chosen_threshold_and_knows_its_samples():
    calibration, test = drawn(0), drawn(1)
    chosen = thresholds.osa(calibration)
    expected = metrics.evaluate(test, chosen.value)
    assert metrics.evaluate(test, chosen).to_json() == expected.to_json()
    each = metrics.by_group(test, chosen)["far"]
    alone = test.take(test.is_unknown <= (test.groups == "far"))
    assert each.to_json() == metrics.evaluate(alone, chosen.value).to_json()
    with pytest.raises(ValueError, match="other samples than those the threshold"):
        metrics.evaluate(calibration, chosen)
    with pytest.raises(ValueError, match=r"must be one number.*thresholds\.operate"):
        metrics.evaluate(test, thresholds.per_class(calibration))


def test_an_objective_of_ones_own_is_called_and_checked():
    calibration, test = drawn(0), drawn(1)
    mine = lambda s: thresholds.at_tpr(s, 0.9)  # noqa: E731
    done = thresholds.operate(calibration, test, objective=mine)
    assert done.threshold == thresholds.at_tpr(calibration, 0.9)
    with pytest.raises(TypeError, match="a function from Scores to Threshold"):
        thresholds.operate(calibration, test, objective=lambda s: 0.5)
    with pytest.raises(ValueError, match="objective must be one of 'osa'"):
        thresholds.operate(calibration, test, objective="best")
    with pytest.raises(TypeError, match="an option must be one of alpha, prefer, at"):
        thresholds.operate(calibration, test, fpr=0.1)


def test_the_alpha_sweep_reports_every_threshold_alike():
    calibration, test = drawn(0), drawn(1)
    table = thresholds.sweep_alpha(calibration, test)
    assert table.column("alpha").tolist() == [i / 10 for i in range(1, 10)]
    assert (np.diff(table.column("threshold")) <= 0).all()  # knowns matter more
    assert np.unique(table.column("oracle")).size == 1
    assert (table.column("gap") >= 0).all()
    assert table.column("gap")[4] < table.column("gap")[[0, -1]].max()
    assert table.to_frame().shape == (9, len(table.columns))


def test_the_surrogate_sweep_shows_what_an_easy_surrogate_does():
    calibration, test = drawn(0), drawn(1, far=1.0)  # in operation all are near
    known = calibration.take(~calibration.is_unknown)
    unknown = calibration.take(calibration.is_unknown)
    table = thresholds.sweep_surrogate(known, unknown, test, alpha=0.5)
    rows = {row["surrogate"]: row for row in table}
    assert list(rows) == ["far", "near", "together"]
    assert rows["far"]["threshold"] < rows["near"]["threshold"]
    assert rows["far"]["gap"] > rows["near"]["gap"] + 0.02
    named = {"a": unknown.take(unknown.groups == "near")}
    (row,) = thresholds.sweep_surrogate(known, named, test, alpha=0.5)
    assert row["threshold"] == rows["near"]["threshold"]
    with pytest.raises(ValueError, match="must be other than 'together'"):
        thresholds.sweep_surrogate(known, {"a": unknown, "together": unknown}, test)


def test_a_sound_calibration_raises_no_caution():
    scores = drawn(0, near=-1.0)
    found = thresholds.report(scores, thresholds.osa(scores))
    assert found.codes == ("CAL006",)  # two kinds are few
    three = Scores(
        labels=scores.labels,
        predicted=scores.predicted,
        known=scores.known,
        groups=np.where(np.arange(len(scores)) % 2, scores.groups, "third"),
    )
    assert thresholds.report(three, thresholds.osa(three)).codes == ()
    assert found.osa == approx(metrics.osa(scores, found.threshold.value))
    assert 0 < found.flat_share < 0.5
    assert found.flat.low < found.threshold.value <= found.flat.high
    best = metrics.osa_optimum(scores).value
    for value in (np.nextafter(found.flat.low, np.inf), found.flat.high):
        assert metrics.osa(scores, value) >= best - 0.01 - 1e-12
    assert metrics.osa(scores, found.flat.low) < best - 0.01
    assert found.alphas.column("alpha").size == 9


def test_groups_that_want_different_thresholds_are_cautioned():
    scores = drawn(0, near=3.0, far=-3.0)
    found = thresholds.report(scores, thresholds.osa(scores, 0.5))
    assert "CAL003" in found.codes
    assert found.worst_group == "near"
    assert "Consider the objective worst_group" in str(found)
    fair = thresholds.report(scores, thresholds.worst_group(scores, 0.5))
    assert "CAL003" in fair.codes
    assert "Consider the objective worst_group" not in str(fair)
    loss = max(row["loss"] for row in fair.groups)
    assert f"no kind of unknowns loses more than {loss:.4f}" in str(fair)


def test_a_threshold_at_the_edge_is_cautioned():
    scores = drawn(0, near=2.5, far=2.5)
    found = thresholds.report(scores, thresholds.osa(scores, 0.95))
    assert {"CAL001", "CAL002"} <= set(found.codes)
    message = str(found.cautions[0])
    assert message.startswith("CAL001: the threshold")
    assert "lowest scores" in message
    high = thresholds.report(scores, thresholds.osa(scores, 0.0, prefer="highest"))
    assert {"CAL001", "CAL002"} <= set(high.codes)


def test_labels_that_are_not_the_networks_are_cautioned():
    scores = drawn(0)
    found = thresholds.report(scores, thresholds.osa(scores))
    assert found.accuracy == metrics.accuracy(scores)
    assert f"closed-set accuracy of the known samples {found.accuracy:.4f}" in str(
        found
    )
    assert "CAL007" not in found.codes
    labels = scores.labels.copy()
    is_known = labels >= 0
    labels[is_known] = np.random.default_rng(1).permutation(labels[is_known])
    shuffled = Scores(labels=labels, predicted=scores.predicted, known=scores.known)
    assert "CAL007" in thresholds.report(shuffled, thresholds.osa(shuffled)).codes
    one_class = Scores(
        labels=np.minimum(scores.labels, 0),
        predicted=np.zeros(len(scores), int),
        known=scores.known,
    )
    assert "CAL007" not in thresholds.report(one_class, thresholds.osa(one_class)).codes


def test_few_samples_of_one_kind_are_cautioned():
    scores = drawn(0, n=10, groups=False)
    found = thresholds.report(scores, thresholds.osa(scores))
    assert {"CAL004", "CAL006"} <= set(found.codes)


def test_a_report_survives_json():
    for groups in (True, False):
        scores = drawn(0, groups=groups)
        for name in ("osa", "per_class", "conformal"):
            chosen = thresholds.OBJECTIVES[name](scores)
            found = thresholds.report(scores, chosen)
            document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
            again = Report.from_dict(document, chosen)
            assert again.to_dict() == found.to_dict()
            assert str(again) == str(found)
            del document["accuracy"]  # as it was written at first
            assert Report.from_dict(document, chosen).accuracy is None


def test_a_report_says_what_is_true_of_its_objective():
    scores = drawn(0)
    said = {
        name: str(thresholds.report(scores, choose(scores)))
        for name, choose in thresholds.OBJECTIVES.items()
    }
    assert {name for name in said if "samples were known" in said[name]} == {"osa"}
    assert "expected of new samples" in said["conformal"]
    assert "on the calibration data" in said["at_tpr"]
    apart = Scores(
        labels=[0] * 50 + [-1] * 50 + [1] * 50 + [-1] * 50,
        predicted=[0] * 100 + [1] * 100,
        known=np.repeat([3.0, 2.0, 2.0, 1.0], 50),
    )
    best = thresholds.report(apart, thresholds.per_class(apart, strength=0))
    assert best.osa == 1.0
    assert [row["loss"] for row in best.groups] == [0.0]


def test_without_unknowns_the_known_side_is_reported():
    scores = drawn(0)
    known = scores.take(~scores.is_unknown)
    found = thresholds.report(known, thresholds.conformal(known, 0.1))
    assert (found.osa, found.urr, found.worst_group) == (None, None, None)
    assert found.accepted_known == approx(0.9, abs=0.01)


def test_a_table_has_columns():
    table = Table(({"a": 1, "b": 2}, {"a": 3, "b": 4}))
    assert (len(table), table.columns, table[1]["a"]) == (2, ("a", "b"), 3)
    assert table.to_frame().a.tolist() == [1, 3]
    with pytest.raises(ValueError, match="name must be one of 'a', 'b'"):
        table.column("c")
