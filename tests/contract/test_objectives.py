"""What every objective of a threshold keeps to."""

import inspect

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores, UndefinedMetricError, thresholds
from openset.metrics.intervals import wilson
from openset.thresholds import Fingerprint, Threshold
from openset.thresholds.threshold import of_osa
from tests.thresholds.makers import grouped

NAMES = thresholds.objectives()
KNOWN = Scores(labels=[0, 1, 1], predicted=[0, 0, 1], known=[3.0, 2.0, 1.0])
UNKNOWN = Scores(labels=[-1, -1], predicted=[0, 0], known=[2.0, 1.0])

# A value that an option refuses, beside every value it takes.
BAD = {
    "alpha": [-0.1, 1.1, "count", True],
    "fpr": [-0.1, 1.1, None],
    "tpr": [0, 1.1, None],
    "error_rate": [-0.1, 0.51, None],
    "missed_unknown": [-1, np.nan, 1e101],
    "false_unknown": [-1, np.nan, 1e101],
    "confusion": [-1, np.nan, 1e101],
}
GOOD = {
    "alpha": [0, 1, 0.25, "counts"],
    "fpr": [0, 0.5, 1],
    "tpr": [0.5, 1],
    "error_rate": [0, 0.25, 0.5],
    "missed_unknown": [0, 1e100],
    "false_unknown": [0, 1e100],
    "confusion": [0, 1e100],
}


def options(name):
    found = inspect.signature(getattr(thresholds, name)).parameters
    return [option for option in found if option != "scores"]


CASES = [(name, option) for name in NAMES for option in options(name)]


@pytest.mark.parametrize(("name", "option"), CASES)
def test_bad_options_are_named_and_good_ones_taken(name, option):
    function, scores = getattr(thresholds, name), grouped(0, n=10)
    for bad in BAD[option]:
        with pytest.raises(ValueError, match=f"^thresholds.{name}: {option} must be"):
            function(scores, **{option: bad})
    for good in GOOD[option]:
        assert isinstance(function(scores, **{option: good}), Threshold)


@pytest.mark.parametrize("name", NAMES)
def test_an_objective_asks_for_scores_with_the_sides_it_needs(name):
    function = getattr(thresholds, name)
    with pytest.raises(TypeError, match=f"^thresholds.{name}: scores must be Scores"):
        function([1.0, 2.0])
    needs_unknowns = name in thresholds.objectives(needs_unknowns=True)
    assert needs_unknowns != (name in thresholds.objectives(needs_unknowns=False))
    if needs_unknowns:
        with pytest.raises(UndefinedMetricError, match=f"^thresholds.{name}: undef"):
            function(KNOWN)
    else:
        assert function(KNOWN).n == (3, 0)
    if name != "at_fpr":
        with pytest.raises(UndefinedMetricError, match=f"^thresholds.{name}: undef"):
            function(UNKNOWN)


@pytest.mark.parametrize("name", NAMES)
def test_a_threshold_records_how_it_was_chosen(name):
    scores = grouped(3, n=40)
    weighted = "alpha" in options(name)
    given = {"alpha": 0.25} if weighted else {}
    chosen = getattr(thresholds, name)(scores, **given)
    assert chosen.method == name
    assert chosen.n == (80, 80)
    assert chosen.alpha == (0.25 if weighted else None)
    assert chosen.fingerprint == Fingerprint.of(scores)
    low, high = chosen.interval
    assert low < chosen.value <= high
    assert high in {np.inf, *scores.known}
    assert low in {-np.inf, *scores.known}
    if name in {"at_fpr", "at_tpr"}:  # the interval decides as one
        assert not ((scores.known > low) & (scores.known < high)).any()
    rates = chosen.rates(scores)
    if chosen.rate.name == "osa":
        assert chosen.rate.value == approx(rates.osa(0.25))
        assert chosen.rate.interval == of_osa(rates, 0.25)


@pytest.mark.parametrize("name", [n for n in NAMES if "alpha" in options(n)])
def test_known_and_unknown_samples_weigh_the_same_by_default(name):
    scores = grouped(3, n=40).take(slice(20, None))
    function = getattr(thresholds, name)
    half, counted = function(scores, alpha=0.5), function(scores, alpha="counts")
    assert function(scores) == half
    assert (half.alpha, counted.alpha) == (0.5, approx(60 / 140))


def test_targets_and_rates_are_those_asked_for():
    scores = grouped(3, n=40)
    found = {name: getattr(thresholds, name)(scores) for name in NAMES}
    assert {name: one.target for name, one in found.items()} == {
        "osa": 0.5,
        "worst_group": 0.5,
        "by_cost": None,
        "at_fpr": 0.05,
        "at_tpr": 0.95,
        "conformal": 0.05,
    }
    assert {name: one.rate.name for name, one in found.items()} == {
        "osa": "osa",
        "worst_group": "osa of the hardest group",
        "by_cost": "cost",
        "at_fpr": "fpr",
        "at_tpr": "tpr",
        "conformal": "false_unknown",
    }
    for name, side in (("at_fpr", scores.is_unknown), ("at_tpr", ~scores.is_unknown)):
        hits = int((found[name].accepts(scores) & side).sum())
        assert found[name].rate.value == hits / 80
        assert found[name].rate.interval == wilson(hits, 80, 0.95)


@pytest.mark.parametrize("name", [n for n in NAMES if "alpha" in options(n)])
def test_of_equally_good_thresholds_the_smallest_is_taken(name):
    # Accepting down to 9, 6 or 1 gains a known and loses an unknown each time.
    scores = Scores(
        labels=[0, -1, 0, -1, 0, -1],
        predicted=[0] * 6,
        known=[9.0, 8.0, 6.0, 2.0, 1.0, 0.0],
    )
    found = getattr(thresholds, name)(scores)
    assert (found.value, *found.interval) == (1, 0, 1)
