"""`Threshold` as a value."""

from dataclasses import replace

import numpy as np
import pytest

from openset import ArtefactError, Scores, thresholds
from openset.metrics import Rates
from openset.metrics.intervals import wilson
from openset.thresholds import Threshold
from openset.thresholds.threshold import of_osa
from tests.thresholds.makers import scattered


def by_hand(**changes):
    made = {
        "value": 0.5,
        "method": "mine",
        "target": None,
        "n": (90, 10),
        "interval": (0.4, 0.5),
        "rate": ("tpr", 0.9, None),
    }
    return Threshold(**(made | changes))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "0.5 by mine from 90 known and 10 unknown samples"),
        ({"target": 0.1}, "0.5 by mine (target 0.1) from 90 known and 10 unknown"),
        ({"alpha": 0.3}, "0.5 by mine (alpha 0.3) from 90 known and 10 unknown"),
        ({"alpha": 0.3, "target": 0.3}, "0.5 by mine (alpha 0.3) from 90 known and 10"),
        (
            {"alpha": 0.3, "target": 2},
            "0.5 by mine (target 2, alpha 0.3) from 90 known",
        ),
        ({"value": np.inf}, "inf by mine from 90 known and 10 unknown samples"),
    ],
)
def test_it_is_printed_with_what_was_asked_for(changes, text):
    assert str(by_hand(**changes)).startswith(text)


def test_plain_tuples_become_named_ones_and_numbers_are_checked():
    made = by_hand()
    assert (made.n.known, made.n.unknown) == (90, 10)
    assert (made.interval.low, made.rate.name) == (0.4, "tpr")
    scores = Scores(labels=[0, 0, -1], predicted=[0, 1, 0], known=[0.5, 2.0, 0.4])
    assert made.accepts(scores).tolist() == [True, True, False]
    made.check_disjoint(scores)  # it does not know its samples
    for bad in (np.nan, "x", None):
        with pytest.raises(ValueError, match="Threshold: threshold must be a number"):
            by_hand(value=bad)


@pytest.mark.parametrize("value", [0.5, np.inf, -np.inf])
def test_what_is_written_is_plain_and_read_again(value):
    made = by_hand(value=value, target=np.inf, alpha=0.25)
    assert made.to_dict() == {
        "value": value if value == 0.5 else str(value),
        "method": "mine",
        "target": "inf",
        "n": {"known": 90, "unknown": 10},
        "interval": {"low": 0.4, "high": 0.5},
        "rate": {"name": "tpr", "value": 0.9, "interval": None},
        "alpha": 0.25,
        "fingerprint": None,
    }
    for one in (made, thresholds.osa(scattered(0))):
        assert Threshold.from_json(one.to_json()) == one


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '{"value": "x"}', "null"])
def test_what_is_no_threshold_is_refused(text):
    with pytest.raises(ArtefactError, match=r"Threshold\.from"):
        Threshold.from_json(text)


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.5, 1.0])
def test_the_interval_adds_distances_to_the_ends_as_variances_are(alpha):
    counts = {"n_correct": 35, "n_accepted_known": 33, "n_accepted_correct": 30}
    rates = Rates(n_known=40, n_unknown=60, n_rejected_unknown=17, **counts)
    down = up = 0.0
    for weight, hits, n in ((alpha, 30, 40), (1 - alpha, 17, 60)):
        span = wilson(hits, n, 0.95)
        down += weight**2 * (hits / n - span.low) ** 2
        up += weight**2 * (span.high - hits / n) ** 2
    found, value = of_osa(rates, alpha), rates.osa(alpha)
    ends = (found.low, found.high)
    assert ends == pytest.approx((value - down**0.5, value + up**0.5))
    assert (found.level, found.method) == (0.95, "Wilson, summed")
    all_right = replace(rates, n_accepted_correct=40, n_rejected_unknown=60)
    assert of_osa(all_right, alpha).high == 1.0
    all_wrong = replace(rates, n_accepted_correct=0, n_rejected_unknown=0)
    assert of_osa(all_wrong, alpha).low == 0.0
