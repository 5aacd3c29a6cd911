"""Prediction sets: the rule, by hand and by a slow loop; in the rejector, and saved."""

import json
from math import ceil

import numpy as np
import pytest
from scipy.special import softmax

from openset import Outputs, Rejector, detectors
from openset.rejector import SetRule
from tests.unit.rejector.test_rejector import drawn


def slow_score(logits, c, method, penalty=0.01, free=5):
    p = softmax(logits)
    if method == "lac":
        return 1 - p[c]
    order = sorted(range(p.size), key=lambda k: (-p[k], k))
    rank = order.index(c)
    return sum(p[k] for k in order[:rank]) + penalty * max(rank + 1 - free, 0)


def slow_limit(scores, coverage):
    rank = ceil((len(scores) + 1) * coverage - 1e-12)
    return np.inf if rank > len(scores) else sorted(scores)[rank - 1]


@pytest.mark.parametrize("method", ["lac", "raps"])
@pytest.mark.parametrize("by_class", [False, True])
def test_sets_hold_the_classes_within_the_limit(method, by_class):
    rng = np.random.default_rng(0)
    logits, new = rng.normal(size=(120, 8)), rng.normal(size=(40, 8))
    labels = rng.integers(0, 8, 120)
    labels[labels == 7] = 0  # no sample of the last class
    rule = SetRule.calibrate(
        logits, labels, method=method, coverage=0.8, by_class=by_class
    )
    own = [slow_score(z, y, method) for z, y in zip(logits, labels, strict=True)]
    limits = [slow_limit(own, 0.8)] * 8
    if by_class:
        limits = [
            slow_limit([s for s, y in zip(own, labels, strict=True) if y == c], 0.8)
            for c in range(8)
        ]
        assert limits[7] == np.inf  # nothing is known of it: it is always a candidate
    for z, row in zip(new, rule.contains(new), strict=True):
        expected = [
            slow_score(z, c, method) <= limits[c] + 1e-12 or c == z.argmax()
            for c in range(8)
        ]
        assert row.tolist() == expected


def test_large_inputs_are_handled_in_parts(monkeypatch):
    from openset.rejector import _sets  # noqa: PLC0415

    logits = np.random.default_rng(0).normal(size=(50, 4))
    rule = SetRule.calibrate(logits, logits.argmax(axis=1) // 2, method="raps")
    whole = rule.contains(logits)
    monkeypatch.setattr(_sets, "_AT_A_TIME", 12)
    np.testing.assert_array_equal(rule.contains(logits), whole)


def test_too_few_samples_leave_every_class_possible():
    rule = SetRule.calibrate([[9.0, 0.0]] * 8, [0] * 8, coverage=0.9)
    assert rule.limits == (np.inf,)
    assert rule.contains([[9.0, 0.0]]).all()
    enough = SetRule.calibrate([[9.0, 0.0]] * 9, [0] * 9, coverage=0.9)
    assert not enough.contains([[9.0, 0.0]]).all()


@pytest.fixture(scope="module")
def rejector():
    return Rejector.calibrate(
        detectors.Energy().fit(drawn(300, seed=1)),
        known=drawn(300, seed=2),
        surrogate=drawn(200, seed=3, unknown=True),
        sets="lac",
        coverage=0.97,
    )


def test_the_rejector_answers_with_sets_or_unknown(rejector):
    new = drawn(200, seed=4, labelled=False)
    decided = rejector.decide(new)
    sizes = decided.sets.sum(axis=1)
    assert (sizes[decided.is_rejected] == 0).all()
    assert (sizes[~decided.is_rejected] >= 1).all()
    assert sizes.max() > 1
    for classes, label in zip(rejector.predict_sets(new), decided.labels, strict=True):
        assert classes == [] if label == -1 else label in classes


def test_the_limit_is_computed_from_accepted_knowns_only(rejector):
    known = drawn(300, seed=2)
    accepted = rejector.predict(known) != -1
    own = 1 - softmax(known.logits, axis=1)[np.arange(300), known.labels]
    assert rejector.sets.n == accepted.sum()
    assert rejector.sets.limits == (
        pytest.approx(slow_limit(own[accepted].tolist(), 0.97)),
    )
    other = Rejector.calibrate(
        detectors.Energy().fit(drawn(300, seed=1)),
        known=known,
        surrogate=drawn(200, seed=3, unknown=True),
        sets="lac",
        coverage=0.97,
        sets_known=Outputs.concat([drawn(90, seed=8), drawn(20, seed=9, unknown=True)]),
    )
    assert other.threshold == rejector.threshold
    assert other.sets.n <= 90


@pytest.mark.parametrize("method", ["lac", "raps"])
def test_sets_are_saved_and_loaded(rejector, method, tmp_path):
    sets = SetRule.calibrate(
        [[2.0, 1.0]] * 30, [0, 1, 0] * 10, method=method, by_class=True, coverage=0.95
    )
    assert np.inf in sets.limits  # which JSON lacks
    assert SetRule.from_dict(json.loads(json.dumps(sets.to_dict()))) == sets
    loaded = Rejector.load(rejector.save(tmp_path / "r"))
    assert loaded.sets == rejector.sets
    new = drawn(50, seed=4)
    assert loaded.predict_sets(new) == rejector.predict_sets(new)
    assert loaded.to(new.logits).sets == rejector.sets


def test_without_sets_none_are_given(tmp_path):
    fitted = detectors.Energy().fit(drawn(300, seed=1))
    plain = Rejector.calibrate(
        fitted, known=drawn(300, seed=2), surrogate=drawn(200, seed=3, unknown=True)
    )
    loaded = Rejector.load(plain.save(tmp_path / "r"))
    for one in (plain, loaded):
        decided = one.decide(drawn(10, seed=4))
        assert one.sets is decided.sets is None
        assert decided.set_classes == []
        with pytest.raises(ValueError, match="must be calibrated with sets"):
            one.predict_sets(drawn(10, seed=4))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sets": "aps"}, "sets must be one of 'lac', 'raps'"),
        ({"sets": "lac", "coverage": 1.0}, r"coverage must be a number in \(0, 1\)"),
        ({"sets": "lac", "sets_known": "no labels"}, "sets_known must be labelled"),
        ({"sets": "lac", "sets_known": "features"}, "must be with logits"),
    ],
)
def test_bad_options_are_named(options, words):
    given = {
        "no labels": drawn(10, labelled=False),
        "features": Outputs(features=np.ones((3, 8)), labels=[0, 1, 2]),
    }
    if "sets_known" in options:
        options = options | {"sets_known": given[options["sets_known"]]}
    with pytest.raises(ValueError, match=f"Rejector.calibrate: .*{words}"):
        Rejector.calibrate(
            detectors.Energy().fit(drawn(300, seed=1)),
            known=drawn(100, seed=2),
            objective="at_tpr",
            **options,
        )


def test_sets_by_class_need_as_many_classes():
    rule = SetRule.calibrate([[2.0, 1.0]] * 9, [0] * 9, by_class=True)
    with pytest.raises(ValueError, match="logits must be of 2 classes"):
        rule.contains([[1.0, 2.0, 3.0]])
