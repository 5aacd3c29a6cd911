"""Operational open-set accuracy end to end."""

import pytest
from pytest import approx  # noqa: PT013

from openset import UndefinedMetricError, metrics, thresholds
from openset.thresholds.threshold import of_osa
from tests.thresholds.makers import grouped

CALIBRATION, TEST = grouped(0, n=60), grouped(1, n=40)
BACKWARDS = CALIBRATION.take(slice(None, None, -1))


@pytest.mark.parametrize("alpha", [0.3, 0.5])
def test_an_operation_agrees_with_the_metrics(alpha):
    done = thresholds.operate(CALIBRATION, TEST, alpha=alpha)
    value = thresholds.osa(CALIBRATION, alpha).value
    best = metrics.osa_optimum(TEST, alpha=alpha)
    assert done.oosa == approx(metrics.oosa(TEST, CALIBRATION, alpha=alpha))
    assert done.oosa == approx(metrics.osa(TEST, value, alpha=alpha))
    assert done.oracle == best.value
    assert done.gap == approx(done.oracle - done.oosa)
    assert (done.ccr, done.urr) == (metrics.ccr(TEST, value), metrics.urr(TEST, value))
    assert done.interval == of_osa(done.threshold.rates(TEST), alpha)
    for row in done.groups:
        part = TEST.take(~TEST.is_unknown | (TEST.groups == row["group"]))
        span = of_osa(done.threshold.rates(part), alpha)
        assert (row["low"], row["high"], row["n"]) == (span.low, span.high, 40)
        assert row["oosa"] == approx(metrics.osa(part, value, alpha=alpha))
        assert row["oracle"] == approx(metrics.osa_optimum(part, alpha=alpha).value)
        assert row["gap"] == approx(row["oracle"] - row["oosa"])
        assert row["urr"] == metrics.urr(part, value)
    document = done.to_dict()
    assert document["groups"] == list(done.groups)
    assert document["threshold"] == value
    for key in ("oosa", "oracle", "gap", "alpha_test", "ccr", "urr"):
        assert document[key] == getattr(done, key)
    assert f"alpha {alpha} in calibration and {alpha} in the test" in repr(done)


def test_the_weight_to_report_with_is_the_one_given_last():
    chosen = thresholds.osa(CALIBRATION, 0.3)
    free = thresholds.at_tpr(CALIBRATION, 0.9)  # it has no weight of its own
    for given, options, weight in (
        (chosen, {}, 0.3),
        (chosen, {"alpha": 0.7}, 0.7),
        (chosen, {"alpha": 0.7, "alpha_test": 0.2}, 0.2),
        (chosen, {"alpha_test": "counts"}, 0.5),
        (free, {}, 0.5),
        (CALIBRATION, {}, 0.5),
        (CALIBRATION, {"alpha": 0.3}, 0.3),
    ):
        done = thresholds.operate(given, TEST, **options)
        assert done.alpha_test == approx(weight)
        assert done.alpha_calibration == done.threshold.alpha
        value = done.threshold.value
        assert done.oosa == approx(metrics.osa(TEST, value, alpha=weight))
        assert done.oracle == approx(metrics.osa_optimum(TEST, alpha=weight).value)
    fewer = TEST.take(slice(40, None))
    assert thresholds.operate(chosen, fewer, alpha="counts").alpha_test == 40 / 120


def test_evaluate_takes_a_chosen_threshold_and_knows_its_samples():
    chosen = thresholds.osa(CALIBRATION)
    expected = metrics.evaluate(TEST, chosen.value)
    assert metrics.evaluate(TEST, chosen).to_json() == expected.to_json()
    each = metrics.by_group(TEST, chosen)["far"]
    alone = TEST.take(TEST.is_unknown <= (TEST.groups == "far"))
    assert each.to_json() == metrics.evaluate(alone, chosen.value).to_json()
    with pytest.raises(ValueError, match="other samples than those the threshold"):
        metrics.evaluate(CALIBRATION, chosen)


@pytest.mark.parametrize(
    ("calibration", "test", "options", "error", "words"),
    [
        (CALIBRATION, CALIBRATION, {}, ValueError, "calibration must be other samples"),
        (CALIBRATION, BACKWARDS, {}, ValueError, "test sc"),
        (CALIBRATION, [1.0], {}, TypeError, "scores must be Scores"),
        (CALIBRATION, TEST.take(TEST.is_unknown), {}, UndefinedMetricError, "undef"),
        (CALIBRATION, TEST.take(~TEST.is_unknown), {}, UndefinedMetricError, "undef"),
        (thresholds.osa(CALIBRATION), TEST, {"alpha": 2}, ValueError, "alpha must be"),
    ],
)
def test_what_cannot_be_operated_is_refused(calibration, test, options, error, words):
    with pytest.raises(error, match=rf"^thresholds\.operate: {words}"):
        thresholds.operate(calibration, test, **options)
