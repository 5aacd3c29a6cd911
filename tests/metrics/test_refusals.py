"""Undefined metrics raise, and bad arguments are named."""

import inspect
from typing import Literal, get_origin, get_type_hints

import numpy as np
import pytest

from openset import Scores, UndefinedMetricError, evaluate, metrics
from openset.metrics import Accumulator

KNOWN_ONLY = Scores(labels=[0, 1], predicted=[0, 0], known=[0.3, 0.1])
UNKNOWN_ONLY = Scores(labels=[-1, -1], predicted=[0, 0], known=[0.3, 0.1])
GOOD = Scores(labels=[0, 1, -1, -1], predicted=[0, 0, 1, 0], known=[4.0, 3, 2, 1])

# All others need both sides.
SIDES = ["known", "unknown"]
NEEDS = {"ccr": ["known"], "urr": ["unknown"], "confusion": []}
for one in ("accuracy", "inner_score", "halfpoint_score", "overall_score"):
    NEEDS[one] = ["known"]


def call(name, scores, **options):
    function = metrics.get(name).function
    if "threshold" in inspect.signature(function).parameters:
        options.setdefault("threshold", 0.2)
    if name == "oosa":
        options.setdefault("calibration", GOOD.take([1, 0, 2, 3]))
    return function(scores, **options)


@pytest.mark.parametrize("name", metrics.names())
@pytest.mark.parametrize(
    ("scores", "side"), [(KNOWN_ONLY, "unknown"), (UNKNOWN_ONLY, "known")]
)
def test_a_missing_side_makes_the_metric_undefined(name, scores, side):
    if side not in NEEDS.get(name, SIDES):
        call(name, scores)
        return
    with pytest.raises(
        UndefinedMetricError, match=f"^{name}: undefined without {side}"
    ):
        call(name, scores)


def test_evaluate_sweep_and_a_calibration_need_both_sides():
    for scores in (KNOWN_ONLY, UNKNOWN_ONLY):
        for call_it in (
            *(evaluate, metrics.sweep),
            lambda scores: metrics.oosa(GOOD, scores),
        ):
            with pytest.raises(UndefinedMetricError, match="undefined without"):
                call_it(scores)


AT_A_THRESHOLD = [n for n in metrics.names() if metrics.get(n).kind == "threshold"]


@pytest.mark.parametrize("name", AT_A_THRESHOLD)
def test_every_metric_at_a_threshold_refuses_nan_and_strings(name):
    for bad in (float("nan"), "high", None, True):
        with pytest.raises(ValueError, match=f"^{name}: threshold must be"):
            call(name, GOOD, threshold=bad)


BAD_RATES = ("x", 1.5, -0.5, np.nan, True)


def options_of(name):
    """Return the options of a metric with whether each is one of some words."""
    function = metrics.get(name).function
    hints = get_type_hints(function)
    given = set(inspect.signature(function).parameters)
    given -= {"scores", "threshold", "calibration"}
    return [(option, get_origin(hints[option]) is Literal) for option in sorted(given)]


@pytest.mark.parametrize(
    ("name", "option", "is_word"),
    [(name, *one) for name in metrics.names() for one in options_of(name)],
)
def test_every_option_of_every_metric_is_checked(name, option, is_word):
    """Options are words from a list, or rates; a cost may be above 1."""
    rule = "one of '" if is_word else "a number in"
    numbers = ("x", -0.5, np.nan, True) if option == "beta" else BAD_RATES
    for bad in ("x", None) if is_word else numbers:
        with pytest.raises(ValueError, match=f"^{name}: {option} must be {rule}"):
            call(name, GOOD, **{option: bad})


def test_a_threshold_chosen_on_the_test_set_itself_is_refused():
    with pytest.raises(ValueError, match="the same object"):
        metrics.oosa(GOOD, GOOD)


def test_one_sample_a_side_has_values_but_no_interval():
    result = evaluate(Scores(labels=[0, -1], predicted=[0, 0], known=[2.0, 1.0]))
    assert (result["auroc"], result["openauc"]) == (1, 1)
    assert set(result.intervals) == {"accuracy"}


def test_an_unknown_entry_of_an_evaluation_lists_the_known_ones():
    with pytest.raises(KeyError, match="must be one of openauc"):
        evaluate(GOOD)["acuracy"]


def test_an_accumulator_refuses_nothing_mixes_and_clashes():
    with pytest.raises(ValueError, match="nothing to compute"):
        Accumulator().compute()
    mixed = Accumulator()
    mixed.update(GOOD, ids=[1, 2, 3, 4])
    with pytest.raises(ValueError, match="ids must be given always or never"):
        mixed.update(GOOD)


@pytest.mark.parametrize("name", [*metrics.names(), "sweep", "osa_optimum", "by_group"])
def test_every_metric_asks_for_scores(name):
    function = getattr(metrics, name)
    options = {"calibration": GOOD} if name == "oosa" else {}
    if "threshold" in inspect.signature(function).parameters:
        options["threshold"] = 0.2
    with pytest.raises(TypeError, match=f"^{name}: scores must be Scores, got ndarray"):
        function(np.ones(3), **options)


def test_an_accumulator_keeps_what_it_was_given():
    collected, known = Accumulator(), np.array([4.0, 3, 2, 1])
    ids = np.arange(4)
    collected.update(GOOD.with_known(known), ids=ids)
    known[:], ids[:] = 0, 9  # the loop fills its arrays again
    assert dict(collected.compute()) == dict(evaluate(GOOD))
    collected.merge(collected)
    assert len(collected.scores()) == 4
    with pytest.raises(TypeError, match=r"Accumulator\.update: scores must be Scores"):
        collected.update(known)


def test_rare_ties_are_not_called_none():
    rng = np.random.default_rng(0)
    known = np.r_[rng.normal(size=1000), 0.5, rng.normal(size=1000), 0.5]
    labels = np.repeat([0, -1], 1001)
    scores = Scores(labels=labels, predicted=np.zeros(2002, int), known=known)
    assert evaluate(scores).notes[0].startswith("9.98e-05% of the known-unknown pairs")
