"""OSR010: interval wider than the claimed difference."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from openset import checks
from openset.checks import Claim
from openset.results import Result, Results
from openset.stats import compare
from tests.unit.checks.makers import look, results, scores


def test_a_difference_below_the_spread_of_runs_is_a_finding():
    table = results(postmax=[0.80, 0.84, 0.78], msp=[0.79, 0.80, 0.81])
    finding = look("OSR010", results=table, headline="openauc", claim=0.007)
    assert finding.is_finding
    assert "3 paired runs" in finding.message


def test_a_steady_difference_passes():
    table = results(postmax=[0.80, 0.84, 0.78], msp=[0.70, 0.73, 0.68])
    finding = look("OSR010", results=table, headline="openauc", claim=0.1)
    assert finding.status == "passed"


def test_the_interval_over_runs_is_the_paired_t_interval_of_scipy():
    a, b = np.array([0.80, 0.84, 0.78, 0.9]), np.array([0.70, 0.79, 0.68, 0.8])
    found = look("OSR010", results=results(a=a, b=b), headline="openauc", claim=0.05)
    low, high = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert f"{low:.4f} to {high:.4f}" in found.message


def test_a_claim_beyond_what_was_measured_is_a_finding():
    table = results(postmax=[0.80, 0.81, 0.82], msp=[0.79, 0.80, 0.81])
    finding = look("OSR010", results=table, headline="openauc", claim=0.05)
    assert finding.is_finding
    assert finding.message.endswith("smaller than claimed")


def test_a_modest_claim_about_a_large_difference_passes():
    table = results(postmax=[0.80, 0.86, 0.78], msp=[0.50, 0.52, 0.51])
    finding = look("OSR010", results=table, headline="openauc", claim=0.05)
    assert finding.status == "passed"


def test_the_methods_of_the_claim_are_compared():
    table = results(a=[0.9, 0.91], b=[0.5, 0.52], c=[0.9, 0.90])
    strong = Claim(0.4, better="a", worse="b", metric="openauc")
    weak = Claim(0.005, better="a", worse="c", metric="openauc")
    assert look("OSR010", results=table, claim=strong).status == "passed"
    assert look("OSR010", results=table, claim=weak).is_finding
    vague = look("OSR010", results=table, claim=0.1, headline="openauc")
    assert vague.status == "not applicable"


def test_models_are_compared_where_there_is_one_detector():
    table = Results(
        Result(model=model, seed=seed, metric="openauc", value=value + seed / 100)
        for model, value in (("large", 0.9), ("small", 0.8))
        for seed in range(3)
    )
    finding = look("OSR010", results=table, headline="openauc", claim=0.1)
    assert finding.status == "passed"


@pytest.mark.parametrize(("noise", "is_finding"), [(0.01, True), (3.0, False)])
def test_scores_of_the_same_samples_are_compared_in_pairs(noise, is_finding):
    good = scores()
    rng = np.random.default_rng(5)
    worse = good.with_known(good.known + noise * rng.normal(size=400))
    found = look(
        "OSR010",
        scores={"good": good, "worse": worse},
        headline="auroc",
        claim=abs(compare(good, worse, "auroc").difference),
    )
    assert found.is_finding is is_finding


@pytest.mark.parametrize("metric", ["openauc", "ccr_at_fpr_0.1"])
def test_the_interval_from_scores_is_that_of_compare(metric):
    good = scores()
    worse = good.with_known(good.known + np.random.default_rng(5).normal(size=400))
    found = look("OSR010", scores={"a": good, "b": worse}, headline=metric, claim=0.01)
    interval = compare(good, worse, metric, resamples=500).interval
    assert f"{interval.low:.4f} to {interval.high:.4f}" in found.message
    assert interval.method in found.message


def test_a_threshold_metric_needs_thresholds():
    two = {"a": scores(), "b": scores(gap=0.1)}
    study = {"scores": two, "headline": "overall_score", "claim": 0.2}
    assert "needs a threshold" in look("OSR010", **study).message
    found = look("OSR010", **study, thresholds={"a": 0.75, "b": 0.05})
    assert found.status == "passed"


@pytest.mark.parametrize(
    ("study", "why"),
    [
        ({}, "no difference claimed"),
        ({"claim": 0.1}, "names no metric"),
        ({"claim": 0.1, "headline": "auroc"}, "no two sets of scores"),
        (
            {"claim": 0.1, "headline": "openauc", "results": results(a=[0.5], b=[0.6])},
            "one run",
        ),
        (
            {
                "claim": 0.1,
                "headline": "openauc",
                "results": results(a=[0.5], b=[1, 1]),
            },
            "every run",
        ),
        (
            {
                "claim": 0.1,
                "headline": "ccr_at_fpr_0.05",
                "scores": {"a": scores(), "b": scores(gap=1)},
            },
            "no interval is known",
        ),
        (
            {
                "claim": 0.1,
                "headline": "auroc",
                "scores": {"a": scores(), "b": scores(20, 20)},
            },
            "not of the same samples",
        ),
    ],
)
def test_what_is_missing_is_said(study, why):
    finding = look("OSR010", **study)
    assert finding.status == "not applicable"
    assert why in finding.message


def test_samples_in_another_order_are_told_by_ids_or_not_compared():
    a, b = scores(), scores(gap=1)
    ids, order = np.arange(len(a)), np.lexsort((np.arange(len(a))[::-1], a.labels))
    settings = {"claim": 0.1, "headline": "auroc"}
    wanted = look("OSR010", **settings, scores={"a": a, "b": b})
    named = {"a": replace(a, ids=ids), "b": replace(b, ids=ids).take(order)}
    assert look("OSR010", **settings, scores=named) == wanted
    classes = np.arange(len(a)) % 2
    a, b = (replace(one, predicted=classes) for one in (a, b))
    order = np.lexsort((np.arange(len(a)) % 3, a.labels))
    a = a.take(np.argsort(a.labels, kind="stable"))
    found = look("OSR010", **settings, scores={"a": a, "b": b.take(order)})
    assert "seem to have their samples in different orders" in found.message


@pytest.mark.parametrize("difference", [0, -0.1, float("nan"), True])
def test_a_claim_is_a_positive_number(difference):
    with pytest.raises(ValueError, match="Claim: difference must be a number"):
        checks.run(claim=difference)
