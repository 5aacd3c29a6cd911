"""The report of a calibration, with its cautions."""

import json

import numpy as np
from pytest import approx  # noqa: PT013

from openset import Scores, metrics, thresholds
from openset.thresholds import Report
from tests.unit.thresholds.makers import grouped


def test_a_sound_calibration_raises_no_caution():
    scores = grouped(0)
    found = thresholds.report(scores, thresholds.osa(scores), near=grouped(1))
    assert found.codes == ()
    assert found.kinds == (("far",), ("near",))
    assert found.osa == approx(metrics.osa(scores, found.threshold.value))
    assert 0 < found.flat_share < 0.5
    assert found.flat.low < found.threshold.value <= found.flat.high
    best = metrics.osa_optimum(scores).value
    for value in (np.nextafter(found.flat.low, np.inf), found.flat.high):
        assert metrics.osa(scores, value) >= best - 0.01 - 1e-12
    assert metrics.osa(scores, found.flat.low) < best - 0.01
    assert found.alphas.column("alpha").size == 9


def test_groups_that_want_different_thresholds_are_cautioned():
    # A threshold of 3 rejects the near kind and half of the knowns; 1 accepts both.
    scores = Scores(
        labels=np.repeat([0, -1], 200),
        predicted=np.zeros(400, int),
        known=np.repeat([1.0, 3.0, 2.0, 0.0], 100),
        groups=np.repeat(["known", "near", "far"], [200, 100, 100]),
    )
    found = thresholds.report(scores, thresholds.osa(scores, 0.5))
    assert found.threshold.value == 1.0
    assert "a kind loses 25.0% of open-set accuracy" in str(found)
    assert "CAL003" in found.codes
    assert found.worst_group == "near"
    assert "Consider the objective worst_group" in str(found)
    fair = thresholds.report(scores, thresholds.worst_group(scores, 0.5))
    assert "CAL003" in fair.codes
    assert "Consider the objective worst_group" not in str(fair)
    loss = max(row["loss"] for row in fair.groups)
    assert f"for every group of unknowns, open-set accuracy is at most {loss:.4f}" in (
        str(fair)
    )


def test_a_threshold_at_the_edge_is_cautioned():
    scores = grouped(0, near=2.5, far=2.5)
    found = thresholds.report(scores, thresholds.osa(scores, 0.95))
    assert {"CAL001", "CAL002"} <= set(found.codes)
    message = str(found.cautions[0])
    assert message.startswith("CAL001: the threshold")
    assert "lowest scores" in message
    high = thresholds.report(scores, thresholds.osa(scores, 0.0, prefer="highest"))
    assert {"CAL001", "CAL002"} <= set(high.codes)


def test_labels_that_are_not_the_networks_are_cautioned():
    scores = grouped(0)
    found = thresholds.report(scores, thresholds.osa(scores))
    assert found.accuracy == metrics.accuracy(scores)
    assert f"closed-set accuracy of the known samples {found.accuracy:.4f}" in str(
        found
    )
    assert "CAL007" not in found.codes
    labels = scores.labels.copy()
    is_known = labels >= 0
    labels[is_known] = np.random.default_rng(1).permutation(labels[is_known])
    shuffled = Scores(labels=labels, predicted=scores.predicted, known=scores.known)
    assert "CAL007" in thresholds.report(shuffled, thresholds.osa(shuffled)).codes
    one_class = Scores(
        labels=np.minimum(scores.labels, 0),
        predicted=np.zeros(len(scores), int),
        known=scores.known,
    )
    assert "CAL007" not in thresholds.report(one_class, thresholds.osa(one_class)).codes


def test_few_samples_of_one_kind_are_cautioned():
    scores = grouped(0, n=10, groups=False)
    found = thresholds.report(scores, thresholds.osa(scores))
    assert {"CAL004", "CAL006"} <= set(found.codes)


def test_a_report_survives_json():
    for groups in (True, False):
        scores = grouped(0, groups=groups)
        for name in ("osa", "per_class", "conformal"):
            chosen = getattr(thresholds, name)(scores)
            found = thresholds.report(scores, chosen)
            document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
            again = Report.from_dict(document, chosen)
            assert again.to_dict() == found.to_dict()
            assert str(again) == str(found)
            del document["accuracy"]  # as it was written at first
            assert Report.from_dict(document, chosen).accuracy is None


def test_a_report_says_what_is_true_of_its_objective():
    scores = grouped(0)
    said = {
        name: str(thresholds.report(scores, getattr(thresholds, name)(scores)))
        for name in thresholds.objectives()
    }
    assert {name for name in said if "samples were known" in said[name]} == {"osa"}
    assert "expected of new samples" in said["conformal"]
    assert "on the calibration data" in said["at_tpr"]
    apart = Scores(
        labels=[0] * 50 + [-1] * 50 + [1] * 50 + [-1] * 50,
        predicted=[0] * 100 + [1] * 100,
        known=np.repeat([3.0, 2.0, 2.0, 1.0], 50),
    )
    best = thresholds.report(apart, thresholds.per_class(apart, strength=0))
    assert best.osa == 1.0
    assert [row["loss"] for row in best.groups] == [0.0]


def test_without_unknowns_the_known_side_is_reported():
    scores = grouped(0)
    known = scores.take(~scores.is_unknown)
    found = thresholds.report(known, thresholds.conformal(known, 0.1))
    assert (found.osa, found.urr, found.worst_group) == (None, None, None)
    assert found.accepted_known == approx(0.9, abs=0.01)
