"""`compare`: against placements by definition, the bootstrap, and itself."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from openset import Scores, UndefinedMetricError, metrics, stats
from tests.influence import influence

ONE = Scores(labels=[0, -1, -1], predicted=[0, 0, 0], known=[3.0, 2, 1])


def two_detectors(seed=0, n=300, gap=0.5):
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, -1], n)
    predicted = np.where(rng.random(2 * n) < 0.9, 0, 1)
    signal = np.repeat([1.0, 0.0], n) + rng.normal(size=2 * n)
    a = Scores(labels=labels, predicted=predicted, known=signal)
    return a, a.with_known(signal + gap * rng.normal(size=2 * n))


@pytest.mark.parametrize("decimals", [3, 1, 0])
@pytest.mark.parametrize("metric", ["auroc", "openauc"])
def test_the_difference_varies_as_the_influence_of_the_samples(metric, decimals):
    """Both detectors see the same samples: only the difference of influences counts."""
    a, b = (s.with_known(s.known.round(decimals)) for s in two_detectors(n=25))
    counts = ~a.is_unknown if metric == "auroc" else None
    placed = [influence(s, 1.0, counts=counts) for s in (a, b)]
    variance = sum(
        (of_a - of_b).var(ddof=1) / of_a.size
        for of_a, of_b in zip(*placed, strict=True)
    )
    found = stats.compare(a, b, metric, level=0.9)
    row = metrics.get(metric).function
    assert (found.a, found.b) == (row(a), row(b))
    assert found.difference == found.a - found.b
    half = norm.ppf(0.95) * np.sqrt(variance)
    assert found.interval.high - found.difference == pytest.approx(half, rel=1e-5)
    assert found.difference - found.interval.low == pytest.approx(half, rel=1e-5)
    p_value = 2 * norm.sf(abs(found.difference) / np.sqrt(variance))
    assert found.p_value == pytest.approx(p_value, rel=1e-4)
    assert (found.interval.level, found.interval.method) == (0.9, "placement values")


@pytest.mark.parametrize("gap", [0.1, 1.0])
def test_a_paired_bootstrap_counts_the_resamples_beyond_nought(gap):
    a, b = two_detectors(n=40, gap=gap)
    found = stats.compare(a, b, "fpr_at_tpr", resamples=99, tpr=0.8)
    option = {"resamples": 99, "tpr": 0.8}
    # The same seed draws the same samples for both: the interval is narrower than that
    # of two sets of their own.
    name = "fpr_at_tpr:tpr=0.8"
    each = [metrics.evaluate(s, metrics=[name], bootstrap=99) for s in (a, b)]
    spans = [one.intervals[name] for one in each]
    widths = [span.high - span.low for span in (*spans, found.interval)]
    assert gap > 0.5 or widths[2] < min(widths[:2])
    assert (found.p_value * 50) == pytest.approx(round(found.p_value * 50))
    assert found.interval.method == "paired bootstrap, 99"
    assert found.difference == found.a - metrics.fpr_at_tpr(b, 0.8)
    assert found == stats.compare(a, b, "fpr_at_tpr", **option)


def test_metrics_at_a_threshold_are_compared_at_both_thresholds():
    a, b = two_detectors()
    result = stats.compare(a, b, "osa", threshold=(0.5, 0.4), resamples=200)
    assert result.difference == metrics.osa(a, 0.5) - metrics.osa(b, 0.4)
    again = stats.compare(a, b, "osa", threshold=np.array([0.5, 0.4]), resamples=200)
    assert again == result


def test_a_detector_compared_with_itself_shows_nothing():
    a, _ = two_detectors()
    for metric in ("auroc", "openauc", "partial_openauc", "fpr_at_tpr"):
        result = stats.compare(a, a, metric)
        assert (result.difference, result.p_value) == (0, 1)


def test_a_difference_without_spread_is_certain():
    best = Scores(labels=[0, 0, -1, -1], predicted=[0] * 4, known=[4.0, 3, 2, 1])
    found = stats.compare(best, best.with_known([1.0, 1, 2, 2]), "auroc")
    assert (found.difference, found.p_value) == (1.0, 0.0)
    assert (found.interval.low, found.interval.high) == (1.0, 1.0)
    wrong = replace(best, predicted=[1, 1, 0, 0])
    found = stats.compare(wrong, wrong)
    assert (found.a, found.difference, found.p_value) == (0.0, 0.0, 1.0)


A, B = two_detectors(n=20)
REFUSED = [
    ({"metric": "acuracy"}, "metric must be one of '"),
    ({"metric": "oscr_curve"}, "metric must be one of '"),
    ({"b": A.take(slice(0, 30))}, "b must be of the same samples in the same order"),
    ({"b": A.take(slice(None, None, -1))}, "labels of b .* got others for 40 of 40"),
    ({"level": 1}, r"level must be a number in \(0, 1\), got 1"),
    ({"level": 0}, r"level must be a number in \(0, 1\), got 0"),
    ({"metric": "aupr", "rng": -1}, "rng must be an integer >= 0, got -1"),
    ({"metric": "aupr", "rng": np.random.default_rng(0)}, "rng must be an integer"),
    ({"metric": "osa"}, "threshold must be a pair .* got None. osa is a metric at a"),
    ({"metric": "osa", "threshold": 0.5}, "threshold must be a pair"),
    ({"metric": "osa", "threshold": (0.5,)}, "threshold must be a pair"),
    ({"metric": "auroc", "max_fpr": 0.1}, "an option must be one of"),
    (
        {"metric": "fpr_at_tpr", "trp": 0.1},
        r"an option .* got 'trp'. Did you mean 'tpr'",
    ),
]


@pytest.mark.parametrize(("change", "words"), REFUSED)
def test_what_cannot_be_compared_is_named(change, words):
    with pytest.raises(ValueError, match=f"^\\w+: {words}"):
        stats.compare(**{"a": A, "b": B, **change})


@pytest.mark.parametrize(
    ("a", "words"),
    [
        (A.take(~A.is_unknown), "undefined without unknown"),
        (ONE, "an interval is undefined .* got 1 known and 2 unknown"),
    ],
)
@pytest.mark.parametrize("metric", ["openauc", "fpr_at_tpr"])
def test_too_few_samples_tell_nothing_about_a_difference(a, words, metric):
    with pytest.raises(UndefinedMetricError, match=f"^compare: {words}"):
        stats.compare(a, a, metric)


def test_only_scores_are_compared():
    with pytest.raises(TypeError, match=r"^compare: scores must be Scores"):
        stats.compare(A, np.ones(3))
