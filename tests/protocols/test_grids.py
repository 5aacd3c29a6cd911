"""Openness, and protocols over all of its values."""

import math

import pytest

from openset.protocols import grid, leave_classes_out, openness, pairs


def test_openness_is_that_of_the_paper_and_of_the_other_form_of_the_formula():
    sizes = (7, 5), (4, 3), (7, 8), (7, 9), (2, 8)
    values = 0.142, 0.147, 0.202, 0.22, 0.423
    for (n_known, n_unknown), value in zip(sizes, values, strict=True):
        assert openness(n_known, n_known + n_unknown) == pytest.approx(value, abs=6e-4)
    for n_known, n_unknown in pairs(12):
        other = 1 - math.sqrt(2 * n_known / (2 * n_known + n_unknown))
        assert openness(n_known, n_known + n_unknown) == pytest.approx(other)


def test_pairs_are_all_counts_in_order_of_openness():
    assert set(pairs(10)) == {(k, u) for k in range(2, 10) for u in range(1, 11 - k)}
    assert set(pairs(3, 2)) == {(2, 1), (2, 2), (3, 1), (3, 2)}
    values = [openness(k, k + u) for k, u in pairs(9)]
    assert values == sorted(values)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: openness(0, 10), "openness: n_known must be an integer >= 1"),
        (lambda: openness(2.5, 10), "openness: n_known must be an integer >= 1"),
        (lambda: openness(7, 5), r"n_test must be >= n_known = 7, got 5. It counts"),
        (lambda: pairs(2), "n_classes must be an integer >= 3, got 2"),
        (lambda: leave_classes_out(10, 3), r"a proper divisor .* here: \[1, 2, 5\]"),
        (lambda: leave_classes_out(4, 4), "a proper divisor of the 4 classes"),
        (lambda: grid(5, sizes=[]), "must be non-empty"),
        (lambda: grid(5, repeats=0), "grid: repeats must be an integer >= 1"),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_cells_of_a_grid_are_drawn_independently():
    draws = grid(20, sizes=[(10, 10), (10, 10)], repeats=1)
    assert draws[0].problem != draws[1].problem
