"""The table of metrics: its order, its bounds, and what it refuses."""

import numpy as np
import pytest
from pytest import approx  # noqa: PT013
from scipy import stats as sps

from openset import Scores, evaluate, metrics, stats
from openset.metrics import Metric, registry

TABLE = metrics.table()
BUILT_IN = [row for row in TABLE if row.function.__module__.startswith("openset.")]


def test_oracles_come_last_under_their_own_heading():
    is_oracle = [row.kind == "oracle" for row in TABLE]
    assert is_oracle == sorted(is_oracle)
    found = metrics.sections(["osa_best", "osa", "accuracy", "imbalance_ratio", "ccr"])
    assert {title: [row.key for row in rows] for title, rows in found.items()} == {
        "Closed set": ["accuracy"],
        "At the threshold": ["osa", "ccr"],
        "Best over all thresholds (oracle)": ["osa_best"],
        "Test data": ["imbalance_ratio"],
    }
    assert list(found) == [
        *["Closed set", "At the threshold", "Best over all thresholds (oracle)"],
        "Test data",
    ]


PERFECT = Scores(
    labels=[0, 0, 1, 1, -1, -1],
    predicted=[0, 0, 1, 1, 0, 1],
    known=[6.0, 5, 4, 3, 2, 1],
)
REVERSED = Scores(
    labels=[0, 0, 1, 1, -1, -1],
    predicted=[1, 1, 0, 0, 0, 1],
    known=[1.0, 2, 2, 1, 4, 3],
)


def value(row, scores):
    if row.kind == "operational":
        return row.function(scores, PERFECT.with_known([7.0, 6, 5, 3, 2, 1]))
    return row.value(scores, 2.5)


BOUNDED = [row for row in BUILT_IN if row.bounds is not None]

# A mean over K + 1 classes, of which one is always 0; areas up to full coverage, where
# unknown samples are accepted, too.
BELOW_THE_BEST = {"halfpoint_k_plus_1", "aurc", "augrc"}


@pytest.mark.parametrize(
    "row",
    [row for row in BOUNDED if row.key not in BELOW_THE_BEST],
    ids=lambda row: row.key,
)
def test_a_perfect_detector_reaches_the_bound(row):
    low, high = row.bounds
    assert value(row, PERFECT) == approx(high if row.better == "higher" else low)


# Samples of other classes count as true negatives, precision is at least the base
# rate, the detection error is read where nearly all knowns are accepted, and rejecting
# misclassified knowns is right by OAA.
ABOVE_THE_WORST = {
    "aupr", "aupr_unknown", "youden", "normalized_accuracy", "oaa",
    "normalized_accuracy_recall", "error_at_tpr", "error_at_tpr_unknown_pooled",
}  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [r for r in BOUNDED if r.kind != "oracle" and r.key not in ABOVE_THE_WORST],
    ids=lambda row: row.key,
)
def test_the_worst_detector_reaches_the_other_bound(row):
    low, high = row.bounds
    worst = high if row.better == "lower" else low
    assert value(row, REVERSED) == approx(worst)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"function": "auroc"}, TypeError, "function must be a function, got 'auroc'"),
        ({"label": ""}, TypeError, "label must be a text, got ''"),
        ({"label": 3}, TypeError, "label must be a text, got 3"),
        ({"better": "more"}, ValueError, "better must be one of 'higher', 'lower'"),
        ({"kind": "rank"}, ValueError, "kind must be one of 'closed', 'ranking'"),
    ],
)
def test_a_row_that_says_nonsense_is_refused(change, error, words):
    with pytest.raises(error, match=f"^Metric: {words}"):
        Metric(**({"function": len, "label": "mine", "better": "higher"} | change))


def test_a_name_stands_for_its_first_row():
    assert metrics.get("ccr_at_fpr").key == "ccr_at_fpr_0.1"
    assert metrics.get("osa").kind == "threshold"
    assert not [name for name in metrics.names() if name.endswith("_best")]
    assert len(set(metrics.names())) == len(metrics.names())


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("AUROC", "auroc"),
        ("auoscr", "openauc"),
        ("OSCR", "openauc"),
        ("fpr95", "fpr_at_tpr"),
        ("FPR-95", "fpr_at_tpr"),
        ("Macro-F1", "f_score"),
    ],
)
def test_names_of_the_literature_are_understood(name, key):
    assert metrics.get(name).key == key


def test_a_name_takes_options():
    row = metrics.get("ccr_at_fpr:fpr=0.05")
    assert row.value(made()) == metrics.ccr_at_fpr(made(), 0.05)
    assert evaluate(made(), metrics=[row.key])[row.key] == row.value(made())
    assert metrics.sections([row.key])["Ranking"][0].label == row.label
    assert metrics.get("fpr95:tpr=0.8,positive=unknown").params == {
        "tpr": 0.8, "positive": "unknown",
    }  # fmt: skip
    for name, words in (
        ("ccr_at_fpr:rate=1", "ccr_at_fpr: an option must be one of 'fpr', got 'rate'"),
        ("ccr_at_fpr:fpr=5", r"ccr_at_fpr: fpr must be a number in \[0, 1\], got 5"),
        ("nothing:fpr=5", "metrics.get: name must be one of"),
    ):
        with pytest.raises(ValueError, match=words):
            metrics.get(name)


def gap(scores, *, power=1):
    """Difference between the mean scores of the sides."""
    known, unknown = scores.known[~scores.is_unknown], scores.known[scores.is_unknown]
    return known.mean() ** power - unknown.mean() ** power


GAP = Metric(gap, label="Gap between the means", short="gap", better="higher")


def accepted(scores, threshold):
    """Share of samples accepted."""
    return np.mean(scores.known >= threshold)


def made(n=400, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1, -1, -1], n // 4)
    known = rng.normal(size=n) + (labels >= 0)
    return Scores(labels=labels, predicted=np.maximum(labels, 0), known=known)


@pytest.fixture
def table(monkeypatch):
    """Forget afterwards what a test registers."""
    values = dict(registry._TABLE._values)
    monkeypatch.setattr(registry._TABLE, "_values", values)
    return values


@pytest.fixture
def registered(table):
    metrics.register(GAP)


def test_a_registered_metric_is_evaluated_like_the_others(registered):
    scores = made()
    result = evaluate(scores, bootstrap=200)
    assert result["gap"] == approx(gap(scores))
    assert result["gap"] in result.intervals["gap"]
    assert result.intervals["gap"].method == "bootstrap, 200"
    assert "gap" in metrics.names()
    assert metrics.get("gap") is metrics.get(GAP) is GAP
    assert result.to_frame().loc["gap", "value"] == result["gap"]
    assert stats.direction("gap") == "higher"


def test_an_interval_without_a_kernel_is_the_bootstrap_of_the_function(registered):
    scores = made()
    found = evaluate(scores, metrics=["gap"], bootstrap=1000).intervals["gap"]
    spread = [scores.known[labels].var(ddof=1) / 200 for labels in (slice(200),
              slice(200, None))]  # fmt: skip
    half = sps.norm.ppf(0.975) * np.sqrt(sum(spread))
    assert (found.high - found.low) / 2 == approx(half, rel=0.1)
    other = made().with_known(scores.known * 2)
    compared = stats.compare(scores, other, "gap", resamples=200)
    assert compared.difference == approx(-gap(scores))
    assert compared.interval.method == "paired bootstrap, 200"


def test_a_metric_at_a_threshold_is_reported_where_there_is_one(table):
    row = Metric(accepted, label="Accepted", better="neither", kind="threshold")
    metrics.register(row)
    assert "accepted" not in evaluate(made())
    assert evaluate(made(), 0.5)["accepted"] == np.mean(made().known >= 0.5)


def test_a_variant_of_a_metric_of_ours_can_be_registered(table):
    row = Metric(
        metrics.ccr_at_fpr,
        key="ccr_at_fpr_0.05",
        label="CCR at FPR 0.05",
        params={"fpr": 0.05},
        better="higher",
    )
    metrics.register(row)
    assert evaluate(made())["ccr_at_fpr_0.05"] == metrics.ccr_at_fpr(made(), 0.05)
    assert metrics.get("ccr_at_fpr").key == "ccr_at_fpr_0.1"


def test_what_is_no_metric_or_taken_is_refused(registered):
    metrics.register(GAP)  # again is nothing new
    with pytest.raises(ValueError, match="a name that is not taken, got 'auroc'"):
        metrics.register(Metric(gap, key="auroc", label="Mine", better="higher"))
    with pytest.raises(ValueError, match="name must be lower-case letters"):
        metrics.register(Metric(gap, key="My gap", label="Mine", better="higher"))
    with pytest.raises(
        TypeError, match=r"metric must be a Metric, got function\. Wrap"
    ):
        metrics.register(gap)
    with pytest.raises(ValueError, match=r"^me: it must be one of .*got 3"):
        metrics.get(3, caller="me", argument="it")


def test_a_name_with_a_module_is_imported_and_registered(table):
    name = f"{__name__}:GAP"
    assert metrics.get(name) is GAP
    assert "gap" in evaluate(made())
    assert list(evaluate(made(), metrics=[name, "auroc"])) == ["gap", "auroc"]
    with pytest.raises(TypeError, match="metric must be a Metric, got function"):
        metrics.get(f"{__name__}:gap")
    with pytest.raises(ImportError, match="could not be imported"):
        metrics.get("no.such.module:GAP")
    with pytest.raises(ValueError, match=r"Name a metric of your own as 'package"):
        metrics.get("gapp")
