"""Options of metrics: against scikit-learn, by search, and in every replicate."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from pytest import approx  # noqa: PT013
from sklearn import metrics as sk

from openset import Scores, UndefinedMetricError, metrics, thresholds
from openset.metrics.intervals import replicates


def draw(seed=0, n=120, *, n_classes=4, never=None, decimals=1):
    """Class `never` has no samples, but is predicted."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, n_classes, n)
    labels = np.where(labels == never, 0, labels)
    guesses = rng.integers(0, n_classes, n)
    predicted = np.where(rng.random(n) < 0.6, np.maximum(labels, 0), guesses)
    known = (rng.normal(size=n) + 1.5 * (labels >= 0)).round(decimals)
    return Scores(labels=labels, predicted=predicted, known=known, n_classes=n_classes)


def mean_f1(true, decided, classes):
    """Mean F-score over the classes that are true or decided."""
    occur = [c for c in classes if (true == c).any() or (decided == c).any()]
    return sk.f1_score(true, decided, labels=occur, average="macro", zero_division=0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("never", [None, 2])
def test_the_imbalance_scores_are_scikit_learns_for_every_base(seed, never):
    scores, at = draw(seed, never=never), 0.6
    known, classes = ~scores.is_unknown, range(4)
    true, predicted = scores.labels[known], scores.predicted[known]
    decided, accepted = scores.decided(at), scores.known >= at
    mine = decided[known]
    pairs = {"inner_score": (true, predicted), "halfpoint_score": (true, mine)}
    pairs["overall_score"] = (scores.labels, decided)
    for name, (first, second) in pairs.items():
        function = metrics.get(name).function
        options = {} if name == "inner_score" else {"threshold": at}
        among = [*classes, -1] if name == "overall_score" else classes
        found = function(scores, base="accuracy", **options)
        assert found == approx(sk.accuracy_score(first, second)), name
        found = function(scores, base="f1", **options)
        assert found == approx(mean_f1(first, second, among)), name
        recalls = [np.mean(second[first == c] == c) for c in among if c in first]
        assert function(scores, **options) == approx(np.mean(recalls)), name
    found = metrics.outer_score(scores, at, base="accuracy")
    assert found == approx(sk.accuracy_score(known, accepted))
    found = metrics.outer_score(scores, at, base="f1")
    assert found == approx(sk.f1_score(known, accepted))


OPTIONS = [
    ("inner_score", {"base": "accuracy"}),
    ("inner_score", {"base": "f1"}),
    ("outer_score", {"base": "accuracy"}),
    ("outer_score", {"base": "f1"}),
    ("halfpoint_score", {"base": "accuracy"}),
    ("halfpoint_score", {"base": "f1"}),
    ("halfpoint_score", {"absent": "zero"}),
    ("overall_score", {"base": "accuracy"}),
    ("overall_score", {"base": "f1"}),
    ("osa", {"alpha": 0.3}),
    ("osa", {"alpha": 1.0}),
    ("fpr_at_tpr", {"tpr": 0.5}),
    ("fpr_at_tpr", {"tpr": 0.5, "positive": "unknown"}),
    ("error_at_tpr", {"tpr": 0.7, "average": "pooled"}),
    ("error_at_tpr", {"tpr": 0.7, "positive": "unknown"}),
    ("aupr", {"rule": "trapezoid"}),
    ("aupr", {"rule": "trapezoid", "positive": "unknown"}),
    ("openauc", {"ties": "strict"}),
    ("openauc", {"ties": "optimistic"}),
    ("partial_openauc", {"max_fpr": 0.3, "scale": "area"}),
    ("partial_openauc", {"max_fpr": 0.3, "scale": "mcclish"}),
    ("partial_openauc", {"max_fpr": 0.3, "ties": "strict"}),
    ("partial_openauc", {"max_fpr": 0.3, "ties": "optimistic"}),
    ("ccr_at_fpr", {"fpr": 0.0}),
    ("ccr_at_fpr", {"fpr": 0.4}),
    ("f_score", {"average": "macro_f"}),
    ("youden", {"kind": "binary"}),
    ("normalized_accuracy", {"balance": 0.3, "aus": "recall"}),
]


@pytest.mark.parametrize(("name", "params"), OPTIONS)
def test_an_option_means_the_same_in_every_replicate(name, params):
    scores = draw(3)
    row = replace(metrics.get(name), params=params)
    slow = replace(row, takes_counts=False)  # the function itself, on resampled rows
    fast, expected = replicates(
        scores, {"fast": row, "slow": slow}, threshold=0.6, resamples=6, rng=1
    ).values()
    assert fast == approx(expected, abs=1e-12)
    assert np.ptp(fast) > 0
    at = (0.6,) if row.kind == "threshold" else ()
    default = metrics.get(name).function(scores, *at)
    assert row.function(scores, *at, **params) != approx(default)


def test_mcclish_is_a_half_by_chance_and_one_if_all_are_in_order():
    known = np.r_[np.arange(100.0), np.arange(100.0)]  # knowns tie with unknowns
    labels = np.repeat([0, -1], 100)
    chance = Scores(labels=labels, predicted=np.zeros(200, int), known=known)
    for bound in (0.1, 0.5, 1.0):
        found = metrics.partial_openauc(chance, bound, scale="mcclish")
        assert found == approx(0.5)
        ordered = chance.with_known(known + 1000.0 * (labels == 0))
        found = metrics.partial_openauc(ordered, bound, scale="mcclish")
        assert found == approx(1.0)
        area = metrics.partial_openauc(chance, bound, scale="area")
        assert area == approx(bound**2 / 2)
        assert metrics.partial_openauc(chance, bound) == approx(bound / 2)


# Weights whose shares are whole numbers, large ones, and ones beyond 64 bits.
WEIGHTS = ["counts", 0.0, 0.3, 1.0, 1 / 3, 0.123456789012, 0.12345678901234567]


@pytest.mark.parametrize("alpha", WEIGHTS)
def test_the_optimum_is_the_best_of_all_thresholds(alpha):
    for seed, n in enumerate((41, 41, 41, 401)):
        scores = draw(seed, n=n, decimals=0)
        share = scores.n_known / len(scores) if alpha == "counts" else alpha
        values = [np.inf, *sorted(set(scores.known.tolist()), reverse=True)]

        def osa(value, scores=scores, share=share):
            accepted = scores.known >= value
            hits = int((accepted & scores.is_correct).sum())
            missed = int((accepted & scores.is_unknown).sum())
            ccr = Fraction(hits, scores.n_known)
            return Fraction(share) * ccr + (1 - Fraction(share)) * (
                1 - Fraction(missed, scores.n_unknown)
            )

        table = [float(osa(value)) for value in values]
        optimal = [
            v for v, o in zip(values, table, strict=True) if o == approx(max(table))
        ]
        for prefer in ("smallest", "highest", "widest"):
            found = metrics.osa_optimum(scores, alpha=alpha, prefer=prefer)
            assert found.value == approx(max(table))
            assert found.threshold in optimal
            assert (found.n_optimal, found.alpha) == (len(optimal), approx(share))
            assert found.value == approx(
                metrics.osa(scores, found.threshold, alpha=alpha)
            )
            if np.isfinite(found.low):
                assert metrics.osa(scores, found.low, alpha=alpha) < found.value - 1e-9
            assert metrics.osa(scores, found.high, alpha=alpha) == approx(found.value)
        assert metrics.osa_optimum(scores, alpha=alpha).threshold == min(optimal)
        highest = metrics.osa_optimum(scores, alpha=alpha, prefer="highest")
        assert highest.threshold == highest.high == max(optimal)


def test_of_several_optimal_intervals_the_widest_is_taken():
    # Accepting down to 9, 6 or 1 gains a known and loses an unknown each time.
    scores = Scores(
        labels=[0, -1, 0, -1, 0, -1],
        predicted=[0] * 6,
        known=[9.0, 8.0, 6.0, 2.0, 1.0, 0.0],
    )
    found = {
        prefer: metrics.osa_optimum(scores, alpha=0.5, prefer=prefer)
        for prefer in ("smallest", "highest", "widest")
    }
    spans = {prefer: (one.low, one.high) for prefer, one in found.items()}
    assert spans == {"smallest": (0, 1), "highest": (8, 9), "widest": (2, 6)}
    assert {one.n_optimal for one in found.values()} == {3}
    assert [one.threshold for one in found.values()] == [1, 9, 6]


def test_accepting_all_and_rejecting_all_have_no_end():
    right = Scores(labels=[0, 0, -1], predicted=[0] * 3, known=[1.0, 2, 3])
    everything = metrics.osa_optimum(right, alpha=1.0)
    assert (everything.threshold, everything.low) == (1.0, -np.inf)
    nothing = metrics.osa_optimum(right, alpha=0.0)
    assert (nothing.threshold, nothing.low, nothing.high) == (np.inf, 3.0, np.inf)
    # A score of +inf cannot be rejected: then "reject all" is no candidate.
    endless = right.with_known([1.0, 2, np.inf])
    assert metrics.osa_optimum(endless, alpha=0.0).value == 0.0
    assert metrics.osa_optimum(endless, alpha=0.0, prefer="highest").n_optimal == 3


def test_what_is_infinite_throughout_can_only_be_accepted():
    every = Scores(labels=[0, -1], predicted=[0, 0], known=[np.inf, np.inf])
    for prefer in ("smallest", "highest", "widest"):
        for alpha, value in ((0.0, 0.0), (0.5, 0.5)):
            found = metrics.osa_optimum(every, alpha=alpha, prefer=prefer)
            assert (found.value, found.threshold, found.n_optimal) == (value, np.inf, 1)
            assert (found.low, found.high) == (-np.inf, np.inf)
        fair = thresholds.worst_group(every, prefer=prefer)
        assert (fair.value, fair.rate.value) == (np.inf, 0.5)


def test_an_operational_accuracy_takes_its_weight_and_preference_on_both_sets():
    test, calibration = draw(0), draw(1)
    preferences = ("smallest", "highest", "widest")
    for alpha, prefer in product(("counts", 0.2, 0.9), preferences):
        chosen = metrics.osa_optimum(calibration, alpha=alpha, prefer=prefer)
        expected = metrics.osa(test, chosen.threshold, alpha=alpha)
        found = metrics.oosa(test, calibration, alpha=alpha, prefer=prefer)
        assert found == expected
    values = {metrics.oosa(test, calibration, alpha=a) for a in ("counts", 0.2, 0.9)}
    assert len(values) == 3
    assert metrics.oosa(test, calibration) == thresholds.operate(calibration, test).oosa
    for number in (metrics.osa(test, 0.5), metrics.sweep(test).osa.max()):
        assert number != pytest.approx(metrics.osa(test, 0.5, alpha="counts"))
    assert metrics.osa(test, 0.5) == metrics.osa(test, 0.5, alpha=0.5)
    for alpha in (None, "half"):
        with pytest.raises(ValueError, match="alpha must be a number in"):
            metrics.osa(test, 0.5, alpha=alpha)
    with pytest.raises(ValueError, match="oosa: prefer must be one of"):
        metrics.oosa(test, calibration, prefer="best")
    with pytest.raises(UndefinedMetricError, match=r"^oosa: undefined without"):
        metrics.oosa(test.take(test.is_unknown), calibration)


@pytest.mark.parametrize("name", ["f_score", "youden", "normalized_accuracy"])
def test_the_best_threshold_is_asked_for_by_its_name_only(name):
    function = metrics.get(name).function
    with pytest.raises(ValueError, match=f"^{name}: threshold must be one of 'best'"):
        function(draw(), "Best")
    known = draw().take(~draw().is_unknown)
    with pytest.raises(UndefinedMetricError, match=f"^{name}: undefined without"):
        function(known, "best")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("f_score", {"average": "micro"}),
        ("youden", {"kind": "binary"}),
        ("youden", {"kind": "classes"}),
        ("normalized_accuracy", {"aus": "recall"}),
        ("normalized_accuracy", {"aus": "precision", "balance": 0.1}),
        ("normalized_accuracy", {"aus": "recall", "balance": 0.9}),
    ],
)
def test_best_is_the_largest_over_all_thresholds_for_every_option(name, options):
    function, scores = metrics.get(name).function, draw(7)
    values = [np.inf, *np.unique(scores.known)]
    best = max(function(scores, value, **options) for value in values)
    assert function(scores, "best", **options) == approx(best)
