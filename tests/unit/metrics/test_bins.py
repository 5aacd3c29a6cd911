"""The layout of the bins, and the intervals against a slow division of them."""

import math

import numpy as np
import pytest

from openset.metrics import bins

RESIDUES = 1 << 20


def bins_in(first, last):
    """Return the number of bins from one number to another."""
    low, high = bins.locate_numpy(np.array([first, last])).bins
    return high - low + 1


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("exponent", "bits"),
    [
        *((-1022, 2), (-150, 2), (-149, 7), (-25, 7), (-18, 8), (-14, 12), (-13, 13)),
        *((-12, 14), (-5, 14), (-2, 14), (0, 14), (19, 14), (20, 13), (21, 12)),
        *((25, 8), (26, 7), (127, 7), (128, 2), (1023, 2)),
    ],
)
def test_a_factor_of_two_has_as_many_bins_as_the_layout_says(sign, exponent, bits):
    first = 2.0**exponent
    first = math.nextafter(1.0, 2.0) if exponent == 0 else first  # 1 has its own row
    last = math.nextafter(2.0**exponent * 2, 0) if exponent < 1023 else 1.7976e308
    ends = sorted([sign * first, sign * last])
    assert bins_in(*ends) == 1 << bits


@pytest.mark.parametrize("sign", [1, -1])
def test_close_to_one_the_distance_to_one_decides(sign):
    for exponent in (-2, -5, -12, -13, -14, -30):
        # Distances to 1 from 2**exponent up to, but without, twice that.
        ends = [math.nextafter(1 - 2.0**exponent * 2, 1), 1 - 2.0**exponent]
        bits = max(7, 14 + min(0, exponent + 12))
        found = bins_in(*sorted(sign * end for end in ends))
        assert found == 1 << bits, exponent


# Number, bin, and entries of the second and the third table.
LAYOUT_2 = [
    (-math.inf, 0, 524287, 1048575),
    (-1e30, 7223, 745683, 793196),
    (-3.3, 333415, 707788, 629145),
    (-1.0, 360449, 1048575, 1048575),
    (-0.75, 544898, 524288, 0),
    (-0.5, 561282, 524287, 1048575),
    (-5e-324, 777898, 524287, 1048575),
    (0.0, 777900, 0, 0),
    (-0.0, 777900, 0, 0),
    (5e-324, 777901, 524288, 0),
    (0.001, 847454, 12582, 402653),
    (0.25, 978133, 0, 0),
    (0.5, 994517, 524288, 0),
    (0.7, 1007625, 419430, 838860),
    (1 - 2**-53, 1195349, 1048575, 1048575),
    (1.0, 1195350, 0, 0),
    (1.5, 1203543, 786432, 0),
    (1000.05, 1358424, 499763, 263782),
    (1e308, 1555795, 59001, 839480),
    (math.inf, 1555799, 524288, 0),
]


def test_saved_counts_are_of_the_same_bins_as_before():
    """A change here makes saved sketches wrong: it needs a new number of the layout."""
    assert bins.LAYOUT == 2
    assert bins.SHAPES == {"bins": 1_555_800, "coarse": RESIDUES, "fine": RESIDUES}
    numbers, *expected = map(np.array, zip(*LAYOUT_2, strict=True))
    for found, entries in zip(bins.locate_numpy(numbers), expected, strict=True):
        np.testing.assert_array_equal(found, entries)


def test_single_numbers_are_those_with_a_row_of_their_own():
    single = np.array([0.0, 0.5, 1.0, math.inf])
    around = [math.nextafter(x, y) for x in single for y in (-9.0, 9.0)]
    for sign in (1, -1):
        for numbers, expected in ((single, True), (around, False)):
            at = bins.positions_numpy(sign * np.array(numbers))
            assert (bins.single(at) == expected).all()


def tables_of(known, kind):
    """Count samples of two kinds, one by one."""
    tables = {name: np.zeros((2, size), np.int64) for name, size in bins.SHAPES.items()}
    for table, at in zip(tables.values(), bins.locate_numpy(known), strict=True):
        for one, place in zip(kind, at, strict=True):
            table[one, place] += 1
    return tables


def slowly_divided(cells, occupied, drop):
    """Divide the cells that share no residue with another; occupied: all positions."""
    residues = []
    for first, last in cells:
        length = (last >> drop) - (first >> drop) + 1
        steps = range(first >> drop, (first >> drop) + min(length, RESIDUES))
        residues.append({step % RESIDUES for step in steps})
    result = []
    for i, (first, last) in enumerate(cells):
        is_long = (last >> drop) - (first >> drop) + 1 > RESIDUES
        is_single = bins.single(np.array([first]))[0]
        others = [one for j, one in enumerate(residues) if j != i]
        if is_long or is_single or any(residues[i] & other for other in others):
            result.append((first, last))
            continue
        steps = sorted({p >> drop for p in occupied if first <= p <= last})
        result += [(step << drop, ((step + 1) << drop) - 1) for step in steps]
    return result


KNOWN = {
    "in one bin": 3.3 + np.arange(12) * 2e-6,
    "in some bins": 1000 + np.arange(12) / 100,
    "below zero": -5 - np.arange(12) ** 2 / 1e4,
    "in bins that share residues": np.r_[
        3 + np.arange(4) / 1e5, 5 + np.arange(3) / 1e5
    ],
    "in neighbours": 2 + np.arange(8) * 2.0**-16,
    "far out": np.r_[1e30 * (1 + np.arange(6) / 1e4), 7.0, 7.0001],
    "only far out": 1e9 * (1 + np.arange(6) / 1e4),
    "in bins as long as a table": 2.0**23 * (1 + np.arange(6) / 1e4),
    "close to one": 1 - np.arange(1, 9) / 1e5,
    "single": np.array([0.0, 1.0, 1.0, 0.5, math.inf, -math.inf, -1.0, 0.3, 0.3000001]),
    "one number": np.array([1.0, 1.0]),
    "zero and above": np.array([0.0, 5e-324, 1e-300, 2.0]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_intervals_are_as_a_slow_division_finds_them(name):
    known = KNOWN[name]
    kind = np.arange(known.size) % 3 % 2
    found = bins.intervals(**tables_of(known, kind))
    at = bins.positions_numpy(known)
    layout = bins.rows()
    cells = set()
    for position in at.tolist():
        shift = int(layout.shift[(position >> 24) + layout.shift.size // 2])
        first = position >> shift << shift
        cells.add((first, first + (1 << shift) - 1))
    for drop in (5, 0):
        cells = slowly_divided(sorted(cells), at.tolist(), drop)
    assert list(zip(found.first, found.last, strict=True)) == cells[::-1]
    for first, last, counts in zip(
        found.first, found.last, found.counts.T, strict=True
    ):
        inside = (first <= at) & (at <= last)
        assert counts.tolist() == np.bincount(kind[inside], minlength=2).tolist()
    np.testing.assert_array_equal(found.is_single, bins.single(found.first))
