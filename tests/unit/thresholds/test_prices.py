"""Prices of decisions, by hand."""

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores, thresholds
from openset.thresholds.prices import Prices

# Two classes and unknown; the row is the truth, the column the decision.
MATRIX = np.array([[1.0, 4.0, 3.0], [2.0, 0.0, 6.0], [9.0, 5.0, 1.0]])
SCORES = Scores(
    labels=[0, 0, 1, -1, -1], predicted=[0, 1, 1, 0, 1], known=[5, 4, 3, 2, 1]
)


def test_three_prices_are_those_of_each_sample():
    prices = Prices.of("me", missed_unknown=5, false_unknown=2, confusion=3)
    accepted, rejected = prices.of_samples("me", SCORES)
    assert accepted.tolist() == [0, 3, 0, 5, 5]
    assert rejected.tolist() == [2, 2, 2, 0, 0]
    assert prices.matrix is None
    plain = Prices.of("me")
    assert (plain.missed_unknown, plain.false_unknown, plain.confusion) == (1, 1, 1)


def test_a_matrix_has_a_price_for_each_truth_and_decision():
    prices = Prices.of("me", MATRIX)
    accepted, rejected = prices.of_samples("me", SCORES)
    assert accepted.tolist() == [1, 4, 0, 9, 5]
    assert rejected.tolist() == [3, 3, 6, 1, 1]
    # Beyond what the right decision costs, on average.
    assert prices.missed_unknown == approx((8 + 4) / 2)
    assert prices.false_unknown == approx((2 + 6) / 2)
    assert prices.confusion == approx((0 + 3 + 2 + 0) / 4)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_the_worst_is_to_reject_all_knowns_and_accept_all_unknowns(alpha):
    prices = Prices.of("me", missed_unknown=5, false_unknown=2)
    assert prices.worst(alpha) == approx(alpha * 2 + (1 - alpha) * 5)
    share = alpha * 2 / (alpha * 2 + (1 - alpha) * 5)
    assert prices.known_side(alpha) == approx(share)


def test_where_every_decision_is_free_nothing_is_divided_by_nought():
    free = Prices.of("me", missed_unknown=0, false_unknown=0)
    assert (free.worst(0.3), free.known_side(0.3)) == (1.0, 0.3)
    gain = Prices.of("me", [[0.0, -1.0], [4.0, 0.0]])  # rejecting a known is a gain
    assert gain.false_unknown == -1.0
    assert (gain.worst(0.25), gain.known_side(0.25)) == (approx(3.0), 0.0)
    lucky = Prices.of("me", [[0.0, 2.0], [-4.0, 0.0]])
    assert (lucky.worst(0.25), lucky.known_side(0.25)) == (approx(0.5), 1.0)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[0.0]], "square, with a row per known class .* at least 2, got shape"),
        ([0.0, 1.0], r"at least 2, got shape \(2,\)"),
        ([[0.0, 1.0, 2.0], [1.0, 0.0, 2.0]], r"at least 2, got shape \(2, 3\)"),
        (np.zeros((2, 2, 2)), r"at least 2, got shape \(2, 2, 2\)"),
        ([[0, 1.1e100], [1, 0]], "finite, from -1e.100 to 1e.100, got 1 other entries"),
        ([[0, np.nan], [np.inf, 0]], "got 2 other entries"),
        ([["a", "b"]], "rows of numbers, equally long"),
    ],
)
def test_what_is_no_matrix_of_prices_is_named(matrix, words):
    with pytest.raises(ValueError, match=f"^me: cost_matrix must be .*{words}"):
        Prices.of("me", matrix)
    Prices.of("me", [[0, 1e100], [-1e100, 0]])


def test_a_matrix_and_three_prices_are_one_too_many():
    for name in ("missed_unknown", "false_unknown", "confusion"):
        with pytest.raises(ValueError, match="cost_matrix must be left out if"):
            Prices.of("me", MATRIX, **{name: 2.0})


def test_a_matrix_needs_a_row_for_every_class():
    with pytest.raises(ValueError, match=r"^me: cost_matrix .* at least 3, got shape"):
        Prices.of("me", np.eye(2)).of_samples("me", SCORES)
    larger = np.pad(MATRIX, ((0, 1), (0, 1)))  # a class that does not occur
    accepted, rejected = Prices.of("me", larger).of_samples("me", SCORES)
    assert accepted.tolist() == [1, 4, 0, 0, 0]
    assert rejected.tolist() == [0, 0, 0, 0, 0]


def test_classes_with_large_numbers_cost_the_same():
    """The same samples, with classes 0 and 1 renumbered as 70 and 3000."""
    names = np.array([70, 3000])
    renamed = Scores(
        labels=np.where(SCORES.is_unknown, -1, names[SCORES.labels]),
        predicted=names[SCORES.predicted],
        known=SCORES.known,
    )
    for prices in ({"missed_unknown": 3.0}, {"false_unknown": 0.1, "confusion": 7}):
        for alpha in (0.3, "counts"):
            first = thresholds.by_cost(SCORES, alpha=alpha, **prices)
            second = thresholds.by_cost(renamed, alpha=alpha, **prices)
            assert (first.value, first.rate) == (second.value, second.rate)


def test_one_side_alone_has_a_mean_cost():
    chosen = thresholds.by_cost(SCORES)
    at = 3.5
    decided = Scores(labels=[0, 0, 1], predicted=[0, 1, 1], known=[5.5, 4.5, 1.5])
    assert chosen.value < at
    moved = thresholds.Threshold(
        value=at,
        method="by_hand",
        target=None,
        n=(1, 1),
        interval=(0.0, at),
        rate=("cost", 0.0, None),
    )
    found = thresholds.cost(decided, moved, confusion=4, false_unknown=7)
    assert found == approx((0 + 4 + 7) / 3)
    unknown = Scores(labels=[-1, -1], predicted=[0, 0], known=[5.5, 1.5])
    assert thresholds.cost(unknown, moved, missed_unknown=3) == approx(3 / 2)
    both = Scores.concat([decided, unknown])
    parts = (0 + 4 + 7) / 3, 3 / 2
    for alpha, share in ((None, 0.5), (0.2, 0.2), ("counts", 3 / 5)):
        found = thresholds.cost(
            both, moved, confusion=4, false_unknown=7, missed_unknown=3, alpha=alpha
        )
        assert found == approx(share * parts[0] + (1 - share) * parts[1])
    with pytest.raises(TypeError, match="cost: threshold must be a Threshold"):
        thresholds.cost(both, at)
    with pytest.raises(TypeError, match="cost: scores must be Scores"):
        thresholds.cost([1], moved)
    with pytest.raises(ValueError, match=r"thresholds\.cost: confusion must be"):
        thresholds.cost(both, moved, confusion=-1)
