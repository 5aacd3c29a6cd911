"""Every caution: where it applies, where it does not, and how grave it is."""

import dataclasses

import numpy as np
import pytest

from openset import Scores, thresholds
from openset.metrics.counts import ranking_counts
from openset.thresholds._cautions import CalibrationFacts, cautions
from openset.thresholds._report import _near_regret
from openset.thresholds.groups import by_group
from openset.thresholds.kinds import kinds_of
from tests.unit.thresholds.makers import grouped


def with_groups(scores, names):
    """Rename the groups of the unknowns."""
    groups = [names.get(name, name) for name in scores.groups]
    return dataclasses.replace(scores, groups=np.array(groups))


SOUND = grouped(0)
NEAR = grouped(1)
KNOWNS = SOUND.take(~SOUND.is_unknown)
MIXED_UP = dataclasses.replace(SOUND, predicted=(SOUND.labels + 2) % 3)
ONE_KIND = with_groups(SOUND, {"far": "near"})
ALIKE = grouped(0, near=0.0, far=0.0)
EASY = grouped(0, near=-3.0, far=-6.0)
HARD = grouped(0, near=2.5, far=2.5)
MADE = with_groups(SOUND, {"near": "synthetic:mixup", "far": "synthetic:left-out"})
HALF_MADE = with_groups(SOUND, {"far": "synthetic:left-out"})
APART = Scores(
    labels=np.repeat([0, -1], 200),
    predicted=np.zeros(400, int),
    known=np.repeat([1.0, 3.0, 2.0, 0.0], 100),
    groups=np.repeat(["known", "near", "far"], [200, 100, 100]),
)


def classes(scores, n_classes):
    return dataclasses.replace(scores, n_classes=n_classes)


def at(value):
    """Return an objective of one's own: always this threshold."""
    return lambda scores: dataclasses.replace(thresholds.osa(scores), value=value)


def codes(scores, objective=thresholds.osa, near=NEAR):
    return thresholds.report(scores, objective(scores), near=near).codes


def test_a_sound_calibration_has_none():
    assert codes(SOUND) == ()


@pytest.mark.parametrize(
    ("code", "scores", "objective", "near"),
    [
        ("CAL001", SOUND, at(-9.0), NEAR),
        ("CAL001", SOUND, at(9.0), NEAR),
        ("CAL002", SOUND, at(-2.5), NEAR),  # accepts nearly all unknowns of this set
        ("CAL002", SOUND, at(4.5), NEAR),
        ("CAL003", APART, thresholds.osa, NEAR),
        ("CAL004", grouped(0, n=29), thresholds.osa, NEAR),  # 58 knowns, 29 of a kind
        ("CAL004", grouped(0, n=59), thresholds.osa, NEAR),  # 118 knowns, 59 of a kind
        ("CAL005", MADE, thresholds.osa, NEAR),
        ("CAL006", ONE_KIND, thresholds.osa, NEAR),
        ("CAL006", ALIKE, thresholds.osa, NEAR),  # two names, one kind
        ("CAL006", HALF_MADE, thresholds.osa, NEAR),  # synthetic ones do not count
        ("CAL007", MIXED_UP, thresholds.osa, NEAR),
        ("CAL008", EASY, thresholds.osa, NEAR),
        ("CAL009", classes(SOUND, 7), thresholds.osa, NEAR),  # 3 of 7
        ("CAL010", KNOWNS, thresholds.at_tpr, NEAR),
        ("CAL010", KNOWNS, thresholds.conformal, NEAR),
        ("CAL011", SOUND, thresholds.osa, None),
        ("CAL011", SOUND, thresholds.osa, grouped(1, near=2.0, far=2.0)),
    ],
)
def test_a_caution_applies(code, scores, objective, near):
    assert code in codes(scores, objective, near)


@pytest.mark.parametrize(
    ("code", "scores", "objective"),
    [
        ("CAL001", SOUND, at(3.5)),
        ("CAL002", SOUND, at(3.5)),
        ("CAL003", ONE_KIND, thresholds.osa),
        ("CAL003", ALIKE, thresholds.osa),
        ("CAL004", grouped(0, n=60), thresholds.osa),
        ("CAL005", HALF_MADE, thresholds.osa),
        ("CAL006", MADE, thresholds.osa),  # two synthetic kinds that differ
        ("CAL008", grouped(0, near=1.0, far=-6.0), thresholds.osa),  # one is near
        ("CAL009", classes(SOUND, 6), thresholds.osa),  # 3 of 6
        ("CAL009", dataclasses.replace(SOUND, n_classes=None), thresholds.osa),
        ("CAL010", SOUND, thresholds.at_tpr),
        ("CAL010", SOUND, thresholds.conformal),
        ("CAL006", KNOWNS, thresholds.conformal),
        ("CAL011", KNOWNS, thresholds.conformal),
    ],
)
def test_a_caution_does_not_apply(code, scores, objective):
    assert code not in codes(scores, objective)


@pytest.mark.parametrize("value", [-9.0, -2.5, 4.5, 9.0])
def test_only_collapse_is_an_error(value):
    found = thresholds.report(HARD, at(value)(HARD)).cautions
    grave = {one.code: one.severity for one in found}
    assert {"CAL002", "CAL006", "CAL011"} <= set(grave)
    for code, severity in grave.items():
        assert severity == ("error" if code in {"CAL001", "CAL002"} else "warning")


@pytest.mark.parametrize(
    ("objective", "rate"),
    [("at_fpr", 0.0), ("at_fpr", 1.0), ("at_tpr", 1.0), ("conformal", 0.001)],
)
def test_a_rate_that_was_asked_for_is_no_error(objective, rate):
    chosen = getattr(thresholds, objective)(HARD, rate)
    found = thresholds.report(HARD, chosen).cautions
    assert {"CAL001", "CAL002"} & {one.code for one in found}
    assert {one.severity for one in found} == {"warning"}


def test_cautions_are_in_the_order_of_their_codes():
    found = codes(dataclasses.replace(MIXED_UP, n_classes=9), at(-9.0), None)
    assert list(found) == sorted(found)
    assert len(found) >= 5


def test_the_kind_that_is_hardest_decides_whether_all_are_easy():
    """AUROC 0.98, counted in pairs, is the limit."""
    rng = np.random.default_rng(0)
    for gap in (2.5, 2.8, 3.0, 3.3, 4.0):
        known, near = rng.normal(gap, 1, 100).round(1), rng.normal(0, 1, 80).round(1)
        far = rng.normal(-4, 1, 60).round(1)
        scores = Scores(
            labels=np.repeat([0, -1], [100, 140]),
            predicted=np.zeros(240, int),
            known=np.concatenate([known, near, far]),
            groups=np.repeat(["known", "near", "far"], [100, 80, 60]),
        )
        aurocs = [
            np.mean([(k > u) + (k == u) / 2 for k in known for u in kind])
            for kind in (near, far)
        ]
        found = thresholds.report(scores, thresholds.osa(scores))
        assert ("CAL008" in found.codes) == (min(aurocs) > 0.98)
        if "CAL008" in found.codes:
            assert f"AUROC at least {min(aurocs):.3f}" in str(found)


@pytest.mark.parametrize("alpha", [0.3, 0.5])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("decimals", [None, 0])
def test_classes_left_out_lose_what_a_slow_loop_says(alpha, times, decimals):
    """The same share of the knowns is accepted on both sets."""
    rng = np.random.default_rng(times)

    def drawn(n_known, n_unknown, shift):
        known = np.append(rng.normal(2, 1, n_known), rng.normal(shift, 1, n_unknown))
        return Scores(
            labels=np.repeat([0, -1], [n_known, n_unknown]),
            predicted=(rng.random(n_known + n_unknown) < 0.1).astype(int),
            known=known if decimals is None else known.round(decimals),
        )

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
        tpr = np.mean(scores.known[is_known] >= value)
        found = _near_regret(ranking_counts(scores), near, tpr, alpha)
        at_value = osa(min(c for c in cuts if c >= value))
        assert found == pytest.approx(max(map(osa, cuts)) - at_value, abs=1e-12)
    chosen = thresholds.osa(scores, alpha)
    tpr = chosen.rates(scores).tpr
    lost = _near_regret(ranking_counts(scores), near, tpr, alpha)
    said = str(thresholds.report(scores, chosen, near=near))
    is_said = f"loses {lost:.1%} of open-set accuracy" in said
    assert is_said == (lost > 0.02)


FACTS = CalibrationFacts(
    SOUND,
    thresholds.osa(SOUND),
    thresholds.osa(SOUND).rates(SOUND),
    kinds_of(SOUND, by_group("test", SOUND, None)),
    near=0.0,
)


@pytest.mark.parametrize(
    ("code", "field", "good", "bad"),
    [
        ("CAL003", "regret", 0.05, 0.0501),
        ("CAL008", "least_auroc", 0.98, 0.9801),
        ("CAL011", "near", 0.02, 0.0201),
        ("CAL012", "least_auroc", 0.5001, 0.5),
    ],
)
def test_a_limit_itself_is_no_caution(code, field, good, bad):
    sound = dataclasses.replace(FACTS, **{"least_auroc": 0.9, field: good})
    assert code not in [one.code for one in cautions(sound)]
    assert code in [
        one.code for one in cautions(dataclasses.replace(sound, **{field: bad}))
    ]


def test_unknowns_that_score_as_high_as_knowns_are_no_basis_for_a_threshold():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, -1, -1], 100)
    groups = np.repeat(["", "far", "near"], [200, 100, 100])
    known = rng.normal(size=400) + 3 * (labels >= 0)
    known[300:] = known[100:200]  # the near ones have the scores of known samples

    def found(of):
        scores = Scores(
            labels=labels[of], predicted=labels[of].clip(0), known=known[of],
            groups=groups[of],
        )  # fmt: skip
        return {
            method.__name__: [
                (one.severity, one.message[: one.message.index(" score")])
                for one in thresholds.report(scores, method(scores)).cautions
                if one.code == "CAL012"
            ]
            for method in (thresholds.osa, thresholds.at_tpr)
        }

    hidden = np.r_[0:200, 300:400]
    known[300:] += 0.5  # AUROC below a half
    of_one, of_all = "unknowns of a kind", "the unknown samples"
    for part, who in ((slice(None), of_one), (hidden, of_all)):
        assert found(part) == {name: [("warning", who)] for name in ("osa", "at_tpr")}
    assert found(slice(300)) == {"osa": [], "at_tpr": []}


@pytest.mark.parametrize(
    ("n_below", "end"), [(0, "lowest"), (1, ""), (199, ""), (200, "highest")]
)
def test_half_a_percent_of_the_scores_are_the_edge(n_below, end):
    known = np.arange(200.0)
    scores = Scores(
        labels=np.where(known % 2, 0, -1), predicted=np.zeros(200, int), known=known
    )
    chosen = at(n_below - 0.5)(scores)
    found = [
        str(one)
        for one in thresholds.report(scores, chosen).cautions
        if one.code == "CAL001"
    ]
    assert [
        f"is among the {end} scores: {n_below / 2:.1f}%" in one for one in found
    ] == ([True] if end else [])


@pytest.mark.parametrize(
    ("n_known", "n_unknown", "words"),
    [
        (4, 50, ["96.0% of the known samples are rejected"]),
        (6, 50, []),
        (50, 96, ["96.0% of the unknown samples are accepted"]),
        (50, 94, []),
    ],
)
def test_almost_all_of_a_side_is_more_than_95_percent(n_known, n_unknown, words):
    """So many of a hundred are accepted."""
    known = np.r_[np.arange(100) < n_known, np.arange(100) < n_unknown].astype(float)
    scores = Scores(
        labels=np.repeat([0, -1], 100), predicted=np.zeros(200, int), known=known
    )
    found = thresholds.report(scores, at(0.5)(scores)).cautions
    assert [one.message for one in found if one.code == "CAL002"] == words


@pytest.mark.parametrize(("n_right", "is_said"), [(54, True), (56, False)])
def test_a_network_is_better_than_the_commonest_class(n_right, is_said):
    """Half belong to class 0: a tenth of the rest above that is the least."""
    labels = np.r_[np.repeat([0, 1], 50), np.full(100, -1)]
    right = np.arange(200) < n_right
    scores = Scores(
        labels=labels,
        predicted=np.where(right, np.maximum(labels, 0), 2),
        known=np.arange(200.0)[::-1],
    )
    assert ("CAL007" in codes(scores)) == is_said


def test_what_a_caution_says_depends_on_what_is_there():
    def said(code, scores, objective=thresholds.osa):
        found = thresholds.report(scores, objective(scores), near=NEAR).cautions
        return next(str(one) for one in found if one.code == code)

    assert "only one kind of unknowns: other kinds" in said("CAL006", ONE_KIND)
    assert "unknowns (the scores of 2 groups agree): other" in said("CAL006", ALIKE)
    assert "synthetic (left-out, mixup), made" in said("CAL005", MADE)
    few = grouped(0, n=29)
    assert said("CAL004", few).endswith(
        "few calibration samples: 58 known samples, 29 unknown samples of far, "
        "29 unknown samples of near"
    )
    one = with_groups(few, {"far": "near"})
    assert said("CAL004", one).endswith("58 known samples, 58 unknown samples")
    assert "Consider the objective worst_group" in said("CAL003", APART)
    assert "already minimises" in said("CAL003", APART, thresholds.worst_group)


def test_of_one_class_a_network_cannot_be_better_than_the_commonest():
    scores = dataclasses.replace(
        SOUND, labels=np.minimum(SOUND.labels, 0), predicted=SOUND.predicted // 3
    )
    assert 0 < (scores.predicted == 1).mean() < 0.2  # a few are given another class
    assert "CAL007" not in codes(scores)
