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
    assert "3 seeds of one draw" in finding.message


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
            "of the same runs",
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


def over_draws(*, n_draws=5, by="method", spread=0.02, shift=0.1):
    """Three seeds a draw; the draws differ by far more than the seeds."""
    rng = np.random.default_rng(1)
    rows = []
    for repeat in range(n_draws):
        of_draw = shift + spread * rng.normal()
        for seed in range(3):
            for name, more in (("openauc", of_draw), ("softmax", 0.0)):
                value = 0.7 + more + 0.001 * rng.normal()
                who = {by: name} | ({"detector": "msp"} if by != "detector" else {})
                row = Result(
                    repeat=repeat, seed=seed, metric="oscr", value=value, **who
                )
                rows.append(row)
    return Results(rows)


@pytest.mark.parametrize("by", ["method", "detector", "model"])
def test_claims_are_checked_for_training_methods_detectors_and_models(by):
    for claim in (0.02, Claim(0.02, better="openauc", worse="softmax")):
        found = look("OSR010", results=over_draws(by=by), headline="oscr", claim=claim)
        assert found.status == "passed", found.message
        much = replace(claim, difference=0.4) if isinstance(claim, Claim) else 0.4
        study = {"results": over_draws(by=by), "headline": "oscr", "claim": much}
        assert look("OSR010", **study).is_finding


def test_seeds_of_a_draw_are_averaged_and_repeats_of_one_draw_are_named():
    table = over_draws(shift=0.02, spread=0.04)
    draws = [table.where(repeat=i).paired("method") for i in range(5)]
    means = [np.mean(one["openauc"] - one["softmax"]) for one in draws]
    span = stats.ttest_1samp(means, 0).confidence_interval(0.95)
    found = look("OSR010", results=table, headline="oscr", claim=0.02)
    assert found.is_finding
    assert f"{span.low:.4f} to {span.high:.4f}" in found.message
    assert "5 repeats, means of 15 runs" in found.message
    one = look("OSR010", results=over_draws(n_draws=1), headline="oscr", claim=0.05)
    assert "3 seeds of one draw of the classes: other classes may differ" in one.message


def test_the_margin_is_half_of_the_interval():
    # About 0.01 to 0.03 for a claim of 0.02: four times the margin would not do.
    values = np.array([0.016, 0.0205, 0.0235])
    span = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (span.high - span.low) / 2 < 0.02 < (span.high - span.low) * 2
    table = results(a=0.7 + values, b=[0.7] * 3)
    found = look("OSR010", results=table, headline="openauc", claim=0.02)
    assert found.status == "passed", found.message


def test_a_draw_without_one_of_the_methods_is_named():
    table = over_draws()
    part = Results(r for r in table if (r.repeat, r.method) != (2, "softmax"))
    found = look("OSR010", results=part, headline="oscr", claim=0.02)
    assert found.status == "not applicable"
