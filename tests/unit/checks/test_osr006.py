"""OSR006: threshold chosen on test data."""

from types import SimpleNamespace

import numpy as np
import pytest

from openset import Scores, thresholds
from openset.checks._osr006 import shared
from tests.unit.checks.makers import look, scores


def test_calibrating_on_the_test_set_is_a_finding():
    finding = look("OSR006", scores=scores(), calibration=scores())
    assert finding.is_finding
    assert "200 known samples" in finding.message


def test_calibrating_on_the_test_unknowns_alone_is_a_finding():
    test, other = scores(), scores(seed=1)
    mixed = Scores.concat([other.take(~other.is_unknown), test.take(test.is_unknown)])
    finding = look("OSR006", scores=test, calibration=mixed)
    assert finding.is_finding
    assert "200 unknown samples" in finding.message


def test_row_order_does_not_hide_it():
    order = np.random.default_rng(0).permutation(400)
    test = scores()
    assert look("OSR006", scores=test, calibration=test.take(order)).is_finding


def test_other_samples_pass():
    finding = look("OSR006", scores=scores(), calibration=scores(seed=1))
    assert finding.status == "passed"


def test_ties_are_no_evidence():
    one = scores()
    saturated = one.with_known(np.ones(len(one)))
    finding = look("OSR006", scores=saturated, calibration=saturated)
    assert finding.status == "passed"


def test_shared_agrees_with_counting_rows_one_by_one():
    rng = np.random.default_rng(3)
    for _ in range(20):
        n = int(rng.integers(5, 30))
        sets = [
            Scores(
                labels=rng.integers(0, 2, n),
                predicted=rng.integers(0, 2, n),
                known=rng.integers(0, 40, n),
            )
            for _ in range(2)
        ]
        rows = [list(zip(s.labels, s.predicted, s.known, strict=True)) for s in sets]
        columns = [s.known.tolist() for s in sets]
        single = [
            {row for row in found if column.count(row[2]) == 1}
            for found, column in zip(rows, columns, strict=True)
        ]
        n_both = len(single[0] & single[1])
        is_much = n_both >= 2 and n_both >= 0.2 * min(map(len, single))
        assert shared(*sets) == (n_both if is_much else 0)


def test_an_oracle_headline_is_a_finding():
    assert look("OSR006", headline="osa_best").is_finding


def test_a_threshold_that_calls_itself_an_oracle_is_a_finding():
    threshold = SimpleNamespace(value=0.5, method="oracle OSA", n=10)
    assert look("OSR006", scores=scores(), thresholds=threshold).is_finding


def test_a_threshold_equal_to_one_test_score_is_a_finding():
    test = scores()
    finding = look("OSR006", scores=test, thresholds=float(test.known[7]))
    assert finding.is_finding
    assert "exactly the score" in finding.message


def test_a_typed_threshold_that_hits_a_score_is_none():
    test = Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[0.9, 0.5, 0.1])
    finding = look("OSR006", scores=test, thresholds=0.5)
    assert finding.status == "not applicable"


@pytest.mark.parametrize("form", [lambda t: t, lambda t: t.to_dict()])
@pytest.mark.parametrize(("seed", "status"), [(0, "finding"), (1, "passed")])
def test_the_fingerprint_of_a_threshold_tells_its_samples(seed, status, form):
    chosen = thresholds.osa(scores(seed=seed))
    finding = look("OSR006", scores=scores(seed=0), thresholds=form(chosen))
    assert finding.status == status
    assert ("fingerprint" in finding.message) == (status == "finding")


def test_a_fingerprint_knows_test_samples_among_others():
    test, other = scores(seed=0), scores(seed=1)
    mixed = Scores.concat([other.take(~other.is_unknown), test.take(test.is_unknown)])
    chosen = thresholds.at_fpr(mixed, 0.1)
    assert look("OSR006", scores=test, thresholds=chosen).is_finding


def test_a_fingerprint_survives_the_last_digits():
    test = scores()
    chosen = thresholds.osa(test)
    moved = test.with_known(test.known * (1 + 1e-12))
    assert look("OSR006", scores=moved, thresholds=chosen).is_finding


def test_an_infinite_threshold_is_read_back():
    record = thresholds.osa(scores()).to_dict() | {"value": "-inf"}
    assert look("OSR006", scores=scores(seed=1), thresholds=record).status == "passed"


@pytest.mark.parametrize(
    ("mark", "error"), [({"hashes": 3}, ValueError), (object(), TypeError)]
)
def test_what_is_no_fingerprint_is_refused(mark, error):
    threshold = SimpleNamespace(value=0.5, method="osa", fingerprint=mark)
    with pytest.raises(error, match="fingerprint must be that of a Threshold"):
        look("OSR006", scores=scores(), thresholds=threshold)


def test_each_name_has_its_own_calibration():
    test = {"msp": scores(), "energy": scores(seed=1)}
    calibration = {"msp": scores(seed=2), "energy": scores(seed=1)}
    finding = look("OSR006", scores=test, calibration=calibration)
    assert finding.is_finding
    assert finding.message.startswith("energy:")


def test_a_bare_threshold_says_nothing():
    finding = look("OSR006", scores=scores(), thresholds=0.5)
    assert finding.status == "not applicable"
    assert "calibration" in finding.message
