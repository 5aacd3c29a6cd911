"""Every metric equals its slow definition, on anything hypothesis can think of."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx  # noqa: PT013

from openset import evaluate, metrics
from openset._types import UndefinedMetricError
from tests.property import brute
from tests.property.strategies import scores, scores_and_threshold

RATES = st.sampled_from([0.01, 0.05, 0.1, 0.3, 0.5, 0.95, 1.0])
ALPHAS = st.sampled_from(["counts", 0.0, 0.1, 0.5, 0.9, 1.0, 1 / 3])


@given(scores())
def test_accuracy_counts_correct_knowns(s):
    assert metrics.accuracy(s) == approx(brute.accuracy(s))


@given(scores())
def test_auroc_counts_pairs(s):
    assert metrics.auroc(s) == approx(brute.pairs(s, 0.5, need_correct=False))


@given(scores())
@pytest.mark.parametrize(
    ("ties", "credit"), [("strict", 0), ("half", 0.5), ("optimistic", 1)]
)
def test_openauc_counts_pairs_named_rightly(ties, credit, s):
    value = metrics.openauc(s, ties=ties)
    assert value == approx(brute.pairs(s, credit, need_correct=True))
    assert value <= metrics.accuracy(s) + 1e-12


@given(scores())
def test_openauc_is_the_area_under_the_oscr_curve(s):
    curve = metrics.oscr_curve(s)
    assert curve.area == approx(metrics.openauc(s))
    assert (curve.fpr[0], curve.ccr[0]) == (0, 0)
    assert (curve.fpr[-1], curve.ccr[-1]) == (1, approx(metrics.accuracy(s)))
    assert (np.diff(curve.fpr) >= 0).all()
    assert (np.diff(curve.ccr) >= 0).all()


@given(scores())
def test_oscr_curve_has_one_point_per_distinct_score(s):
    curve = metrics.oscr_curve(s)
    assert curve.thresholds[1:].tolist() == sorted(set(s.known.tolist()), reverse=True)
    for i, threshold in enumerate(curve.thresholds[1:], start=1):
        _, correct, false = brute.counts(s, threshold)
        assert curve.ccr[i] == approx(correct / s.n_known)
        assert curve.fpr[i] == approx(false / s.n_unknown)


@given(scores(), RATES)
def test_partial_openauc_integrates_the_curve(s, bound):
    value = metrics.partial_openauc(s, bound)
    assert value == approx(brute.partial_openauc(s, bound), abs=1e-12)


@given(scores(), RATES, st.sampled_from(["known", "unknown"]))
def test_fpr_at_tpr_takes_the_best_allowed_threshold(s, tpr, positive):
    value = metrics.fpr_at_tpr(s, tpr, positive=positive)
    assert value == approx(brute.fpr_at_tpr(s, tpr, positive))


@given(scores(), RATES, st.sampled_from(["balanced", "pooled"]))
def test_error_at_tpr_is_read_at_the_same_threshold(s, tpr, average):
    value = metrics.error_at_tpr(s, tpr, average=average)
    assert value == approx(brute.error_at_tpr(s, tpr, average))


@given(scores(), st.sampled_from(["known", "unknown"]))
def test_aupr_is_average_precision(s, positive):
    value = metrics.aupr(s, positive=positive)
    assert value == approx(brute.average_precision(s, positive))


@given(scores(), st.sampled_from([0.0, 0.001, 0.01, 0.1, 0.5, 1.0]))
def test_ccr_at_fpr_is_the_best_allowed(s, fpr):
    assert metrics.ccr_at_fpr(s, fpr) == approx(brute.ccr_at_fpr(s, fpr))


@given(scores())
def test_accuracy_and_auroc_combine(s):
    a, b = metrics.accuracy(s), metrics.auroc(s)
    assert metrics.acc_times_auroc(s) == approx(a * b)
    assert metrics.acc_plus_auroc(s) == approx(a + b)


@given(scores_and_threshold(), ALPHAS)
def test_osa_weighs_ccr_and_urr(made, alpha):
    s, threshold = made
    _, correct, false = brute.counts(s, threshold)
    assert metrics.ccr(s, threshold) == approx(correct / s.n_known)
    assert metrics.urr(s, threshold) == approx(1 - false / s.n_unknown)
    value = metrics.osa(s, threshold, alpha=alpha)
    assert value == approx(brute.osa(s, threshold, alpha))


@given(scores(), ALPHAS)
def test_osa_curve_is_osa_at_each_threshold(s, alpha):
    curve = metrics.osa_curve(s, alpha=alpha)
    for i, threshold in enumerate(curve.thresholds):
        if i == 0:
            assert (curve.ccr[0], curve.urr[0]) == (0, 1)
            continue
        assert curve.osa[i] == approx(brute.osa(s, threshold, alpha))


OVER = st.sampled_from(["all", "known"])


@given(scores(), OVER)
def test_aurc_is_the_mean_risk_of_the_best_samples(s, over):
    assert metrics.aurc(s, over=over) == approx(brute.aurc(s, over), abs=1e-12)


@given(scores(), OVER)
def test_augrc_is_the_area_under_the_generalized_risk(s, over):
    assert metrics.augrc(s, over=over) == approx(brute.augrc(s, over), abs=1e-12)
    curve = metrics.risk_coverage_curve(s, over=over)
    heights = (curve.generalized_risk[1:] + curve.generalized_risk[:-1]) / 2
    area = np.diff(curve.coverage) @ heights
    assert metrics.augrc(s, over=over) == approx(area, abs=1e-12)


@given(scores())
def test_augrc_is_made_of_openauc_and_augrc_of_the_knowns(s):
    share = s.n_known / len(s)
    expected = (
        share**2 * metrics.augrc(s, over="known")
        + share * (1 - share) * (1 - metrics.openauc(s))
        + (1 - share) ** 2 / 2
    )
    assert metrics.augrc(s) == approx(expected, abs=1e-12)


@given(scores(), OVER)
def test_the_risk_coverage_curve_counts_accepted_errors(s, over):
    curve = metrics.risk_coverage_curve(s, over=over)
    assert curve.thresholds.tolist() == brute.thresholds(s)
    counted = brute.errors_in_order(s, over)
    for i, threshold in enumerate(curve.thresholds[1:], start=1):
        accepted = [error for score, error in counted if score >= threshold]
        assert curve.coverage[i] == approx(len(accepted) / len(counted))
        assert curve.generalized_risk[i] == approx(sum(accepted) / len(counted))
        if accepted:
            assert curve.risk[i] == approx(sum(accepted) / len(accepted))
    assert curve.coverage[0] == curve.generalized_risk[0] == 0
    assert curve.risk[0] == curve.risk[np.argmax(curve.coverage > 0)]


@given(scores_and_threshold(), st.sampled_from([0.0, 0.5, 1.0, 3.0]))
def test_scod_risk_is_the_mean_cost_of_accepted_samples(made, beta):
    s, threshold = made
    costs = brute.accepted_costs(s, threshold, beta)
    if not costs:
        with pytest.raises(UndefinedMetricError, match="no sample is accepted"):
            metrics.scod_risk(s, threshold, beta=beta)
        assert "scod_risk is not defined" in " ".join(evaluate(s, threshold).notes)
        return
    mean = sum(costs) / len(costs)
    assert metrics.scod_risk(s, threshold, beta=beta) == approx(mean)


@given(scores_and_threshold())
def test_oaa_counts_right_samples_accepted_and_others_rejected(made):
    s, threshold = made
    assert metrics.oaa(s, threshold) == approx(brute.oaa(s, threshold))
    assert (
        metrics.oaa(s, threshold) >= metrics.osa(s, threshold, alpha="counts") - 1e-12
    )


@given(scores_and_threshold())
@pytest.mark.parametrize("average", ["macro", "macro_f", "micro"])
def test_f_score_at_a_threshold(average, made):
    s, threshold = made
    value = metrics.f_score(s, threshold, average=average)
    assert value == approx(brute.f_score(s, threshold, average))


@given(scores_and_threshold())
@pytest.mark.parametrize("kind", ["classes", "binary"])
def test_youden_at_a_threshold(kind, made):
    s, threshold = made
    value = metrics.youden(s, threshold, kind=kind)
    assert value == approx(brute.youden(s, threshold, kind), abs=1e-12)


@given(scores_and_threshold(), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
@pytest.mark.parametrize("aus", ["precision", "recall"])
def test_normalized_accuracy_at_a_threshold(aus, made, balance):
    s, threshold = made
    value = metrics.normalized_accuracy(s, threshold, balance=balance, aus=aus)
    assert value == approx(brute.normalized_accuracy(s, threshold, balance, aus))


@given(scores())
def test_sweep_holds_every_metric_at_every_threshold(s):
    table = metrics.sweep(s)
    rows = {row.key: row for row in metrics.table()}
    columns = {field.name for field in dataclasses.fields(table)} - {"thresholds"}
    for name in columns:
        column = getattr(table, name)
        for i, threshold in enumerate(table.thresholds[1:], start=1):
            exact = rows[name].value(s, threshold)
            assert column[i] == approx(exact, abs=1e-11), name
        if s.known.max() < np.inf:
            exact = rows[name].value(s, np.inf)
            assert column[0] == approx(exact, abs=1e-11), name


@given(scores(), st.randoms(use_true_random=False))
def test_row_order_changes_nothing(s, random):
    order = list(range(len(s)))
    random.shuffle(order)
    first, second = evaluate(s), evaluate(s.take(order))
    assert dict(first) == dict(second)
    assert first.intervals == second.intervals


@given(scores())
def test_a_strictly_increasing_map_changes_no_ranking_metric(s):
    ranks = np.unique(s.known, return_inverse=True)[1].astype(float)
    mapped = np.exp(ranks / 7) - 30
    mapped[s.known == np.inf] = np.inf  # the one score no threshold can reject
    first, second = evaluate(s), evaluate(s.with_known(mapped))
    assert dict(first) == dict(second)


@given(scores(), st.lists(st.integers(0, 3), min_size=50, max_size=50))
def test_accumulator_equals_one_shot_under_any_partition(s, shard_of):
    shards = [metrics.Accumulator() for _ in range(4)]
    shard_of = np.array(shard_of)[: len(s)]
    for i, shard in enumerate(shards):
        rows = np.flatnonzero(shard_of == i)
        if rows.size:
            shard.update(s.take(rows))
    total = metrics.Accumulator()
    total.merge(*reversed(shards))
    first, second = evaluate(s), total.compute()
    assert dict(first) == dict(second)
    assert first.intervals == second.intervals
