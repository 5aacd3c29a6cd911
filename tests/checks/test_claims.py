"""OSR010: interval wider than the claimed difference."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from openset.checks import Claim
from openset.stats import compare, paired_t
from tests.checks.makers import look, results, scores
from tests.stats.makers import over

STEADY = results(postmax=[0.80, 0.84, 0.78], msp=[0.70, 0.73, 0.68])
VALUES = np.array([0.016, 0.0205, 0.0235])


@pytest.mark.parametrize(
    ("table", "claim", "status", "words"),
    [
        (STEADY, 0.1, "passed", "3 seeds of one draw"),
        (results(a=[0.80, 0.84, 0.78], b=[0.79, 0.80, 0.81]), 0.007, "finding", ""),
        (results(a=[0.80, 0.86, 0.78], b=[0.5, 0.52, 0.51]), 0.05, "passed", ""),
        (
            results(a=[0.80, 0.81, 0.82], b=[0.79, 0.80, 0.81]),
            0.05,
            "finding",
            "smaller than claimed",
        ),
        (results(a=[0.9, 0.91], b=[0.9, 0.9], c=[0, 0]), 0.1, "not applicable", "a, b"),
    ],
)
def test_a_claim_is_compared_with_the_spread_of_runs(table, claim, status, words):
    found = look("OSR010", results=table, headline="openauc", claim=claim)
    assert found.status == status, found.message
    assert words in found.message


def test_the_margin_is_half_of_the_interval():
    span = stats.ttest_1samp(VALUES, 0).confidence_interval(0.95)
    assert (span.high - span.low) / 2 < 0.02 < (span.high - span.low) * 2
    found = look(
        "OSR010",
        results=results(a=0.7 + VALUES, b=[0.7] * 3),
        headline="openauc",
        claim=0.02,
    )
    assert f"{span.low:.4f} to {span.high:.4f}" in found.message
    assert found.status == "passed", found.message


def test_the_methods_of_the_claim_are_compared():
    table = results(a=[0.9, 0.91], b=[0.5, 0.52], c=[0.9, 0.90])
    strong = Claim(0.4, better="a", worse="b", metric="openauc")
    weak = Claim(0.005, better="a", worse="c", metric="openauc")
    assert look("OSR010", results=table, claim=strong).status == "passed"
    assert look("OSR010", results=table, claim=weak).is_finding


@pytest.mark.parametrize("by", ["method", "detector", "model"])
@pytest.mark.parametrize("names", [{}, {"better": "openauc", "worse": "softmax"}])
def test_claims_are_checked_for_training_methods_detectors_and_models(by, names):
    table = over(draws=5, seeds=3, gap=0.1, spread=0.02, by=by)
    for difference, is_finding in ((0.02, False), (0.4, True)):
        claim = Claim(difference, **names)
        found = look("OSR010", results=table, headline="oscr", claim=claim)
        assert found.is_finding == is_finding, found.message


def test_seeds_of_a_draw_are_averaged_and_repeats_of_one_draw_are_named():
    table = over(draws=5, seeds=3, spread=0.04)
    (test,) = paired_t(table)
    found = look("OSR010", results=table, headline="oscr", claim=0.02)
    assert found.is_finding
    assert f"{test.low:.4f} to {test.high:.4f}" in found.message
    assert "5 repeats, means of 15 runs" in found.message
    one = look("OSR010", results=over(seeds=3), headline="oscr", claim=0.05)
    assert "of one draw of the classes: other classes may differ more" in one.message


@pytest.mark.parametrize(("noise", "is_finding"), [(0.01, True), (3.0, False)])
def test_scores_of_the_same_samples_are_compared_in_pairs(noise, is_finding):
    good = scores()
    rng = np.random.default_rng(5)
    two = {"a": good, "b": good.with_known(good.known + noise * rng.normal(size=400))}
    claim = abs(compare(two["a"], two["b"], "auroc").difference)
    found = look("OSR010", scores=two, headline="auroc", claim=claim)
    assert found.is_finding is is_finding


@pytest.mark.parametrize("metric", ["openauc", "ccr_at_fpr_0.1"])
def test_the_interval_from_scores_is_that_of_compare(metric):
    good = scores()
    worse = good.with_known(good.known + np.random.default_rng(5).normal(size=400))
    found = look("OSR010", scores={"a": good, "b": worse}, headline=metric, claim=0.01)
    interval = compare(good, worse, metric, resamples=500).interval
    assert f"{interval.low:.4f} to {interval.high:.4f}" in found.message
    assert interval.method in found.message


TWO = {"a": scores(), "b": scores(gap=1)}
AUROC = {"claim": 0.1, "headline": "auroc"}
OPENAUC = {"claim": 0.1, "headline": "openauc"}


@pytest.mark.parametrize(
    ("study", "why"),
    [
        ({}, "no claim given"),
        ({"claim": 0.1}, "names no metric"),
        (AUROC, "of two of the methods, got a study of nothing"),
        (OPENAUC | {"results": results(a=[0.5], b=[0.6])}, "of several runs"),
        (OPENAUC | {"results": results(a=[0.5], b=[1, 1])}, "of the same runs"),
        (
            {"claim": 0.1, "headline": "ccr_at_fpr_0.05", "scores": TWO},
            "metric must be one of",
        ),
        (AUROC | {"scores": TWO | {"b": scores(20, 20)}}, "of the same samples"),
        (
            {"claim": 0.2, "headline": "overall_score", "scores": TWO},
            "threshold must be a pair",
        ),
    ],
)
def test_what_is_missing_is_said(study, why):
    finding = look("OSR010", **study)
    assert finding.status == "not applicable"
    assert why in finding.message


def test_a_threshold_metric_is_compared_at_the_thresholds():
    two = {"a": scores(), "b": scores(gap=0.1)}
    study = {"scores": two, "headline": "overall_score", "claim": 0.2}
    found = look("OSR010", **study, thresholds={"a": 0.75, "b": 0.05})
    assert found.status == "passed"


def test_samples_in_another_order_are_told_by_ids_or_not_compared():
    a, b = scores(), scores(gap=1)
    ids, order = np.arange(len(a)), np.lexsort((np.arange(len(a))[::-1], a.labels))
    wanted = look("OSR010", **AUROC, scores={"a": a, "b": b})
    named = {"a": replace(a, ids=ids), "b": replace(b, ids=ids).take(order)}
    assert look("OSR010", **AUROC, scores=named) == wanted
    classes = np.arange(len(a)) % 2
    a, b = (replace(one, predicted=classes) for one in (a, b))
    order = np.lexsort((np.arange(len(a)) % 3, a.labels))
    a = a.take(np.argsort(a.labels, kind="stable"))
    found = look("OSR010", **AUROC, scores={"a": a, "b": b.take(order)})
    assert "are their samples in different orders" in found.message
