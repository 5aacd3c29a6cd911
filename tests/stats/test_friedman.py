"""Ranks, Friedman and Nemenyi against slow counting, SciPy and a published table."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import friedmanchisquare

from openset import UndefinedMetricError
from openset.stats import ranks


def slow_rank(row, i):
    """One plus those that are better, plus half of the others that tie."""
    better = sum(value > row[i] for value in row)
    equal = sum(value == row[i] for value in row) - 1
    return 1 + better + equal / 2


@pytest.mark.parametrize("levels", [1000, 4])  # without ties, and with many
def test_mean_ranks_and_friedman_equal_slow_counting_and_scipy(rng, levels):
    values = rng.integers(0, levels, size=(12, 5)).astype(float)
    table = {f"m{j}": values[:, j] for j in range(5)}
    found, down = ranks(table), ranks(table, better="lower")
    for j in range(5):
        slow = np.mean([slow_rank(row, j) for row in values])
        assert found.mean[f"m{j}"] == pytest.approx(slow)
        assert down.mean[f"m{j}"] == pytest.approx(6 - slow)
    wanted = friedmanchisquare(*values.T)
    assert found.statistic == pytest.approx(wanted.statistic)
    assert found.p_value == pytest.approx(wanted.pvalue)


# Demšar (2006), table 5: critical values of the two-tailed Nemenyi test.
@pytest.mark.parametrize(
    ("k", "at_95", "at_90"), [(3, 2.343, 2.052), (5, 2.728, 2.459), (10, 3.164, 2.920)]
)
def test_critical_differences_equal_the_published_table(rng, k, at_95, at_90):
    table = {f"m{j}": rng.normal(size=14) for j in range(k)}
    for level, q in ((0.95, at_95), (0.9, at_90)):
        found = ranks(table, level=level).critical_difference
        assert found == pytest.approx(q * np.sqrt(k * (k + 1) / (6 * 14)), abs=2e-3)


def test_a_pair_is_alike_exactly_if_closer_than_the_critical_difference(rng):
    found = ranks({f"m{j}": rng.normal(size=15) + j / 2 for j in range(6)})
    for a, b in combinations(found.mean, 2):
        together = any({a, b} <= set(group) for group in found.alike)
        near = abs(found.mean[a] - found.mean[b]) < found.critical_difference
        assert together == near


def test_when_everything_ties_nothing_differs():
    found = ranks({"a": [1, 1, 1], "b": [1, 1, 1], "c": [1, 1, 1]})
    assert (found.statistic, found.p_value) == (0.0, 1.0)
    assert found.alike == (("a", "b", "c"),)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"a": [1, 2], "b": [2, 2]}, "(?i)at least 3"),
        ({"a": [1], "b": [2], "c": [3]}, "undefined for fewer than two problems"),
        ({"a": 1, "b": 2, "c": 3}, "values must be a finite number for each run"),
    ],
)
def test_bad_tables_are_refused(table, words):
    with pytest.raises((ValueError, UndefinedMetricError), match=words):
        ranks(table)
