"""Openness and pairs of class counts."""

import math

import pytest

import openset
from openset.protocols import openness, pairs


@pytest.mark.parametrize(
    ("n_known", "n_unknown", "expected"),
    [(7, 5, 0.142), (4, 3, 0.147), (7, 8, 0.202), (7, 9, 0.220), (2, 8, 0.423)],
)
def test_openness_of_the_imbalance_papers_five_problems(n_known, n_unknown, expected):
    assert round(openness(n_known, n_known + n_unknown), 3) == expected


def test_openness_is_also_a_top_level_name():
    assert openset.openness is openness


def test_openness_equals_the_other_form_of_the_formula():
    for n_known, n_unknown in pairs(12):
        other = 1 - math.sqrt(2 * n_known / (2 * n_known + n_unknown))
        assert openness(n_known, n_known + n_unknown) == pytest.approx(other)


def test_fewer_test_classes_than_known_ones_is_explained():
    with pytest.raises(
        ValueError, match=r"n_test must be >= n_known = 7, got 5. It co"
    ):
        openness(7, 5)


@pytest.mark.parametrize("bad", [0, -1, 2.5, True, "3", None])
def test_openness_refuses_what_is_no_count(bad):
    with pytest.raises(ValueError, match=r"openness: n_known must be an integer >= 1"):
        openness(bad, 10)


def test_holdout_pairs_of_ten_classes_are_the_thirty_six_of_the_literature():
    found = set(pairs(10))
    assert found == {(k, u) for k in range(2, 10) for u in range(1, 11 - k)}
    assert len(found) == 36


def test_outlier_pairs_use_all_classes_of_both_sets():
    assert set(pairs(3, 2)) == {(2, 1), (2, 2), (3, 1), (3, 2)}


def test_pairs_come_in_order_of_openness():
    values = [openness(k, k + u) for k, u in pairs(9)]
    assert values == sorted(values)


def test_pairs_of_too_few_classes_are_refused():
    with pytest.raises(
        ValueError, match=r"min_known must leave an unknown class, got 2 of 2"
    ):
        pairs(2)
