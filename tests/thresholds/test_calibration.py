"""The report of a calibration, and every caution."""

import dataclasses
import json

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores, UndefinedMetricError, thresholds
from openset.thresholds import Report
from tests.thresholds.makers import grouped


def with_groups(scores, names):
    """Rename the groups of the unknowns."""
    groups = [names.get(name, name) for name in scores.groups]
    return dataclasses.replace(scores, groups=np.array(groups))


def classes(scores, n_classes):
    return dataclasses.replace(scores, n_classes=n_classes)


def at(value):
    """Return an objective of one's own: always this threshold."""
    return lambda scores: dataclasses.replace(thresholds.osa(scores), value=value)


def of(labels, known, predicted=0, groups=None):
    predicted = np.broadcast_to(predicted, np.shape(labels))
    return Scores(labels=labels, predicted=predicted, known=known, groups=groups)


SOUND, NEAR, FEW = grouped(0), grouped(1), grouped(0, n=29)
KNOWNS = SOUND.take(~SOUND.is_unknown)
MIXED_UP = dataclasses.replace(SOUND, predicted=(SOUND.labels + 2) % 3)
ONE_KIND = with_groups(SOUND, {"far": "near"})
HARD = grouped(0, near=2.5, far=2.5)
MADE = with_groups(SOUND, {"near": "synthetic:mixup", "far": "synthetic:left-out"})
HALF_MADE = with_groups(SOUND, {"far": "synthetic:left-out"})
HIDDEN = grouped(0, near=3.0)
APART = of(
    np.repeat([0, -1], 200),
    np.repeat([1.0, 3.0, 2.0, 0.0], 100),
    groups=np.repeat(["known", "near", "far"], [200, 100, 100]),
)
HUNDRED = np.repeat([0, -1], 100)


def accepted(n_known, n_unknown):
    """So many of a hundred are accepted by a threshold of 0.5."""
    known = np.r_[np.arange(100) < n_known, np.arange(100) < n_unknown]
    return of(HUNDRED, known.astype(float))


def right(n):
    """Of 100 known samples, half of class 0, so many are classified correctly."""
    labels = np.r_[np.repeat([0, 1], 50), np.full(100, -1)]
    predicted = np.where(np.arange(200) < n, np.maximum(labels, 0), 2)
    return of(labels, np.arange(200.0)[::-1], predicted)


ODD = of(np.where(np.arange(200) % 2, 0, -1), np.arange(200.0))
ONE_CLASS = dataclasses.replace(
    SOUND, labels=np.minimum(SOUND.labels, 0), predicted=SOUND.predicted // 3
)
OSA, TPR = thresholds.osa, thresholds.at_tpr

APPLIES = [
    ("CAL001", SOUND, at(-9.0), NEAR, "is among the lowest scores: 0.0% of the"),
    ("CAL001", SOUND, at(9.0), NEAR, "is among the highest scores: 100.0% of"),
    ("CAL001", ODD, at(-0.5), NEAR, "lowest scores: 0.0%"),
    ("CAL001", ODD, at(199.5), NEAR, "highest scores: 100.0%"),
    ("CAL002", SOUND, at(-2.5), NEAR, "of the unknown samples are accepted"),
    ("CAL002", SOUND, at(4.5), NEAR, "of the known samples are rejected"),
    ("CAL002", accepted(4, 50), at(0.5), NEAR, "96.0% of the known samples are rej"),
    ("CAL002", accepted(50, 96), at(0.5), NEAR, "96.0% of the unknown samples are a"),
    ("CAL003", APART, OSA, NEAR, "a kind loses 25.0% of .* Consider the objective wor"),
    ("CAL003", APART, thresholds.worst_group, NEAR, "need different thresholds: with"),
    ("CAL004", FEW, OSA, NEAR, "58 known samples, 29 .* of far, 29 .* of near$"),
    ("CAL004", with_groups(FEW, {"far": "near"}), OSA, NEAR, "58 .*, 58 unknown samp"),
    ("CAL004", grouped(0, n=59), OSA, NEAR, "few calibration samples: 59 unknown"),
    ("CAL005", MADE, OSA, NEAR, r"synthetic \(left-out, mixup\), made from"),
    ("CAL007", MIXED_UP, OSA, NEAR, "the predicted class is right for only"),
    ("CAL007", right(54), OSA, NEAR, r"only 54.0% of the known samples \(50.0% bel"),
    ("CAL009", classes(SOUND, 7), OSA, NEAR, "are of 3 of the 7 classes"),
    ("CAL010", KNOWNS, TPR, NEAR, "no unknown samples were used"),
    ("CAL010", KNOWNS, thresholds.conformal, None, "no unknown samples were used"),
    ("CAL011", SOUND, OSA, None, "not checked"),
    ("CAL011", SOUND, OSA, grouped(1, near=2.0, far=2.0), "it loses .*% of open-set"),
    ("CAL012", HIDDEN, OSA, NEAR, "unknowns of a kind score as high as known ones"),
    ("CAL012", HIDDEN, TPR, NEAR, "unknowns of a kind score"),
    ("CAL012", grouped(0, near=3, far=3, groups=False), OSA, NEAR, "the unknown samp"),
]
DOES_NOT = [
    ("CAL001", SOUND, at(3.5)),
    ("CAL001", ODD, at(0.5)),  # half a percent
    ("CAL001", ODD, at(198.5)),
    ("CAL002", SOUND, at(3.5)),
    ("CAL002", accepted(6, 50), at(0.5)),
    ("CAL002", accepted(50, 94), at(0.5)),
    ("CAL003", ONE_KIND, OSA),
    ("CAL003", grouped(0, near=0.0, far=0.0), OSA),
    ("CAL004", grouped(0, n=60), OSA),
    ("CAL005", HALF_MADE, OSA),
    ("CAL007", right(56), OSA),
    ("CAL007", ONE_CLASS, OSA),  # no network is better than the commonest class
    ("CAL009", classes(SOUND, 6), OSA),  # 3 of 6
    ("CAL009", classes(SOUND, None), OSA),
    ("CAL010", SOUND, TPR),
    ("CAL011", KNOWNS, thresholds.conformal),
    ("CAL012", grouped(0, near=2.4), OSA),
]


@pytest.mark.parametrize(("code", "scores", "objective", "near", "words"), APPLIES)
def test_a_caution_applies(code, scores, objective, near, words):
    found = thresholds.report(scores, objective(scores), near=near).cautions
    assert [one.code for one in found] == sorted(one.code for one in found)
    one = next(one for one in found if one.code == code)
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(str(one))
    assert one.severity == ("error" if code in {"CAL001", "CAL002"} else "warning")


@pytest.mark.parametrize(("code", "scores", "objective"), DOES_NOT)
def test_a_caution_does_not_apply(code, scores, objective):
    assert code not in thresholds.report(scores, objective(scores), near=NEAR).codes


def test_a_sound_calibration_has_none():
    assert thresholds.report(SOUND, OSA(SOUND), near=NEAR).codes == ()


@pytest.mark.parametrize(
    ("objective", "rate"),
    [("at_fpr", 0.0), ("at_fpr", 1.0), ("at_tpr", 1.0), ("conformal", 0.001)],
)
def test_a_rate_that_was_asked_for_is_no_error(objective, rate):
    chosen = getattr(thresholds, objective)(HARD, rate)
    found = thresholds.report(HARD, chosen).cautions
    assert {"CAL001", "CAL002"} & {one.code for one in found}
    assert {one.severity for one in found} == {"warning"}


@pytest.mark.parametrize("alpha", [0.3, 0.5])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("decimals", [None, 0])
def test_classes_left_out_lose_what_a_slow_loop_says(alpha, times, decimals):
    """The same share of the knowns is accepted on both sets."""
    rng = np.random.default_rng(times)

    def drawn(n_known, n_unknown, shift):
        known = np.append(rng.normal(2, 1, n_known), rng.normal(shift, 1, n_unknown))
        labels = np.repeat([0, -1], [n_known, n_unknown])
        wrong = (rng.random(n_known + n_unknown) < 0.1).astype(int)
        return of(labels, known if decimals is None else known.round(decimals), wrong)

    scores, near = drawn(40, 30, -1), drawn(40 * times, 25, 1)
    is_known = ~scores.is_unknown
    of_near = sorted(near.known[~near.is_unknown].tolist())
    unknown = near.known[near.is_unknown].tolist()

    def osa(value):
        n_rejected = sum(k < value for k in scores.known[is_known].tolist()) * times
        place = [*of_near, np.inf][n_rejected]
        urr = sum(u < place for u in unknown) / len(unknown)
        ccr = sum(scores.is_correct & (scores.known >= value)) / 40
        return alpha * ccr + (1 - alpha) * urr

    cuts = [*np.unique(scores.known).tolist(), np.inf]
    for value in (*cuts, -np.inf):
        chosen = dataclasses.replace(OSA(scores, alpha), value=value)
        lost = max(map(osa, cuts)) - osa(min(c for c in cuts if c >= value))
        said = str(thresholds.report(scores, chosen, near=near))
        assert (f"loses {lost:.1%} of open-set accuracy against" in said) == (
            lost > 0.02
        )


def osa_at(scores, value, alpha, mask):
    """Open-set accuracy at a threshold, against some of the unknowns."""
    taken = scores.known >= value
    ccr = (taken & scores.is_correct).sum() / scores.n_known
    return alpha * ccr + (1 - alpha) * (1 - taken[scores.is_unknown & mask].mean())


@pytest.mark.parametrize("decimals", [None, 1])
@pytest.mark.parametrize("alpha", [0.3, 0.5])
def test_every_fact_of_a_report_is_what_slow_loops_say(decimals, alpha):
    scores = grouped(3, n=40)
    if decimals is not None:
        scores = scores.with_known(scores.known.round(decimals))
    cuts = [*np.unique(scores.known).tolist(), np.inf]
    for value in (OSA(scores, alpha).value, -9.0, 1.05, np.inf):
        chosen = dataclasses.replace(OSA(scores, alpha), value=value)
        found = thresholds.report(scores, chosen)
        assert found.rates == chosen.rates(scores)
        assert found.osa == approx(osa_at(scores, value, alpha, scores.is_unknown))
        for row in found.groups:
            mask = scores.groups == row["group"]
            osa = osa_at(scores, value, alpha, mask)
            best = max(osa_at(scores, cut, alpha, mask) for cut in cuts)
            rejected = (scores.known[mask] < value).mean()
            assert (row["n"], row["urr"]) == (40, approx(rejected))
            assert (row["osa"], row["best"]) == (approx(osa), approx(best))
            assert row["loss"] == approx(best - osa)
        assert [row["group"] for row in found.groups] == ["far", "near"]
        hardest = min(found.groups, key=lambda row: row["osa"])
        assert found.worst_group == hardest["group"]
        lost = max(row["loss"] for row in found.groups)
        assert ("CAL003" in found.codes) == (lost > 0.05)


def test_a_report_is_read_line_by_line():
    scores = grouped(3, n=20)
    lines = {
        name: str(thresholds.report(scores, getattr(thresholds, name)(scores)))
        for name in thresholds.objectives()
    }
    assert lines["osa"].splitlines()[:-2] == [
        "threshold: 1.16499 by osa (alpha 0.5) from 40 known and 40 unknown samples",
        "open-set accuracy, alpha 0.5: 0.8500 (0.7547–0.9070)",
        "known samples accepted: 97.5%",
        "unknown samples rejected: 75.0%",
        "accuracy without rejection: 0.9500",
        "on a new kind of unknowns: open-set accuracy 0.87 (alpha 0.5), between 0.55 "
        "and 0.98 (90%) on kinds like these; worse for unknowns that resemble your "
        "classes",
        "unknowns among rejected: 23% if 1% of all samples are unknown, 77% if 10% "
        "of all samples are unknown, for unknowns like those of the calibration",
        "  far: 0.9500 of 20 rejected, OSA 0.9500 (alpha 0.5), 0.0125 below its best",
        "  near: 0.5500 of 20 rejected, OSA 0.7500 (alpha 0.5), 0.0125 below its best",
    ]
    assert "known samples to be rejected: 0.0488 (0.0061–0.1316)" in lines["conformal"]
    assert "cost of a decision: 0.1500" in lines["by_cost"]
    assert "true positive rate: 0.9" in lines["at_tpr"]


@pytest.mark.parametrize("scores", [SOUND, MADE, grouped(0, groups=False), KNOWNS])
def test_a_report_survives_json(scores):
    chosen = thresholds.at_tpr(scores)
    found = thresholds.report(scores, chosen)
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    again = Report.from_dict(document, chosen)
    assert (again.to_dict(), str(again)) == (found.to_dict(), str(found))
    if not scores.n_unknown:
        assert (found.osa, found.worst_group, found.new_kind) == (None, None, None)


def test_a_report_asks_for_scores_and_a_threshold():
    with pytest.raises(TypeError, match=r"thresholds\.report: scores must be Scores"):
        thresholds.report([1], OSA(SOUND))
    with pytest.raises(UndefinedMetricError, match=r"thresholds\.report: undefined"):
        thresholds.report(SOUND.take(SOUND.is_unknown), OSA(SOUND))
