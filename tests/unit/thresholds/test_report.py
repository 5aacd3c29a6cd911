"""The report of a calibration, with its cautions."""

import dataclasses
import json

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores, UndefinedMetricError, metrics, thresholds
from openset.metrics.counts import ranking_counts
from openset.thresholds import Report
from openset.thresholds._report import _least_auroc
from openset.thresholds.groups import by_group
from openset.thresholds.kinds import kinds_of
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
    assert f"largest loss of a group: {loss:.4f} below" in str(fair)


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
    assert f"accuracy without rejection: {found.accuracy:.4f}" in str(found)
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
    assert {name for name in said if "with another alpha" in said[name]} == {"osa"}
    assert "known samples to be rejected: 0." in said["conformal"]
    assert "true positive rate: 0.9" in said["at_tpr"]
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


def osa_at(scores, value, alpha, mask=None):
    """Open-set accuracy at a threshold, against some of the unknowns."""
    unknown = scores.is_unknown if mask is None else scores.is_unknown & mask
    accepted = scores.known >= value
    ccr = (accepted & scores.is_correct).sum() / scores.n_known
    return alpha * ccr + (1 - alpha) * (1 - accepted[unknown].mean())


@pytest.mark.parametrize("decimals", [None, 1])
@pytest.mark.parametrize("alpha", [0.3, 0.5])
def test_every_fact_of_a_report_is_what_slow_loops_say(decimals, alpha):
    scores = grouped(3, n=40)
    if decimals is not None:
        scores = scores.with_known(scores.known.round(decimals))
    cuts = [*np.unique(scores.known).tolist(), np.inf]
    chosen = thresholds.osa(scores, alpha)
    found = thresholds.report(scores, chosen)
    for row in found.groups:
        mask = scores.groups == row["group"]
        osa = osa_at(scores, chosen.value, alpha, mask)
        best = max(osa_at(scores, value, alpha, mask) for value in cuts)
        rejected = scores.known[mask] < chosen.value
        assert (row["n"], row["urr"]) == (40, approx(rejected.mean()))
        assert (row["osa"], row["best"]) == (approx(osa), approx(best))
        assert row["loss"] == approx(best - osa)
    assert [row["group"] for row in found.groups] == ["far", "near"]
    hardest = min(found.groups, key=lambda row: row["osa"])
    assert found.worst_group == hardest["group"]
    assert found.kinds == (("far",), ("near",))  # so a kind is a group here
    lost = max(row["loss"] for row in found.groups)
    assert ("CAL003" in found.codes) == (lost > 0.05)
    for row, share in zip(found.alphas, [i / 10 for i in range(1, 10)], strict=True):
        best = max(osa_at(scores, value, share) for value in cuts)
        assert (row["alpha"], row["osa"]) == (share, approx(best))
        at = row["threshold"]
        assert osa_at(scores, at, share) == approx(best)
        assert row["urr"] == approx(np.mean(scores.known[scores.is_unknown] < at))
        of_known = scores.known[~scores.is_unknown]
        assert row["accepted_known"] == approx(np.mean(of_known >= at))
    rates = chosen.rates(scores)
    assert (found.ccr, found.urr, found.accepted_known) == (
        *(rates.ccr, rates.urr, rates.tpr),
    )
    assert found.osa == approx(osa_at(scores, chosen.value, alpha))


def at(scores, value, alpha=0.5):
    """Return a threshold of one's own."""
    return dataclasses.replace(thresholds.osa(scores, alpha), value=value)


@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.9])
def test_the_flat_range_is_all_thresholds_around_that_are_within_a_point(alpha):
    scores = grouped(3, n=40)
    scores = scores.with_known(scores.known.round(1))
    cuts = [-np.inf, *np.unique(scores.known).tolist(), np.inf]
    best = max(osa_at(scores, value, alpha) for value in cuts[1:])
    is_near = {v: osa_at(scores, v, alpha) >= best - 0.01 - 1e-12 for v in cuts}
    for value in cuts[1:]:
        found = thresholds.report(scores, at(scores, value, alpha))
        if not is_near[value]:
            assert (found.flat, found.flat_share) == ((value, value), 0.0)
            assert "within 0.01 of the best" not in str(found)
            continue
        low = high = cuts.index(value)
        while low > 0 and is_near[cuts[low]]:
            low -= 1
        while high + 1 < len(cuts) and is_near[cuts[high + 1]]:
            high += 1
        assert found.flat == (cuts[low], cuts[high])
        inside = (scores.known > cuts[low]) & (scores.known <= cuts[high])
        assert found.flat_share == approx(inside.mean())


def test_thresholds_between_and_beyond_the_scores_are_reported_as_they_decide():
    scores = Scores(
        labels=[0, 0, -1, -1], predicted=[0] * 4, known=[4.0, 3.0, 2.0, np.inf]
    )
    between = thresholds.report(scores, at(scores, 2.5))
    assert between.flat == (2.0, 3.0)
    assert between.osa == approx(0.75)
    beyond = thresholds.report(scores, at(scores, -9.0))
    assert (beyond.urr, beyond.accepted_known, beyond.flat_share) == (0.0, 1.0, 0.0)
    assert beyond.rates.n_rejected_unknown == 0


def test_a_report_is_read_line_by_line():
    scores = grouped(3, n=20)
    lines = {
        name: str(thresholds.report(scores, getattr(thresholds, name)(scores)))
        for name in ("osa", "worst_group", "conformal", "per_class")
    }
    assert lines["osa"].splitlines()[:-2] == [
        "threshold: 1.16499 by osa (alpha 0.5) from 40 known and 40 unknown samples",
        "open-set accuracy: 0.8500 (0.7547–0.9070)",
        "known samples accepted: 97.5%",
        "unknown samples rejected: 75.0%",
        "accuracy without rejection: 0.9500",
        "on a new kind of unknowns: open-set accuracy 0.87, between 0.55 and 0.98 "
        "(90%) on kinds like these; worse for unknowns that resemble your classes",
        "thresholds about as good: 1.161 to 1.165, with open-set accuracy within 0.01 "
        "of the best; 1.2% of the samples score in this range",
        "unknowns among rejected: 23% if 1% of all samples are unknown, 77% if 10% "
        "of all samples are unknown, for unknowns like those of the calibration",
        "with another alpha: threshold 2.833 with alpha 0.1, 1.165 with 0.9",
        "  far: 0.9500 of 20 rejected, OSA 0.9500, 0.0125 below its best",
        "  near: 0.5500 of 20 rejected, OSA 0.7500, 0.0125 below its best",
    ]
    assert (
        "largest loss of a group: 0.0125 below the open-set accuracy with the best "
        "threshold for that group"
    ) in lines["worst_group"].splitlines()
    assert lines["conformal"].splitlines()[1] == (
        "known samples to be rejected: 0.0488 (0.0061–0.1316)"
    )
    assert "within 0.01 of the best" not in lines["per_class"]
    one_group = thresholds.worst_group(dataclasses.replace(scores, groups=None))
    alone = thresholds.report(dataclasses.replace(scores, groups=None), one_group)
    assert "largest loss" not in str(alone)
    by_cost = thresholds.report(scores, thresholds.by_cost(scores))
    assert "cost of a decision: 0.1500" in str(by_cost)


def test_synthetic_groups_are_listed():
    scores = grouped(3, n=20)
    names = np.where(scores.groups == "far", "synthetic:mixup", scores.groups)
    mixed = dataclasses.replace(scores, groups=names)
    found = thresholds.report(mixed, thresholds.osa(mixed))
    assert found.synthetic == ("synthetic:mixup",)
    assert thresholds.report(scores, thresholds.osa(scores)).synthetic == ()


def test_a_report_asks_for_scores_and_a_threshold():
    scores = grouped(3, n=20)
    with pytest.raises(TypeError, match=r"thresholds\.report: scores must be Scores"):
        thresholds.report([1], thresholds.osa(scores))
    with pytest.raises(TypeError, match=r"thresholds\.report: threshold must be a Thr"):
        thresholds.report(scores, 0.5)
    with pytest.raises(UndefinedMetricError, match=r"thresholds\.report: undefined"):
        thresholds.report(scores.take(scores.is_unknown), thresholds.osa(scores))


def test_the_flat_range_may_begin_where_all_are_rejected():
    # Every known sample is classified wrongly: nothing is gained by accepting.
    scores = Scores(labels=[0, 0, -1, -1], predicted=[1, 1, 0, 0], known=[4, 3, 2, 1])
    found = thresholds.report(scores, thresholds.osa(scores))
    assert found.flat == (2.0, np.inf)
    assert found.flat_share == 0.5


@pytest.mark.parametrize("highest", [4.0, np.inf])
def test_the_least_auroc_is_that_of_the_hardest_kind(highest, rng):
    known = np.concatenate([rng.integers(1, 5, 200), rng.integers(0, 4, 400)])
    scores = Scores(
        labels=np.repeat([0, -1], [200, 400]),
        predicted=np.zeros(600, int),
        known=np.where(known == 4, highest, known - np.repeat([0, 0, 1], 200)),
        groups=np.repeat(["known", "near", "far"], 200),
    )
    table = by_group("me", scores, None)
    found = _least_auroc(ranking_counts(scores), table, kinds_of(scores, table))
    expected = min(
        metrics.auroc(scores.take(~scores.is_unknown | (scores.groups == name)))
        for name in ("near", "far")
    )
    assert found == approx(expected)
