"""Figures 1 and 2 of the class-imbalance paper: their data."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

from openset import Scores, metrics, openness
from openset.report import random_scores, sample_counts
from openset.report.imbalance import METRICS


def test_figure_one_has_every_holdout_of_ten_classes():
    made = sample_counts([1000] * 10)
    pairs = set(zip(made.n_known.tolist(), made.n_unknown.tolist(), strict=True))
    assert pairs == {(k, u) for k in range(2, 10) for u in range(1, 11 - k)}
    np.testing.assert_array_equal(made.known, 1000 * made.n_known)
    np.testing.assert_array_equal(made.unknown, 1000 * made.n_unknown)


def test_equal_classes_are_not_balanced_sides():
    made = sample_counts([1000] * 10)
    assert made.ratio.max() == 9
    assert made.ratio.min() == 0.25
    for k, u, value in zip(made.n_known, made.n_unknown, made.openness, strict=True):
        assert value == openness(int(k), int(k + u))


def test_unequal_classes_give_the_mean_over_all_draws():
    counts = np.array([5, 1, 9, 3])
    made = sample_counts(counts)
    rng = np.random.default_rng(0)
    draws = np.array([rng.permutation(4) for _ in range(4000)])
    for i, (k, u) in enumerate(zip(made.n_known, made.n_unknown, strict=True)):
        known = counts[draws[:, :k]].sum(axis=1)
        unknown = counts[draws[:, k : k + u]].sum(axis=1)
        assert made.known[i] == pytest.approx(known.mean(), rel=0.03)
        assert made.unknown[i] == pytest.approx(unknown.mean(), rel=0.03)


def test_outlier_problems_have_their_own_class_sizes():
    made = sample_counts([100] * 3, [20] * 5)
    assert made.n_unknown.max() == 5
    assert made.n_known.max() == 3
    np.testing.assert_array_equal(made.unknown, 20 * made.n_unknown)


def test_the_frame_of_figure_one_has_a_row_per_pair():
    frame = sample_counts([10, 10, 10, 10]).to_frame()
    assert list(frame.columns) == [
        "n_known",
        "n_unknown",
        "openness",
        "known",
        "unknown",
        "ratio",
    ]
    assert len(frame) == 3


@pytest.mark.parametrize("counts", [[], [0, 1, 2], [1.5, 2.0], [[1, 2]]])
def test_counts_must_be_positive_integers(counts):
    with pytest.raises(ValueError, match="sample_counts: counts must be"):
        sample_counts(counts)


@pytest.fixture(scope="module")
def guessed():
    return random_scores([2, 5, 20], [2, 40], per_class=5, repeats=800, rng=1)


def test_there_is_a_row_per_configuration_and_a_column_per_repeat(guessed):
    assert guessed.f1.shape == (12, 800)
    assert guessed.n_known.tolist() == [2, 2, 5, 5, 20, 20] * 2
    assert guessed.n_unknown.tolist() == [2, 40] * 6
    assert guessed.is_informed.tolist() == [False] * 6 + [True] * 6


def test_the_distributions_are_those_of_guessing_sample_by_sample(guessed):
    rng = np.random.default_rng(2)
    for i in (1, 2, 7, 10):  # some of either kind
        n_known, n_unknown = 5 * guessed.n_known[i], 5 * guessed.n_unknown[i]
        true = np.repeat([1, 0], [n_known, n_unknown])
        accept = n_known / true.size if guessed.is_informed[i] else 0.5
        answers = [(rng.random(true.size) < accept).astype(int) for _ in range(300)]
        for metric, oracle in (
            ("f1", lambda t, a: f1_score(t, a, zero_division=0)),
            ("accuracy", accuracy_score),
            ("balanced_accuracy", balanced_accuracy_score),
        ):
            slow = [oracle(true, answer) for answer in answers]
            fast = getattr(guessed, metric)[i]
            assert stats.ks_2samp(slow, fast).pvalue > 1e-4


def test_the_metrics_are_the_outer_score_with_its_three_bases():
    made = random_scores([2], [3], per_class=4, repeats=50, rng=3)
    # Rebuild each answer from its two counts, which F1 and accuracy determine.
    n_known, n_unknown = 8, 12
    for i in range(50):
        accuracy, balanced = made.accuracy[0, i], made.balanced_accuracy[0, i]
        # TP + TN = 20 accuracy and TP/8 + TN/12 = 2 balanced
        right = round(20 * accuracy)
        accepted = round((2 * balanced - right / 12) / (1 / 8 - 1 / 12))
        rejected = right - accepted
        labels = np.repeat([0, -1], [n_known, n_unknown])
        is_in = np.concatenate(
            [np.arange(n_known) < accepted, np.arange(n_unknown) >= rejected]
        )
        scores = Scores(labels=labels, predicted=np.zeros(20, int), known=is_in * 1.0)
        for base, values in (
            ("f1", made.f1),
            ("accuracy", made.accuracy),
            ("balanced_accuracy", made.balanced_accuracy),
        ):
            outer = metrics.outer_score(scores, 0.5, base=base)
            assert values[0, i] == pytest.approx(outer)


def test_only_balanced_accuracy_keeps_its_mean_over_imbalance():
    made = random_scores([2, 1000], [2, 1000], repeats=2000)
    assert made.balanced_accuracy.mean(axis=1) == pytest.approx(0.5, abs=0.01)
    f1 = made.f1.mean(axis=1).reshape(2, 2, 2)  # informed, known, unknown
    assert f1[0, 0, 1] < 0.01  # two known against a thousand unknown classes
    assert f1[0, 1, 0] == pytest.approx(2 / 3, abs=0.01)
    assert f1[1, 1, 0] > 0.99  # "over 80 %" for random predictions, as the paper says
    assert made.accuracy.mean(axis=1).reshape(2, 2, 2)[1, 0, 1] > 0.99


def test_the_same_seed_gives_the_same_figure():
    one, two = random_scores([2], [3], rng=5), random_scores([2], [3], rng=5)
    np.testing.assert_array_equal(one.f1, two.f1)


@pytest.mark.parametrize("metric", METRICS)
def test_histograms_are_numpys_row_by_row(guessed, metric):
    counts, edges = guessed.histogram(metric, bins=20)
    for row, values in zip(counts, getattr(guessed, metric), strict=True):
        expected, _ = np.histogram(values, edges)
        np.testing.assert_array_equal(row, expected)
    assert counts.sum(axis=1).tolist() == [800] * 12


def test_the_frame_of_figure_two_has_mean_and_spread(guessed):
    frame = guessed.to_frame()
    assert len(frame) == 36
    row = frame[(frame.metric == "accuracy")].iloc[3]
    assert row["mean"] == pytest.approx(guessed.accuracy[3].mean())
    assert row["low"] <= row["mean"] <= row["high"]


@pytest.mark.parametrize(
    "bad", [{"n_known": []}, {"n_known": [0]}, {"per_class": 0}, {"repeats": 1.5}]
)
def test_bad_configurations_are_refused(bad):
    with pytest.raises(ValueError, match="random_scores: "):
        random_scores(**bad)


def test_an_unknown_metric_is_refused(guessed):
    with pytest.raises(ValueError, match="metric must be one of 'f1'"):
        guessed.histogram("recall")
