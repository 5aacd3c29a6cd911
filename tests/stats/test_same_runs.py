"""Paired tests over runs: against SciPy, and what counts as a run."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_rel

from openset import stats
from openset.results import Result, Results
from tests.stats.makers import over

VALUES = {"a": [0.90, 0.91, 0.93], "b": [0.85, 0.87, 0.87], "c": [0.1, 0.9, 0.4]}


def by_draw(results, draws):
    """Return the mean difference of each draw."""
    found = []
    for draw in range(draws):
        a, b = (
            results.where(repeat=draw, method=m).column("value")
            for m in ("openauc", "softmax")
        )
        found.append(a.mean() - b.mean())
    return found


def test_seeds_of_one_draw_are_one_run():
    """Five draws and three seeds are five runs, wherever they are counted."""
    results = over(draws=5, seeds=3)
    wanted = ttest_1samp(by_draw(results, 5), 0)
    (test,) = stats.paired_t(results)
    assert (test.n, test.over) == (5, "5 repeats, means of 15 runs")
    assert test.p_value == pytest.approx(wanted.pvalue) == test.p_corrected
    low, high = wanted.confidence_interval(0.95)
    assert (test.low, test.high) == pytest.approx((low, high))


def test_table_and_test_agree_on_what_a_run_is():
    results = Results(over(draws=5, seeds=3), better={"oscr": "higher"})
    (test,) = stats.paired_t(results)
    board = stats.leaderboard(results, "oscr")
    entry = board.entries["softmax", "oscr"]
    assert (entry.n, entry.p_value) == (test.n, test.p_value)
    assert test.over in board.notes[0]
    assert entry.mean == test.mean_b


def test_test_splits_of_one_network_are_one_run():
    """The differences of five splits say nothing about another network."""
    for results in (over(splits=5), Results(over(splits=5, gap=0.5, noise=0.1))):
        (test,) = stats.paired_t(results)
        assert (test.n, test.p_value) == (1, None)
        assert test.over == "1 network, means of 5 test splits"
    (test,) = stats.paired_t(over(splits=5, seeds=3))
    assert test.over == "3 seeds of one draw of the classes, means of 15 test splits"
    (test,) = stats.paired_t(over(splits=5, draws=4))
    assert test.n == 4


def test_paired_t_is_scipys(rng):
    table = {name: rng.normal(size=8) for name in "abc"}
    tests = stats.paired_t(table, correction="none", level=0.9)
    assert [(t.a, t.b) for t in tests] == [("a", "b"), ("a", "c"), ("b", "c")]
    for test in tests:
        wanted = ttest_rel(table[test.a], table[test.b])
        assert test.statistic == pytest.approx(wanted.statistic)
        assert test.p_value == test.p_corrected == pytest.approx(wanted.pvalue)
        ends = wanted.confidence_interval(0.9)
        assert (test.low, test.high) == pytest.approx((ends.low, ends.high))
        means = table[test.a].mean(), table[test.b].mean()
        assert (test.mean_a, test.mean_b) == pytest.approx(means)


def test_protocols_are_tested_one_by_one_or_pooled(rng):
    names = [(p, d) for p in ("far", "near") for d in ("postmax", "msp", "scale")]
    values = {name: rng.normal(size=5) for name in names}
    results = Results(
        Result(protocol=p, detector=d, repeat=i, metric="oosa", value=v)
        for (p, d), of in values.items()
        for i, v in enumerate(of)
    )
    options = {"metric": "oosa", "against": "postmax"}
    tests = stats.paired_t(results, **options, correction="bonferroni")
    assert [(t.protocol, t.b) for t in tests] == [
        (p, d) for p in ("far", "near") for d in ("msp", "scale")
    ]
    for test in tests:
        wanted = ttest_rel(
            values[test.protocol, "postmax"], values[test.protocol, test.b]
        )
        assert test.p_value == pytest.approx(wanted.pvalue)
        assert test.p_corrected == pytest.approx(min(1, 4 * wanted.pvalue))
    pooled, _ = stats.paired_t(results, **options, pool=True)
    a, b = (np.append(values["far", d], values["near", d]) for d in ("postmax", "msp"))
    assert (pooled.n, pooled.protocol) == (10, "all protocols")
    assert pooled.p_value == pytest.approx(ttest_rel(a, b).pvalue)


def test_corrections_follow_their_definitions():
    p = [0.3, 0.001, 0.02, 0.9, 0.02]
    largest, wanted = 0.0, [0.0] * 5
    for place, i in enumerate(sorted(range(5), key=lambda i: p[i])):
        largest = max(largest, p[i] * (5 - place))
        wanted[i] = min(largest, 1.0)
    assert stats.adjust(p) == pytest.approx(wanted)
    assert stats.adjust(p, "bonferroni") == pytest.approx([min(5 * v, 1) for v in p])
    assert stats.adjust(p, "none") == p
    assert stats.adjust([0.0, 1.0]) == [0.0, 1.0]
    assert stats.adjust([]) == []


def test_runs_without_a_possible_test_have_none():
    same = {"a": [0.913, 0.822], "b": [0.9129, 0.8219], "c": [0.1, 0.9]}
    same["d"] = same["b"]
    found = {(t.a, t.b): t for t in stats.paired_t(same, correction="bonferroni")}
    constant, equal = found["a", "b"], found["b", "d"]
    assert (constant.p_value, constant.p_corrected, constant.low) == (None,) * 3
    assert constant.difference == pytest.approx(1e-4)
    assert (equal.difference, equal.statistic, equal.p_value) == (0, 0, 1)
    others = [t for t in found.values() if t.p_value is not None]
    assert len(others) == 4  # a differs from d as it does from b
    assert all(t.p_corrected == min(1, 4 * t.p_value) for t in others)


ROWS = [*over(draws=2)]
REFUSED = [
    ({"results": {"a": [1, np.nan], "b": [1, 2]}}, "values must be a finite number"),
    ({"results": {"a": np.eye(2), "b": np.eye(2)}}, "values must be a finite number"),
    ({"results": {"a": [1, 2], "b": [1, 2, 3]}}, "inhomogeneous shape"),
    ({"results": {"a": [1, 2]}}, "results must be of at least two methods, got a"),
    (
        {"results": Results(ROWS[:-1])},
        "results of .* no protocol '', repeat 1, split 0, seed 0 of",
    ),
    (
        {"results": Results([*ROWS, Result(metric="auroc", value=1)])},
        "metric must be one of 'auroc', 'oscr', got None",
    ),
    ({"results": Results([*ROWS, ROWS[0]])}, "runs must be unique"),
    ({"metric": "oosa"}, "metric must be one of ''"),
    ({"against": "d"}, "against must be one of 'a', 'b'"),
    ({"correction": "hochberg"}, "correction must be one of 'holm'"),
    ({"level": 95}, r"level must be a number in \(0, 1\)"),
]


@pytest.mark.parametrize(("change", "words"), REFUSED)
def test_what_cannot_be_tested_is_named(change, words):
    with pytest.raises(ValueError, match=words):
        stats.paired_t(**{"results": VALUES, **change})
    with pytest.raises(TypeError, match="paired_t: results must be Results, or a map"):
        stats.paired_t([[1, 2], [2, 3]])
