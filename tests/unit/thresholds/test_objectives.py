"""Objectives: bad arguments, missing sides, and values by hand."""

import numpy as np
import pytest

from openset import Scores, UndefinedMetricError, thresholds
from tests.unit.thresholds.makers import grouped, scattered


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: thresholds.osa(s, 1.5), r"alpha must be a number in \[0, 1\]"),
        (lambda s: thresholds.osa(s, at="end"), "at must be one of 'score'"),
        (lambda s: thresholds.at_fpr(s, -0.1), "fpr must be a number in"),
        (lambda s: thresholds.at_tpr(s, 0), "tpr must be a number in"),
        (
            lambda s: thresholds.conformal(s, 0.95),
            r"error_rate must be a number in \[0, 0",
        ),
        (lambda s: thresholds.conformal(s, confidence=1), "confidence must be"),
        (lambda s: thresholds.by_cost(s, [[0, 1]]), "cost_matrix must be square"),
        (lambda s: thresholds.by_cost(s, np.full((6, 6), np.nan)), "must be finite"),
        (lambda s: thresholds.by_cost(s, np.full((6, 6), 1e300)), "must be finite, fr"),
        (lambda s: thresholds.by_cost(s, [[0, 1], [1]]), "must be rows of numbers, eq"),
        (lambda s: thresholds.by_cost(s, [["a"]]), "cost_matrix must be rows of numb"),
        (lambda s: thresholds.by_cost(s, missed_unknown=1e300), "missed_unknown must"),
        (
            lambda s: thresholds.by_cost(s, np.ones((6, 6)), missed_unknown=5),
            "cost_matrix must be left out if the three costs are given",
        ),
        (lambda s: thresholds.osa(s, 1.5), r"thresholds\.osa: alpha must be"),
        (lambda s: thresholds.per_class(s, 1.5), r"thresholds\.per_class: alpha must"),
        (lambda s: thresholds.by_cost(s, missed_unknown=-1), "missed_unknown must be"),
        (lambda s: thresholds.per_class(s, strength=-1), "strength must be"),
        (lambda s: thresholds.worst_group(s, criterion="x"), "criterion must be one"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(scattered(0, 50))


def test_a_missing_side_is_said():
    known = Scores(labels=[0, 1], predicted=[0, 0], known=[1.0, 2.0])
    unknown = Scores(labels=[-1], predicted=[0], known=[1.0])
    for method in (thresholds.osa, thresholds.by_cost, thresholds.worst_group):
        for scores in (known, unknown):
            with pytest.raises(UndefinedMetricError, match="undefined without"):
                method(scores)
    with pytest.raises(UndefinedMetricError, match="at_fpr: undefined without unknown"):
        thresholds.at_fpr(known)
    for method in (thresholds.at_tpr, thresholds.conformal):
        assert method(known).n == (2, 0)
        with pytest.raises(UndefinedMetricError, match="undefined without known"):
            method(unknown)


def test_an_objective_of_ones_own_is_called_and_checked():
    calibration, test = grouped(0), grouped(1)
    mine = lambda s: thresholds.at_tpr(s, 0.9)  # noqa: E731
    done = thresholds.operate(calibration, test, objective=mine)
    assert done.threshold == thresholds.at_tpr(calibration, 0.9)
    with pytest.raises(TypeError, match="a function from Scores to Threshold"):
        thresholds.operate(calibration, test, objective=lambda s: 0.5)
    with pytest.raises(ValueError, match="objective must be one of 'osa'"):
        thresholds.operate(calibration, test, objective="best")
    with pytest.raises(TypeError, match="an option must be one of alpha, prefer, at"):
        thresholds.operate(calibration, test, fpr=0.1)


def test_accepting_all_leaves_no_lower_end():
    scores = scattered(0, 50)
    found = {
        "osa": thresholds.osa(scores, 1.0),
        "by_cost": thresholds.by_cost(scores, missed_unknown=0, confusion=0),
        "worst_group": thresholds.worst_group(scores, 1.0),
        "anchored": thresholds.anchored(scores, 1.0, strength=0),
        "at_fpr": thresholds.at_fpr(scores, 1.0),
        "at_tpr": thresholds.at_tpr(
            Scores(labels=[0, -1], predicted=[0, 0], known=[1.0, 2.0]), 1.0
        ),
    }
    for name, chosen in found.items():
        assert chosen.interval.low == -np.inf, name
        assert np.isfinite(chosen.value), name


def test_an_unknown_at_infinity_is_never_rejected():
    scores = Scores(
        labels=[0, 0, -1, -1, -1], predicted=[0] * 5, known=[4, 2, np.inf, 1, 0]
    )
    with pytest.raises(ValueError, match=r"fpr must be at least 0\.333333, the share"):
        thresholds.at_fpr(scores, 0.3)
    assert thresholds.at_fpr(scores, 0.4).value == 2.0
    assert thresholds.at_fpr(scores, 0.4).interval.low == 1.0
