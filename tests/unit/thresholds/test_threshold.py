"""`Threshold` as a value, and the fingerprint it carries."""

import numpy as np
import pytest

from openset import ArtefactError, Scores, UndefinedMetricError, metrics, thresholds
from openset.thresholds import Fingerprint, Threshold


def drawn(seed, n=400, *, decimals=None, gap=2.0):
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n) < 0.6, rng.integers(0, 5, n), -1)
    known = rng.normal(size=n) + gap * (labels >= 0)
    return Scores(
        labels=labels,
        predicted=np.where(rng.random(n) < 0.8, np.maximum(labels, 0), 2),
        known=known if decimals is None else known.round(decimals),
    )


def test_it_carries_its_birth():
    scores = Scores(labels=[0, 0, 1, -1], predicted=[0, 0, 0, 1], known=[4, 3, 2, 1])
    found = thresholds.osa(scores, 0.5)
    assert (found.value, found.method, found.target) == (2.0, "osa", 0.5)
    assert (found.n, found.n_known, found.n_unknown) == ((3, 1), 3, 1)
    assert found.interval == (1.0, 3.0)  # the wrongly named known at 2 is nobody
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
    found = thresholds.per_class(drawn(0), strength=1)
    assert len(found.per_class) == 5
    assert found.of(np.array([1, 7])).tolist() == [found.per_class[1], found.value]


def test_small_classes_are_drawn_to_the_global_threshold():
    rng = np.random.default_rng(0)
    n = np.array([2000, 20])  # samples predicted as class 0 and 1, half unknown
    predicted = np.repeat([0, 1], n)
    labels = np.where(np.arange(n.sum()) % 2, predicted, -1)
    known = rng.normal(size=n.sum()) + 2.0 * (labels >= 0) + 5.0 * predicted
    scores = Scores(labels=labels, predicted=predicted, known=known)
    one = thresholds.osa(scores).value
    alone = thresholds.per_class(scores, strength=0)
    drawn_in = thresholds.per_class(scores, strength=1e5)
    assert alone.per_class[1] > 4 > alone.per_class[0] + 2
    assert drawn_in.per_class[1] == pytest.approx(one, abs=0.5)
    assert alone.rate.value > thresholds.osa(scores).rate.value


def test_the_very_samples_of_calibration_are_refused_as_a_test():
    scores = drawn(0)
    found = thresholds.osa(scores)
    with pytest.raises(ValueError, match="other samples than those the threshold"):
        found.check_disjoint(scores)
    shuffled = scores.take(np.random.default_rng(1).permutation(len(scores)))
    with pytest.raises(ValueError, match=r"about 100% of them in common"):
        thresholds.operate(found, shuffled)
    half = scores.take(slice(0, 150))
    with pytest.raises(ValueError, match="in common"):
        thresholds.operate(found, Scores.concat([half, drawn(5, 100)]))


def test_a_few_bits_of_noise_do_not_hide_a_sample():
    scores = drawn(0)
    noisy = scores.with_known(scores.known.astype(np.float32) * (1 + 1e-7))
    assert Fingerprint.of(scores).is_of(noisy)


def test_other_samples_pass_however_coarse_their_scores():
    for decimals in (None, 3, 2, 1, 0):
        found = thresholds.osa(drawn(0, 3000, decimals=decimals))
        for n in (50, 400, 3000, 40_000):
            other = drawn(1, n, decimals=decimals)
            assert found.fingerprint.shared(other) < 0.2
            found.check_disjoint(other)


def test_saturated_scores_are_no_proof_but_the_others_are():
    def saturated(seed):
        scores = drawn(seed, 2000)
        return scores.with_known(np.minimum(scores.known, 0.5))

    mark = Fingerprint.of(saturated(0))
    assert not mark.is_of(saturated(1))
    assert mark.is_of(saturated(0))


def test_large_sets_are_sketched_and_still_found():
    scores = drawn(0, 200_000)
    mark = Fingerprint.of(scores)
    assert len(mark.hashes) == 256
    assert mark.is_of(scores)
    assert mark.is_of(scores.take(slice(0, 20_000)))  # a part of it as a test
    assert not mark.is_of(drawn(1, 200_000))
    assert Fingerprint.from_dict(mark.to_dict()) == mark


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: thresholds.osa(s, 1.5), r"alpha must be a number in \[0, 1\]"),
        (lambda s: thresholds.osa(s, at="end"), "at must be one of 'score'"),
        (lambda s: thresholds.at_fpr(s, -0.1), "fpr must be a number in"),
        (lambda s: thresholds.at_tpr(s, 0), "tpr must be a number in"),
        (lambda s: thresholds.conformal(s, 0.95), r"level must be a number in \[0, 0"),
        (lambda s: thresholds.conformal(s, confidence=1), "confidence must be"),
        (lambda s: thresholds.by_cost(s, [[0, 1]]), "cost_matrix must be square"),
        (lambda s: thresholds.by_cost(s, np.full((6, 6), np.nan)), "must be finite"),
        (lambda s: thresholds.by_cost(s, np.full((6, 6), 1e300)), "must be finite, fr"),
        (lambda s: thresholds.by_cost(s, [[0, 1], [1]]), "must be rows of numbers, eq"),
        (lambda s: thresholds.by_cost(s, [["a"]]), "cost_matrix must be rows of numb"),
        (lambda s: thresholds.by_cost(s, missed_unknown=1e300), "missed_unknown must"),
        (
            lambda s: thresholds.by_cost(s, np.ones((6, 6)), missed_unknown=5),
            "cost_matrix must be left out where the three costs are given",
        ),
        (lambda s: thresholds.osa(s, 1.5), r"thresholds\.osa: alpha must be"),
        (lambda s: thresholds.per_class(s, 1.5), r"thresholds\.per_class: alpha must"),
        (lambda s: thresholds.by_cost(s, missed_unknown=-1), "missed_unknown must be"),
        (lambda s: thresholds.per_class(s, strength=-1), "strength must be"),
        (lambda s: thresholds.worst_group(s, criterion="x"), "criterion must be one"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(drawn(0, 50))


def test_a_missing_side_is_said():
    known = Scores(labels=[0, 1], predicted=[0, 0], known=[1.0, 2.0])
    unknown = Scores(labels=[-1], predicted=[0], known=[1.0])
    for method in (thresholds.osa, thresholds.by_cost, thresholds.worst_group):
        for scores in (known, unknown):
            with pytest.raises(UndefinedMetricError, match="undefined without"):
                method(scores)
    with pytest.raises(UndefinedMetricError, match="at_fpr: undefined without unknown"):
        thresholds.at_fpr(known)
    for method in (thresholds.at_tpr, thresholds.conformal):
        assert method(known).n == (2, 0)
        with pytest.raises(UndefinedMetricError, match="undefined without known"):
            method(unknown)


def test_the_largest_numbers_have_a_fingerprint():
    most = np.finfo(float).max
    scores = Scores(labels=[0, -1], predicted=[0, 0], known=[most, -most])
    assert thresholds.osa(scores).value == most
    assert len(Fingerprint.of(scores).hashes) == 2


def test_the_fingerprint_does_not_flood_the_screen():
    rng = np.random.default_rng(0)
    scores = Scores(
        labels=np.repeat([0, -1], 300),
        predicted=np.zeros(600, int),
        known=rng.normal(size=600),
    )
    assert len(repr(thresholds.osa(scores))) < 800


def test_prices_far_apart_are_added_up_exactly():
    scores = Scores(
        labels=[0, 1, -1, -1, -1, -1, -1],
        predicted=[0, 1, 1, 0, 1, 0, 1],
        known=[5, 2, 2, 2, 2, 1, 4],
    )
    prices = {"missed_unknown": 1e-9, "false_unknown": 1e9, "confusion": 3}
    found = thresholds.by_cost(scores, **prices, alpha=0.3)
    assert found.value == 2.0  # both knowns accepted, four of five unknowns missed
    assert found.rate.value == pytest.approx(0.7 * 4 / 5 * 1e-9, rel=1e-12)


def test_worst_group_tells_the_rate_of_the_threshold_it_gives():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(6, 20))
        labels = np.where(np.arange(n) < n // 2, 0, -1)
        scores = Scores(
            labels=labels,
            predicted=np.zeros(n, int),
            known=rng.integers(0, 5, n).astype(float),
            groups=rng.integers(0, 2, n),
        )
        for prefer in ("smallest", "highest", "widest"):
            found = thresholds.worst_group(scores, 0.5, prefer=prefer, at="middle")
            groups = [
                scores.take(~scores.is_unknown | (scores.groups == g))
                for g in np.unique(scores.groups[scores.is_unknown])
            ]
            hardest = min(metrics.osa(one, found.value, alpha=0.5) for one in groups)
            assert found.rate.value == pytest.approx(hardest)
