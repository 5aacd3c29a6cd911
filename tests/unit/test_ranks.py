"""Ranks, Friedman and Nemenyi against slow counting, SciPy and a published table."""

import numpy as np
import pytest
from scipy import stats as foreign

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
    found = ranks(table)
    for j in range(5):
        slow = np.mean([slow_rank(row, j) for row in values])
        assert found.mean[f"m{j}"] == pytest.approx(slow)
    expected = foreign.friedmanchisquare(*values.T)
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.p_value == pytest.approx(expected.pvalue)


def test_lower_is_better_turns_the_ranks_round(rng):
    values = rng.normal(size=(8, 3))
    table = {f"m{j}": values[:, j] for j in range(3)}
    up, down = ranks(table), ranks(table, better="lower")
    for name in table:
        assert up.mean[name] + down.mean[name] == pytest.approx(4)


# Demšar (2006), table 5: critical values of the two-tailed Nemenyi test.
@pytest.mark.parametrize(
    ("k", "at_95", "at_90"),
    [(2, 1.960, 1.645), (3, 2.343, 2.052), (5, 2.728, 2.459), (10, 3.164, 2.920)],
)
def test_critical_differences_equal_the_published_table(rng, k, at_95, at_90):
    n = 14
    table = {f"m{j}": rng.normal(size=n) for j in range(k)}
    for level, q in ((0.95, at_95), (0.9, at_90)):
        found = ranks(table, level=level).critical_difference
        assert found == pytest.approx(q * np.sqrt(k * (k + 1) / (6 * n)), abs=2e-3)


def test_a_pair_is_alike_exactly_if_its_p_value_says_so(rng):
    table = {f"m{j}": rng.normal(size=15) + j / 2 for j in range(6)}
    found = ranks(table)
    names = list(found.mean)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            together = any({a, b} <= set(group) for group in found.alike)
            assert together == (found.p_of(a, b) > 0.05)


def test_when_everything_ties_nothing_differs():
    found = ranks({"a": [1, 1, 1], "b": [1, 1, 1]})
    assert (found.statistic, found.p_value) == (0.0, 1.0)
    assert found.alike == (("a", "b"),)


def test_bad_tables_are_refused():
    with pytest.raises(ValueError, match="at least two methods, got 1"):
        ranks({"a": [1, 2]})
    with pytest.raises(UndefinedMetricError, match="fewer than two problems, got 1"):
        ranks({"a": [1], "b": [2]})
    with pytest.raises(ValueError, match="same length, got 2, 3"):
        ranks({"a": [1, 2], "b": [1, 2, 3]})
    with pytest.raises(ValueError, match="values of 'a' must be one-dimensional"):
        ranks({"a": 1, "b": 2})
    with pytest.raises(ValueError, match="free of NaN"):
        ranks({"a": [1, 2], "b": [1, np.nan]})
    with pytest.raises(ValueError, match="method must be one of 'b', 'a', got 'c'"):
        ranks({"a": [1, 2], "b": [2, 3]}).p_of("a", "c")
