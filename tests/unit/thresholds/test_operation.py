"""Operational open-set accuracy end to end, and its sweeps."""

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores, UndefinedMetricError, metrics, thresholds
from openset.thresholds.intervals import of_osa
from tests.unit.thresholds.makers import grouped


def test_operation_agrees_with_the_metrics():
    calibration, test = grouped(0), grouped(1)
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
    calibration, test = grouped(0), grouped(1)
    done = thresholds.operate(calibration, test, alpha=0.9, alpha_test=0.3)
    value = thresholds.osa(calibration, 0.9).value
    assert done.threshold.value == value
    assert (done.alpha_calibration, done.alpha_test) == (0.9, 0.3)
    assert done.oosa == approx(metrics.osa(test, value, alpha=0.3))


def test_each_group_is_reported_against_all_knowns():
    calibration, test = grouped(0), grouped(1)
    done = thresholds.operate(calibration, test, alpha=0.5)
    by_name = {row["group"]: row for row in done.groups}
    for name, row in by_name.items():
        part = test.take(~test.is_unknown | (test.groups == name))
        assert row["n"] == 300
        assert row["oosa"] == approx(metrics.osa(part, done.threshold.value, alpha=0.5))
        assert row["oracle"] == metrics.osa_optimum(part, alpha=0.5).value
    assert by_name["near"]["urr"] < by_name["far"]["urr"]


def test_the_figure_has_the_curve_a_star_and_a_diamond():
    done = thresholds.operate(grouped(0), grouped(1))
    table = done.figure().to_frame()
    curve = table[table.kind == "curve"]
    star = table[table.kind == "operational"].iloc[0]
    diamond = table[table.kind == "best"].iloc[0]
    assert diamond.osa == curve.osa.max() == done.oracle
    at_star = curve[curve.threshold >= done.threshold.value].iloc[-1]
    assert (star.urr, star.osa) == (approx(at_star.urr), approx(at_star.osa))


def test_thresholds_per_class_operate_as_they_decide():
    calibration, test = grouped(0), grouped(1)
    done = thresholds.operate(calibration, test, objective="per_class", strength=5)
    decided = done.threshold.decide(test)
    right = decided == test.labels
    assert done.oosa == approx(right.mean())
    assert done.gap >= 0


def test_calibration_and_test_must_differ():
    scores = grouped(0)
    with pytest.raises(ValueError, match="calibration must be other samples"):
        thresholds.operate(scores, scores)
    copy = scores.take(np.arange(len(scores))[::-1])
    with pytest.raises(ValueError, match=r"thresholds\.operate: test scores must be"):
        thresholds.operate(scores, copy)


def test_evaluate_takes_a_chosen_threshold_and_knows_its_samples():
    calibration, test = grouped(0), grouped(1)
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


def test_the_alpha_sweep_reports_every_threshold_alike():
    calibration, test = grouped(0), grouped(1)
    table = thresholds.sweep_alpha(calibration, test)
    assert table.column("alpha").tolist() == [i / 10 for i in range(1, 10)]
    assert (np.diff(table.column("threshold")) <= 0).all()  # knowns matter more
    assert np.unique(table.column("oracle")).size == 1
    assert (table.column("gap") >= 0).all()
    assert table.column("gap")[4] < table.column("gap")[[0, -1]].max()
    assert table.to_frame().shape == (9, len(table.columns))


def test_the_surrogate_sweep_shows_what_an_easy_surrogate_does():
    calibration, test = grouped(0), grouped(1, far=1.0)  # in operation all are near
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


def test_the_weight_to_report_with_is_the_one_given_last():
    calibration, test = grouped(0, n=30), grouped(1, n=40)
    chosen = thresholds.osa(calibration, 0.3)
    free = thresholds.at_tpr(calibration, 0.9)  # it has no weight of its own
    for given, options, weight in (
        (chosen, {}, 0.3),
        (chosen, {"alpha": 0.7}, 0.7),
        (chosen, {"alpha": 0.7, "alpha_test": 0.2}, 0.2),
        (chosen, {"alpha_test": "counts"}, 0.5),
        (free, {}, 0.5),
        (calibration, {"alpha": 0.3}, 0.3),
    ):
        done = thresholds.operate(given, test, **options)
        assert (done.alpha_test, done.threshold.alpha) == (
            approx(weight),
            done.alpha_calibration,
        )
        value = done.threshold.value
        assert done.oosa == approx(metrics.osa(test, value, alpha=weight))
        assert done.oracle == approx(metrics.osa_optimum(test, alpha=weight).value)
    fewer = test.take(slice(40, None))
    assert thresholds.operate(chosen, fewer, alpha="counts").alpha_test == 40 / 120


def test_an_operation_is_written_with_its_groups():
    calibration, test = grouped(0, n=30), grouped(1, n=40)
    done = thresholds.operate(calibration, test, alpha=0.3)
    document = done.to_dict()
    assert document["groups"] == list(done.groups)
    for key in (
        "oosa",
        "oracle",
        "gap",
        "alpha_calibration",
        "alpha_test",
        "ccr",
        "urr",
    ):
        assert document[key] == getattr(done, key)
    assert (document["low"], document["high"]) == (
        done.interval.low,
        done.interval.high,
    )
    assert document["threshold"] == done.threshold.value
    assert done.interval == of_osa(done.threshold.rates(test), 0.3)
    for row in done.groups:
        part = test.take(~test.is_unknown | (test.groups == row["group"]))
        span = of_osa(done.threshold.rates(part), 0.3)
        assert (row["low"], row["high"], row["n"]) == (span.low, span.high, 40)
        assert row["gap"] == approx(row["oracle"] - row["oosa"])
        assert row["urr"] == approx(metrics.urr(part, done.threshold.value))
    assert repr(done) == (
        f"Operation(oosa={done.oosa:.4f}, oracle={done.oracle:.4f}, "
        f"gap={done.gap:.4f}, alpha 0.3 in calibration and 0.3 in the test, "
        f"threshold {done.threshold})"
    )
    best = metrics.osa_optimum(test, alpha=0.3).threshold
    assert (done.best.threshold, done.best.osa) == (best, done.oracle)
    assert done.best.urr == metrics.urr(test, best)


def test_an_operation_needs_labelled_test_samples_of_both_sides():
    calibration, test = grouped(0, n=30), grouped(1, n=40)
    with pytest.raises(TypeError, match=r"^thresholds\.operate: scores must be Scores"):
        thresholds.operate(calibration, [1.0])
    for part in (test.is_unknown, ~test.is_unknown):
        with pytest.raises(UndefinedMetricError, match=r"^thresholds\.operate: undef"):
            thresholds.operate(calibration, test.take(part))
    with pytest.raises(ValueError, match=r"^thresholds\.operate: alpha must be a numb"):
        thresholds.operate(thresholds.osa(calibration), test, alpha=2)


def test_a_sweep_has_what_each_operation_has():
    calibration, test = grouped(0, n=30), grouped(1, n=40)
    table = thresholds.sweep_alpha(calibration, test, alphas=(0.2, 0.8), alpha_test=0.6)
    for row in table:
        done = thresholds.operate(calibration, test, alpha=row["alpha"], alpha_test=0.6)
        document = done.to_dict()
        assert document["alpha_test"] == 0.6
        for key in set(row) - {"alpha"}:
            assert row[key] == document[key], key
    by_default = thresholds.sweep_alpha(calibration, test)
    assert by_default.column("alpha").size == 9
    halves = thresholds.sweep_alpha(calibration, test, alpha_test=0.5)
    assert by_default.column("oosa").tolist() == halves.column("oosa").tolist()
    known = calibration.take(~calibration.is_unknown)
    unknown = calibration.take(calibration.is_unknown)
    rows = thresholds.sweep_surrogate(known, unknown, test, alpha=0.3)
    assert rows.column("n").tolist() == [30, 30, 60]
    for row in rows:
        mine = unknown.groups == row["surrogate"]
        part = unknown if row["surrogate"] == "together" else unknown.take(mine)
        together = Scores.concat([known, part])
        done = thresholds.operate(together, test, alpha=0.3)
        assert (row["oosa"], row["threshold"]) == (done.oosa, done.threshold.value)
