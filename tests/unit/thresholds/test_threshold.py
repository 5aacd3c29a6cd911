"""`Threshold` as a value."""

from dataclasses import replace

import numpy as np
import pytest

from openset import ArtefactError, Scores, thresholds
from openset.thresholds import Threshold
from openset.thresholds._threshold import Span, inside
from tests.unit.thresholds.makers import scattered


def test_it_records_how_it_was_chosen():
    scores = Scores(labels=[0, 0, 1, -1], predicted=[0, 0, 0, 1], known=[4, 3, 2, 1])
    found = thresholds.osa(scores, 0.5)
    assert (found.value, found.method, found.target) == (2.0, "osa", 0.5)
    assert (found.n, found.n_known, found.n_unknown) == ((3, 1), 3, 1)
    assert found.interval == (
        1.0,
        3.0,
    )  # accepting the known at 2, given a wrong class, changes nothing
    assert found.rate.value == pytest.approx(0.5 * 2 / 3 + 0.5)
    assert found.rate.value in found.rate.interval


def test_infinite_thresholds_survive_json():
    scores = Scores(labels=[0, -1], predicted=[1, 0], known=[1.0, 2.0])
    reject_all = thresholds.osa(scores, prefer="highest")
    assert reject_all.value == np.inf
    assert Threshold.from_json(reject_all.to_json()) == reject_all
    accept_all = thresholds.conformal(scores, 0.1)
    assert accept_all.value == -np.inf
    assert Threshold.from_json(accept_all.to_json()) == accept_all


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"value": "x"}', "null"])
def test_what_is_no_threshold_is_refused(text):
    with pytest.raises(ArtefactError, match=r"Threshold\.from"):
        Threshold.from_json(text)


def test_a_sample_exactly_at_the_threshold_is_accepted():
    scores = Scores(labels=[0, -1], predicted=[0, 0], known=[2.0, 1.0])
    found = thresholds.osa(scores)
    assert found.value == 2.0
    assert found.decide(scores).tolist() == [0, -1]


def test_a_class_without_its_own_threshold_has_the_global_one():
    found = thresholds.per_class(scattered(0), strength=1)
    assert len(found.per_class) == 5
    assert found.of(np.array([1, 7])).tolist() == [found.per_class[1], found.value]


def test_the_very_samples_of_calibration_are_refused_as_a_test():
    scores = scattered(0)
    found = thresholds.osa(scores)
    with pytest.raises(ValueError, match="other samples than those the threshold"):
        found.check_disjoint(scores)
    shuffled = scores.take(np.random.default_rng(1).permutation(len(scores)))
    with pytest.raises(ValueError, match=r"about 100% of them in common"):
        thresholds.operate(found, shuffled)
    half = scores.take(slice(0, 150))
    with pytest.raises(ValueError, match="in common"):
        thresholds.operate(found, Scores.concat([half, scattered(5, 100)]))


def test_margins_beyond_all_floats_are_infinite():
    scores = Scores(
        labels=[0, 0, -1], predicted=[0, 0, 0], known=[1.5e308, -1.5e308, 1]
    )
    for end in (-1.5e308, 1.5e308):
        chosen = thresholds.per_class(scores, 0.5)
        chosen = replace(chosen, per_class=(end,), fingerprint=None)
        cut, value = chosen.cut(scores)
        assert ((cut.known >= value) == chosen.accepts(scores)).all()


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
        (
            {"target": 0.1},
            "0.5 by mine (target 0.1) from 90 known and 10 unknown samples",
        ),
        (
            {"alpha": 0.3},
            "0.5 by mine (alpha 0.3) from 90 known and 10 unknown samples",
        ),
        ({"alpha": 0.3, "target": 0.3}, "0.5 by mine (alpha 0.3) from 90 known and 10"),
        (
            {"alpha": 0.3, "target": 2},
            "0.5 by mine (target 2, alpha 0.3) from 90 known and 10",
        ),
        ({"value": np.inf}, "inf by mine from 90 known and 10 unknown samples"),
    ],
)
def test_it_is_printed_with_what_was_asked_for(changes, text):
    assert str(by_hand(**changes)).startswith(text)


def test_plain_tuples_become_named_ones_and_numbers_are_checked():
    made = by_hand()
    assert (made.n.unknown, made.interval.low, made.rate.name) == (10, 0.4, "tpr")
    for bad in (np.nan, "x", None):
        with pytest.raises(ValueError, match="Threshold: threshold must be a number"):
            by_hand(value=bad)
        with pytest.raises(ValueError, match="Threshold: threshold must be a number"):
            by_hand(per_class=(0.5, bad))


@pytest.mark.parametrize(
    ("low", "high", "middle"),
    [
        *[(1.0, 2.0, 1.5), (-1.7e308, 1.7e308, 0.0), (1.5e308, 1.7e308, 1.6e308)],
        *[(-np.inf, 2.0, 9.0), (1.0, np.inf, 9.0)],  # no middle: the score stays
        (1.0, np.nextafter(1.0, 2.0), np.nextafter(1.0, 2.0)),  # nothing between
    ],
)
def test_the_middle_is_inside_the_interval(low, high, middle):
    span = Span(low, high)
    assert inside(span, 9.0, "middle") == pytest.approx(middle, rel=1e-15)
    assert inside(span, 9.0, "score") == 9.0
    if np.isfinite(low + high):
        assert low < inside(span, 9.0, "middle") <= high


def test_samples_are_decided_by_the_threshold_of_their_predicted_class():
    made = by_hand(per_class=(1.0, 2.0))
    scores = Scores(
        labels=[0, 0, 1, 1, -1, -1],
        predicted=[0, 0, 1, 1, 2, 2],
        known=[1.0, 0.9, 2.0, 1.9, 0.5, 0.4],
    )
    assert made.of(scores.predicted).tolist() == [1, 1, 2, 2, 0.5, 0.5]
    assert made.accepts(scores).tolist() == [True, False] * 3
    assert made.decide(scores).tolist() == [0, -1, 1, -1, 2, -1]
    cut, value = made.cut(scores)
    assert value == 0.0
    assert cut.known == pytest.approx(np.array([0, -0.1, 0, -0.1, 0, -0.1]))
    plain = by_hand()
    assert plain.of(scores.predicted).tolist() == [0.5] * 6
    assert plain.cut(scores) == (scores, 0.5)
    rates = made.rates(scores)
    assert (rates.n_accepted_correct, rates.n_rejected_unknown) == (2, 1)


@pytest.mark.parametrize("end", [-np.inf, np.inf])
def test_infinite_scores_and_thresholds_have_a_margin(end):
    made = by_hand(per_class=(end, 0.0))
    scores = Scores(
        labels=[0, 0, 0, 1],
        predicted=[0, 0, 0, 1],
        known=[-np.inf, np.inf, 1.0, -5e-324],
    )
    cut, value = made.cut(scores)
    assert ((cut.known >= value) == made.accepts(scores)).all()
    at_the_threshold = 0 if end < 0 else 1
    assert cut.known[at_the_threshold] == 0.0
    assert cut.known[2] == -end
    assert cut.known[3] < 0  # a margin that rounds to nought is still below


def test_what_is_written_is_plain():
    document = by_hand(target=np.inf, per_class=(np.inf, 1.0), alpha=0.25).to_dict()
    assert document == {
        "value": 0.5,
        "method": "mine",
        "target": "inf",
        "n": {"known": 90, "unknown": 10},
        "interval": {"low": 0.4, "high": 0.5},
        "rate": {"name": "tpr", "value": 0.9, "interval": None},
        "alpha": 0.25,
        "per_class": ["inf", 1.0],
        "fingerprint": None,
    }
    with pytest.raises(ArtefactError, match="not JSON"):
        Threshold.from_json("{")


def test_without_a_fingerprint_nothing_is_refused():
    scores = scattered(0)
    replace(thresholds.osa(scores), fingerprint=None).check_disjoint(scores)
    with pytest.raises(ValueError, match=r"^me: test scores must be other samples"):
        thresholds.osa(scores).check_disjoint(scores, caller="me")
