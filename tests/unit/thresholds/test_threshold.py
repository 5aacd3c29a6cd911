"""`Threshold` as a value."""

from dataclasses import replace

import numpy as np
import pytest

from openset import ArtefactError, Scores, thresholds
from openset.thresholds import Threshold
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
