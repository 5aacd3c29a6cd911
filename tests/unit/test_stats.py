"""Tests of tests: against SciPy, by hand, and on data without a difference."""

from dataclasses import replace

import numpy as np
import pytest
from pytest import approx  # noqa: PT013
from scipy import stats as sps

from openset import Scores, UndefinedMetricError, metrics, stats
from openset.metrics.intervals import percentile, replicates
from openset.results import Result, Results
from tests.influence import influence


def two_detectors(seed=0, n=300, gap=0.5):
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, -1], n)
    predicted = np.where(rng.random(2 * n) < 0.9, 0, 1)
    signal = np.repeat([1.0, 0.0], n) + rng.normal(size=2 * n)
    a = Scores(labels=labels, predicted=predicted, known=signal)
    return a, a.with_known(signal + gap * rng.normal(size=2 * n))


def brute_placements(scores):
    known = [(c, s) for c, s, u in zip(scores.is_correct, scores.known,
             scores.is_unknown, strict=True) if not u]  # fmt: skip
    unknown = scores.known[scores.is_unknown]
    h = np.array([[c * ((k > u) + (k == u) / 2) for u in unknown] for c, k in known])
    return h.mean(axis=1), h.mean(axis=0)


def test_openauc_difference_uses_the_covariance_of_placement_values():
    a, b = (s.with_known(s.known.round(1)) for s in two_detectors(n=40))
    (va, wa), (vb, wb) = brute_placements(a), brute_placements(b)
    variance = (va - vb).var(ddof=1) / 40 + (wa - wb).var(ddof=1) / 40
    result = stats.compare(a, b)
    assert result.difference == approx(metrics.openauc(a) - metrics.openauc(b))
    half = sps.norm.ppf(0.975) * np.sqrt(variance)
    assert result.interval.high - result.difference == approx(half)
    z = result.difference / np.sqrt(variance)
    assert result.p_value == approx(2 * sps.norm.sf(abs(z)))


def test_a_detector_compared_with_itself_shows_nothing():
    a, _ = two_detectors()
    for metric in ("auroc", "openauc", "partial_openauc", "fpr_at_tpr"):
        result = stats.compare(a, a, metric)
        assert (result.difference, result.p_value) == (0, 1)


@pytest.mark.parametrize("decimals", [5, 0])
@pytest.mark.parametrize("metric", ["openauc", "auroc", "partial_openauc"])
def test_placement_values_and_bootstrap_agree(metric, decimals):
    a, b = (s.with_known(s.known.round(decimals)) for s in two_detectors(n=500))
    formula = stats.compare(a, b, metric)
    row = {metric: metrics.get(metric)}
    of_a, of_b = (replicates(s, row, resamples=2000, rng=0)[metric] for s in (a, b))
    resampled = percentile(of_a - of_b, 0.95)
    width = formula.interval.high - formula.interval.low
    assert resampled.high - resampled.low == approx(width, rel=0.15)
    centre = (resampled.high + resampled.low) / 2
    assert centre == approx(formula.difference, abs=width / 10)


def test_metrics_at_a_threshold_are_compared_at_both_thresholds():
    a, b = two_detectors()
    result = stats.compare(a, b, "osa", threshold=(0.5, 0.4), resamples=200)
    expected = metrics.osa(a, 0.5) - metrics.osa(b, 0.4)
    assert result.difference == approx(expected)
    again = stats.compare(a, b, "osa", threshold=np.array([0.5, 0.4]), resamples=200)
    assert again == result
    for bad in (None, 0.5, (0.5,)):
        with pytest.raises(ValueError, match="threshold must be a pair"):
            stats.compare(a, b, "osa", threshold=bad)


def test_only_the_same_samples_can_be_compared():
    a, b = two_detectors()
    with pytest.raises(ValueError, match="the same samples in the same order"):
        stats.compare(a, b.take(slice(0, 400)))
    with pytest.raises(ValueError, match=r"different labels in 600 of 600 rows"):
        stats.compare(a, b.take(slice(None, None, -1)))


def test_cluster_bootstrap_is_wider_when_samples_repeat():
    a, _ = two_detectors(n=60)
    rows = np.repeat(np.arange(120), 5)
    groups = rows  # each sample five times: five copies are one sample
    copied = Scores(
        labels=a.labels[rows],
        predicted=a.predicted[rows],
        known=a.known[rows],
        groups=groups,
    )
    naive = metrics.bootstrap(copied, "auroc", resamples=300)
    honest = metrics.bootstrap(copied, "auroc", resamples=300, clusters="groups")
    single = metrics.bootstrap(a, "auroc", resamples=300)
    assert honest.high - honest.low > 1.8 * (naive.high - naive.low)
    assert honest.high - honest.low == approx(single.high - single.low, rel=0.2)


def test_paired_t_is_scipys():
    rng = np.random.default_rng(0)
    table = {name: rng.normal(size=8) for name in "abc"}
    tests = stats.paired_t(table, "none")
    assert [(t.a, t.b) for t in tests] == [("a", "b"), ("a", "c"), ("b", "c")]
    for test in tests:
        expected = sps.ttest_rel(table[test.a], table[test.b])
        assert test.statistic == approx(expected.statistic)
        assert test.p_value == test.p_corrected == approx(expected.pvalue)


def test_corrections_follow_their_definitions():
    assert stats.adjust([0.01, 0.04, 0.03, 0.5], "bonferroni") == approx(
        [0.04, 0.16, 0.12, 1.0]
    )
    # Holm: 4·0.01, then 3·0.03, then max(that, 2·0.04), then max(that, 0.5).
    assert stats.adjust([0.01, 0.04, 0.03, 0.5], "holm") == approx(
        [0.04, 0.09, 0.09, 0.5]
    )


def test_shared_training_data_widens_the_test():
    table = {"a": [0.9, 0.91, 0.93], "b": [0.85, 0.87, 0.87]}
    plain, corrected = stats.paired_t(table), stats.paired_t(table, test_share=0.5)
    ratio = plain[0].statistic / corrected[0].statistic
    assert ratio == approx(np.sqrt((1 / 3 + 0.5) / (1 / 3)))


def test_paired_t_reads_results_by_run():
    rows = [
        Result(detector=d, seed=s, metric="auroc", value=v + s / 100)
        for d, v in (("ours", 0.9), ("theirs", 0.8))
        for s in (2, 0, 1)
    ]
    rows[0] = Result(detector="ours", seed=2, metric="auroc", value=0.95)
    test = stats.paired_t(Results(rows), against="theirs")[0]
    assert (test.a, test.b, test.n) == ("theirs", "ours", 3)
    assert test.difference == approx(-(0.1 + 0.1 + 0.13) / 3)
    with pytest.raises(ValueError, match="every detector must have every run"):
        stats.paired_t(Results(rows[:-1]))
    with pytest.raises(ValueError, match="runs must be unique"):
        stats.paired_t(Results([*rows, rows[0]]))
    other = Result(detector="ours", metric="openauc", value=0.1)
    with pytest.raises(ValueError, match="results must be of one metric"):
        stats.paired_t(Results([*rows, other]))


def test_paired_t_is_undefined_without_spread():
    with pytest.raises(UndefinedMetricError, match="differ by the same"):
        stats.paired_t({"a": [0.5, 0.6], "b": [0.25, 0.35]})
    same = stats.paired_t({"a": [1, 2], "b": [1, 2]})[0]
    assert (same.difference, same.statistic, same.p_value) == (0, 0, 1)
    rounded = {"a": [0.3, 0.6], "b": [0.1 + 0.2, 0.6]}
    assert stats.paired_t(rounded)[0].p_value == 1
    a = np.array([0.913, 0.822, 0.731, 0.648])
    with pytest.raises(UndefinedMetricError, match="differ by the same"):
        stats.paired_t({"a": a, "b": a - 0.0001})
    with pytest.raises(UndefinedMetricError, match="fewer than two runs"):
        stats.paired_t({"a": [1], "b": [2]})
    with pytest.raises(ValueError, match="at least two methods"):
        stats.paired_t({"a": [1, 2]})


def test_results_round_trip(tmp_path):
    table = Results(
        [Result(detector="a, b", seed=1, metric="auroc", value=1 / 3, n=7, model="m")]
    )
    again = Results.load(table.save(tmp_path / "results.csv"))
    assert list(again) == list(table)
    assert again.to_frame().loc[0, "value"] == 1 / 3


@pytest.mark.parametrize("n", [1, 0, True, 2.5])
def test_one_resample_makes_no_interval(n):
    a, b = two_detectors()
    for call in (
        lambda: metrics.bootstrap(a, "fpr_at_tpr", resamples=n),
        lambda: stats.compare(a, b, "fpr_at_tpr", resamples=n),
    ):
        with pytest.raises(ValueError, match=r"resamples must be an integer >= 2, got"):
            call()
    assert metrics.bootstrap(a, "fpr_at_tpr", resamples=2).method == "bootstrap, 2"


@pytest.mark.parametrize("n", [1, -1, True])
def test_evaluate_asks_for_two_resamples_or_none(n):
    scores = two_detectors()[0]
    with pytest.raises(ValueError, match=r"bootstrap must be an integer >= 2, got"):
        metrics.evaluate(scores, bootstrap=n)
    assert "fpr_at_tpr" not in metrics.evaluate(scores, bootstrap=0).intervals
    assert "fpr_at_tpr" in metrics.evaluate(scores, bootstrap=2).intervals


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"metric": "acuracy"}, ValueError, "metric must be one of '"),
        ({"metric": "oscr_curve"}, ValueError, "metric must be one of '"),
        ({"b": np.ones(3)}, TypeError, "scores must be Scores, got ndarray"),
        (
            {"metric": "aupr", "rng": np.random.default_rng(0)},
            ValueError,
            "rng must be an integer >= 0, got Generator",
        ),
    ],
)
def test_what_cannot_be_compared_is_named(change, error, words):
    a, b = two_detectors()
    with pytest.raises(error, match=f"^compare: {words}"):
        stats.compare(**({"a": a, "b": b} | change))


def test_one_sample_a_side_tells_nothing_about_a_difference():
    one = Scores(labels=[0, -1, -1], predicted=[0, 0, 0], known=[3.0, 2, 1])
    for metric in ("openauc", "fpr_at_tpr"):
        with pytest.raises(UndefinedMetricError, match="got 1 known and 2 unknown"):
            stats.compare(one, one.with_known([1.0, 2, 3]), metric)
    with pytest.raises(UndefinedMetricError, match="an interval is undefined"):
        metrics.bootstrap(one, "auroc")
    assert "fpr_at_tpr" not in metrics.evaluate(one, bootstrap=10).intervals


def test_one_cluster_a_side_tells_nothing_about_others():
    a, _ = two_detectors()
    groups = np.where(a.is_unknown, np.arange(600) % 9, 0)
    one = Scores(labels=a.labels, predicted=a.predicted, known=a.known, groups=groups)
    words = "got 1 known and 9 unknown groups"
    with pytest.raises(UndefinedMetricError, match=f"^bootstrap: .*{words}"):
        metrics.bootstrap(one, "auroc", clusters="groups")
    with pytest.raises(UndefinedMetricError, match=f"^evaluate: .*{words}"):
        metrics.evaluate(one, bootstrap=10, clusters="groups")


def test_p_values_and_their_correction_are_checked():
    with pytest.raises(ValueError, match="adjust: correction must be one of 'holm'"):
        stats.adjust([0.1], "hochberg")
    for bad in ([0.1, np.nan], [2.0], 0.1):
        with pytest.raises(ValueError, match="adjust: p_values must be a vector"):
            stats.adjust(bad)


def test_paired_t_refuses_what_is_no_table_of_numbers():
    with pytest.raises(ValueError, match="values of 'a' must be finite, got nan"):
        stats.paired_t({"a": [1, np.nan], "b": [1, 2]})
    with pytest.raises(ValueError, match="values of 'a' must be one-dimensional"):
        stats.paired_t({"a": np.eye(2), "b": np.ones((2, 2))})
    with pytest.raises(TypeError, match="results must be Results, or a mapping"):
        stats.paired_t([[1, 2], [2, 3]])


def test_a_result_holds_a_plain_number():
    value = Result(metric="auroc", value=np.float32(0.1)).value
    assert (type(value), value) == (float, float(np.float32(0.1)))
    for bad in ("0.5", None, np.nan):
        with pytest.raises(ValueError, match="Result: value must be a number"):
            Result(metric="auroc", value=bad)


def test_results_are_read_from_a_spreadsheets_file_too(tmp_path):
    path = tmp_path / "results.csv"
    path.write_bytes(b"\xef\xbb\xbfmetric,value\r\nauroc,0.5\r\n")
    assert list(Results.load(path)) == [Result(metric="auroc", value=0.5)]
    with pytest.raises(FileNotFoundError, match=r"Results\.load: no such file"):
        Results.load(tmp_path / "none.csv")


@pytest.mark.parametrize("decimals", [3, 1, 0])
@pytest.mark.parametrize(
    ("metric", "params"),
    [
        ("auroc", {}),
        ("openauc", {}),
        ("partial_openauc", {}),
        ("partial_openauc", {"max_fpr": 0.33}),
        ("partial_openauc", {"max_fpr": 1.0}),
    ],
)
def test_the_difference_varies_as_the_influence_of_the_samples(
    metric, params, decimals
):
    """Both detectors see the same samples: only the difference of influences counts."""
    a, b = (s.with_known(s.known.round(decimals)) for s in two_detectors(n=25))
    bound = params.get("max_fpr", 0.1 if metric == "partial_openauc" else 1.0)
    counts = ~a.is_unknown if metric == "auroc" else None
    placed = [influence(s, bound, counts=counts) for s in (a, b)]
    variance = sum(
        (of_a - of_b).var(ddof=1) / of_a.size
        for of_a, of_b in zip(*placed, strict=True)
    )
    error = np.sqrt(variance) / bound
    found = stats.compare(a, b, metric, level=0.9, **params)
    row = metrics.get(metric).function
    assert (found.a, found.b) == (row(a, **params), row(b, **params))
    assert found.difference == found.a - found.b
    half = sps.norm.ppf(0.95) * error
    assert found.interval.high - found.difference == approx(half, rel=1e-5)
    assert found.difference - found.interval.low == approx(half, rel=1e-5)
    p_value = 2 * sps.norm.sf(abs(found.difference) / error)
    assert found.p_value == approx(p_value, rel=1e-4)
    assert (found.interval.level, found.interval.method) == (0.9, "placement values")
    assert found.metric == metric


@pytest.mark.parametrize("gap", [0.1, 1.0])
def test_a_paired_bootstrap_counts_the_resamples_beyond_nought(gap):
    a, b = two_detectors(n=40, gap=gap)
    found = stats.compare(a, b, "fpr_at_tpr", resamples=99, tpr=0.8)
    row = {"it": replace(metrics.get("fpr_at_tpr"), params={"tpr": 0.8})}
    of_a, of_b = (replicates(s, row, resamples=99, rng=0)["it"] for s in (a, b))
    spread = (of_a - of_b).tolist()
    tail = min(sum(one <= 0 for one in spread), sum(one >= 0 for one in spread))
    assert found.p_value == approx(min(1, 2 * (tail + 1) / 100))
    assert found.interval.low == approx(np.quantile(spread, 0.025))
    assert found.interval.method == "paired bootstrap, 99"
    assert found.a == metrics.fpr_at_tpr(a, 0.8)
    assert found.difference == found.a - metrics.fpr_at_tpr(b, 0.8)


def test_a_difference_without_spread_is_certain():
    labels, predicted = [0, 0, -1, -1], [0, 0, 0, 0]
    best = Scores(labels=labels, predicted=predicted, known=[4.0, 3, 2, 1])
    worst = best.with_known([1.0, 1, 2, 2])
    found = stats.compare(best, worst, "auroc")
    assert (found.difference, found.p_value) == (1.0, 0.0)
    assert (found.interval.low, found.interval.high) == (1.0, 1.0)
    wrong = Scores(labels=labels, predicted=[1, 1, 0, 0], known=[4.0, 3, 2, 1])
    found = stats.compare(wrong, wrong)
    assert (found.a, found.difference, found.p_value) == (0.0, 0.0, 1.0)


@pytest.mark.parametrize("level", [0, 1, -0.5, 1.5])
def test_a_confidence_level_lies_between_nought_and_one(level):
    a, b = two_detectors(n=20)
    with pytest.raises(
        ValueError, match=r"^compare: level must be a number in \(0, 1\)"
    ):
        stats.compare(a, b, level=level)
    with pytest.raises(ValueError, match=r"^ranks: level must be a number in \(0, 1\)"):
        stats.ranks({"a": [1, 2], "b": [2, 1]}, level=level)


def test_comparisons_need_both_sides_and_defaults_are_stated():
    a, b = two_detectors(n=20)
    known = [s.take(~s.is_unknown) for s in (a, b)]
    with pytest.raises(UndefinedMetricError, match=r"^compare: undefined without unkn"):
        stats.compare(*known)
    found = stats.compare(a, b)
    assert (found.metric, found.interval.level) == ("openauc", 0.95)
    found = stats.compare(a, b, "aupr")
    assert found.interval.method == "paired bootstrap, 2000"
    assert found == stats.compare(a, b, "aupr", rng=0)
    with pytest.raises(ValueError, match=r"^compare: rng must be an integer >= 0"):
        stats.compare(a, b, "aupr", rng=-1)


@pytest.mark.parametrize("share", [0, -1, np.nan, "x"])
def test_a_share_of_test_samples_is_positive(share):
    table = {"a": [1.0, 2.0, 4.0], "b": [1.0, 3.0, 3.5]}
    with pytest.raises(ValueError, match=r"^paired_t: test_share must be a number in"):
        stats.paired_t(table, test_share=share)


def test_one_method_is_compared_with_every_other():
    table = {
        name: np.random.default_rng(i).normal(size=6) for i, name in enumerate("abc")
    }
    found = stats.paired_t(table, against="b")
    assert [(one.a, one.b) for one in found] == [("b", "a"), ("b", "c")]
    raw = [sps.ttest_rel(table["b"], table[name]) for name in "ac"]
    assert [one.p_value for one in found] == approx([one.pvalue for one in raw])
    assert [one.p_corrected for one in found] == approx(
        stats.adjust([one.pvalue for one in raw], "holm")
    )
    assert [one.difference for one in found] == approx(
        [np.mean(table["b"] - table[name]) for name in "ac"]
    )
    assert {one.n for one in found} == {6}
    with pytest.raises(ValueError, match=r"^paired_t: against must be one of 'a', 'b'"):
        stats.paired_t(table, against="d")
    with pytest.raises(
        ValueError, match=r"^paired_t: correction must be one of 'holm'"
    ):
        stats.paired_t(table, "hochberg")
    with pytest.raises(
        ValueError, match=r"^paired_t: a and b must have the same length"
    ):
        stats.paired_t({"a": [1.0, 2.0], "b": [1.0, 2.0, 3.0]})


def test_corrected_p_values_stay_in_order_and_below_one():
    p = [0.3, 0.001, 0.02, 0.9, 0.02]
    holm, bonferroni = stats.adjust(p), stats.adjust(p, "bonferroni")
    ordered = sorted(range(5), key=lambda i: p[i])
    largest, expected = 0.0, [0.0] * 5
    for place, i in enumerate(ordered):
        largest = max(largest, p[i] * (5 - place))
        expected[i] = min(largest, 1.0)
    assert holm == approx(expected)
    assert bonferroni == approx([min(5 * one, 1.0) for one in p])
    assert stats.adjust(p, "none") == p
    assert stats.adjust([0.0, 1.0]) == [0.0, 1.0]
    for bad in ([-0.1], [1.1]):
        with pytest.raises(ValueError, match="adjust: p_values must be a vector"):
            stats.adjust(bad)


def _runs(values):
    """Return results of {(protocol, detector): values over repeats}."""
    return Results(
        Result(protocol=p, detector=d, repeat=i, metric="oosa", value=v)
        for (p, d), of in values.items()
        for i, v in enumerate(of)
    )


def test_runs_are_compared_as_scipy_does_and_corrected_over_all_tests(rng):
    names = [(p, d) for p in ("far", "near") for d in ("postmax", "msp", "scale")]
    values = {name: rng.normal(size=5) for name in names}
    tests = stats.compare_runs(
        _runs(values), "oosa", against="postmax", correction="bonferroni"
    )
    assert [(t.protocol, t.b) for t in tests] == [
        (p, d) for p in ("far", "near") for d in ("msp", "scale")
    ]
    for test in tests:
        a, b = values[test.protocol, "postmax"], values[test.protocol, test.b]
        wanted = sps.ttest_rel(a, b)
        assert test.statistic == pytest.approx(wanted.statistic)
        assert test.p_value == pytest.approx(wanted.pvalue)
        assert test.p_corrected == pytest.approx(min(1, 4 * wanted.pvalue))
        assert (test.mean_a, test.mean_b) == pytest.approx((a.mean(), b.mean()))
    pooled, _ = stats.compare_runs(_runs(values), "oosa", against="postmax", pool=True)
    a, b = (np.append(values["far", d], values["near", d]) for d in ("postmax", "msp"))
    assert pooled.n == 10
    assert pooled.p_value == pytest.approx(sps.ttest_rel(a, b).pvalue)


def test_runs_without_a_possible_test_have_none_and_missing_runs_are_named():
    one = {("p", "a"): [0.5, 0.6], ("p", "b"): [0.4, 0.5], ("p", "c"): [0.1, 0.9]}
    same, *others = stats.compare_runs(_runs(one), "oosa", correction="bonferroni")
    assert (same.p_value, same.p_corrected, same.statistic) == (None, None, None)
    assert same.difference == pytest.approx(0.1)
    assert all(t.p_corrected == min(1, 2 * t.p_value) for t in others)
    one["p", "b"] = [0.4]
    with pytest.raises(ValueError, match=r"must be of the same runs, got no run"):
        stats.compare_runs(_runs(one), "oosa")
    with pytest.raises(ValueError, match="metric must be one of 'oosa'"):
        stats.compare_runs(_runs(one), "auroc")
