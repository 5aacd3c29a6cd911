"""Options of metrics, in every replicate and on both sets."""

from dataclasses import replace

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores, UndefinedMetricError, metrics, thresholds
from openset.metrics.intervals import replicates


def draw(seed=0, n=120, *, n_classes=4, never=None, decimals=1):
    """Class `never` has no samples, but is predicted."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, n_classes, n)
    labels = np.where(labels == never, 0, labels)
    guesses = rng.integers(0, n_classes, n)
    predicted = np.where(rng.random(n) < 0.6, np.maximum(labels, 0), guesses)
    known = (rng.normal(size=n) + 1.5 * (labels >= 0)).round(decimals)
    return Scores(labels=labels, predicted=predicted, known=known, n_classes=n_classes)


OPTIONS = [
    ("halfpoint_score", {"absent": "zero"}),
    ("osa", {"alpha": 0.3}),
    ("osa", {"alpha": 1.0}),
    ("fpr_at_tpr", {"tpr": 0.5}),
    ("fpr_at_tpr", {"tpr": 0.5, "positive": "unknown"}),
    ("error_at_tpr", {"tpr": 0.7, "average": "pooled"}),
    ("error_at_tpr", {"tpr": 0.7, "positive": "unknown"}),
    ("aupr", {"rule": "trapezoid"}),
    ("aupr", {"rule": "trapezoid", "positive": "unknown"}),
    ("openauc", {"ties": "strict"}),
    ("openauc", {"ties": "optimistic"}),
    ("partial_openauc", {"max_fpr": 0.3}),
    ("ccr_at_fpr", {"fpr": 0.0}),
    ("ccr_at_fpr", {"fpr": 0.4}),
    ("f_score", {"average": "macro_f"}),
    ("youden", {"kind": "binary"}),
    ("normalized_accuracy", {"balance": 0.3, "aus": "recall"}),
]


@pytest.mark.parametrize(("name", "params"), OPTIONS)
def test_an_option_means_the_same_in_every_replicate(name, params):
    scores = draw(3)
    row = replace(metrics.get(name), params=params)
    slow = replace(row, takes_counts=False)  # the function itself, on resampled rows
    fast, expected = replicates(
        scores, {"fast": row, "slow": slow}, threshold=0.6, resamples=6, rng=1
    ).values()
    assert fast == approx(expected, abs=1e-12)
    assert np.ptp(fast) > 0
    at = (0.6,) if row.kind == "threshold" else ()
    default = metrics.get(name).function(scores, *at)
    assert row.function(scores, *at, **params) != approx(default)


def test_accepting_all_and_rejecting_all_have_no_end():
    right = Scores(labels=[0, 0, -1], predicted=[0] * 3, known=[1.0, 2, 3])
    everything = metrics.osa_optimum(right, alpha=1.0)
    assert (everything.threshold, everything.low) == (1.0, -np.inf)
    nothing = metrics.osa_optimum(right, alpha=0.0)
    assert (nothing.threshold, nothing.low, nothing.high) == (np.inf, 3.0, np.inf)
    # A score of +inf cannot be rejected: then "reject all" is no candidate.
    endless = right.with_known([1.0, 2, np.inf])
    found = metrics.osa_optimum(endless, alpha=0.0)
    assert (found.value, found.threshold, found.high) == (0.0, 1.0, np.inf)


def test_what_is_infinite_throughout_can_only_be_accepted():
    every = Scores(labels=[0, -1], predicted=[0, 0], known=[np.inf, np.inf])
    for alpha, value in ((0.0, 0.0), (0.5, 0.5)):
        found = metrics.osa_optimum(every, alpha=alpha)
        assert (found.value, found.threshold) == (value, np.inf)
        assert (found.low, found.high) == (-np.inf, np.inf)
    fair = thresholds.worst_group(every)
    assert (fair.value, fair.rate.value) == (np.inf, 0.5)


def test_an_operational_accuracy_takes_its_weight_on_both_sets():
    test, calibration = draw(0), draw(1)
    values = {}
    for alpha in ("counts", 0.2, 0.9):
        chosen = metrics.osa_optimum(calibration, alpha=alpha)
        values[alpha] = metrics.oosa(test, calibration, alpha=alpha)
        assert values[alpha] == metrics.osa(test, chosen.threshold, alpha=alpha)
    assert len({*values.values()}) == 3
    assert metrics.oosa(test, calibration) == thresholds.operate(calibration, test).oosa
    for number in (metrics.osa(test, 0.5), metrics.sweep(test).osa.max()):
        assert number != approx(metrics.osa(test, 0.5, alpha="counts"))
    assert metrics.osa(test, 0.5) == metrics.osa(test, 0.5, alpha=0.5)
    for alpha in (None, "half"):
        with pytest.raises(ValueError, match="alpha must be a number in"):
            metrics.osa(test, 0.5, alpha=alpha)
    with pytest.raises(UndefinedMetricError, match=r"^oosa: undefined without"):
        metrics.oosa(test.take(test.is_unknown), calibration)


def test_an_oracle_takes_no_options_but_those_it_is_computed_with():
    scores = draw(7)
    best = metrics.osa_optimum(scores, alpha=0.2).value
    assert metrics.get("osa_best:alpha=0.2").value(scores) == approx(best)
    with pytest.raises(ValueError, match=r"f_score_best must be without options"):
        metrics.get("f_score_best:average=micro")
