"""What every row of the table of metrics keeps to."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores, evaluate, metrics
from openset.metrics.counts import class_counts, ranking_counts
from openset.metrics.intervals import replicates

# The public names of the design, in its order.
PUBLIC = """
    accuracy auroc fpr_at_tpr error_at_tpr aupr oscr_curve ccr_at_fpr openauc
    partial_openauc acc_times_auroc acc_plus_auroc f_score youden normalized_accuracy
    inner_score outer_score halfpoint_score overall_score ccr urr osa oosa osa_curve
    confusion imbalance_ratio aurc augrc oaa scod_risk risk_coverage_curve
"""
NAMES = PUBLIC.split()
THRESHOLD = 0.4


def draw(seed=0, n=300):
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 4, n)
    predicted = np.where(rng.random(n) < 0.7, np.maximum(labels, 0), 2)
    known = (rng.normal(size=n) + (labels >= 0)).round(2)
    groups = rng.integers(0, 30, n)
    return Scores(labels=labels, predicted=predicted, known=known, groups=groups)


def value(row, scores):
    """Call the function: the slow way, which shares nothing with other metrics."""
    at = ()
    if row.kind == "operational":
        at = (draw(seed=9),)
    elif row.kind == "threshold":
        at = (THRESHOLD,)
    elif row.kind == "oracle":
        candidates = [np.inf, *np.unique(scores.known)]
        return max(row.function(scores, t, **row.params) for t in candidates)
    return row.function(scores, *at, **row.params)


TABLE = metrics.table()


def each(rows):
    return pytest.mark.parametrize("row", rows, ids=lambda row: row.key)


SCALARS = [row for row in TABLE if row.kind != "curve"]
REPORTED = [row for row in SCALARS if row.kind != "operational"]
COUNTED = [row for row in TABLE if row.takes_counts]
WITH_INTERVALS = [r for r in TABLE if r.kind in {"closed", "ranking", "threshold"}]


def test_the_table_holds_the_public_names():
    assert set(metrics.names()) >= set(NAMES)
    for name in NAMES:
        assert getattr(metrics, name) is metrics.get(name).function
        assert metrics.get(name).name == name


@each(TABLE)
def test_every_row_says_what_it_is(row):
    assert metrics.get(row.key) is row
    assert row.label
    assert row.short
    assert bool(row.section) == (row.kind != "curve")
    inspect.signature(row.function).bind_partial(None, **row.params)
    text = inspect.getdoc(row.function)
    assert ">>> " in text
    assert len(text.splitlines()[0]) > 20


def test_keys_and_labels_are_told_apart():
    for what in ("key", "label", "short"):
        listed = [getattr(row, what) for row in TABLE]
        assert len(set(listed)) == len(listed), what


@each(SCALARS)
def test_a_scalar_is_a_python_float_inside_its_bounds(row):
    for seed in range(3):
        found = value(row, draw(seed))
        assert type(found) is float
        if row.bounds is not None:
            low, high = row.bounds
            assert low <= found <= high


@each(SCALARS)
def test_row_order_changes_nothing(row):
    scores = draw()
    order = np.random.default_rng(1).permutation(len(scores))
    assert value(row, scores.take(order)) == approx(value(row, scores), abs=1e-12)


@each([row for row in SCALARS if row.better != "neither"])
def test_a_better_detector_does_not_look_worse(row):
    """Lifting all correct knowns above all unknowns: the metric goes its good way."""
    scores = draw()
    lifted = np.where(scores.is_correct, 10.0, scores.known)
    lifted = np.where(scores.is_unknown, -10.0, lifted)
    before, after = value(row, scores), value(row, scores.with_known(lifted))
    sign = 1 if row.better == "higher" else -1
    assert sign * after >= sign * before - 1e-12


def test_evaluate_reports_every_row():
    scores = draw()
    result = evaluate(scores, THRESHOLD, bootstrap=2)
    assert set(result) == {row.key for row in REPORTED}
    for row in REPORTED:
        assert result[row.key] == approx(value(row, scores), abs=1e-12), row.key
        assert row.value(scores, THRESHOLD) == approx(result[row.key], abs=1e-12)
    assert set(result.intervals) == {row.key for row in WITH_INTERVALS}


def test_evaluate_reports_the_rows_asked_for():
    result = evaluate(draw(), metrics=["f_score_best", "ccr_at_fpr", "urr"])
    assert list(result) == ["ccr_at_fpr_0.1", "f_score_best"]  # urr has no threshold
    with pytest.raises(ValueError, match=r"metrics must be one number .*'oscr_curve'"):
        evaluate(draw(), metrics=["oscr_curve"])
    with pytest.raises(ValueError, match=r"metrics must be one of .*got 'acuracy'"):
        evaluate(draw(), metrics=["acuracy"])


@each(COUNTED)
def test_counts_give_what_scores_give(row):
    scores, at = draw(), (THRESHOLD,) if row.kind == "threshold" else ()
    shared = ranking_counts(scores)
    if row.kind != "ranking":
        shared = class_counts(scores, THRESHOLD)
    found = row.function(shared, *at, **row.params)
    assert found == approx(value(row, scores), abs=1e-12)


@each(WITH_INTERVALS)
@pytest.mark.parametrize("clusters", [None, "groups"])
def test_a_replicate_is_the_metric_of_resampled_samples(row, clusters):
    """The fast, weighted replicates equal evaluating the resampled rows one by one."""
    found = replicates(
        draw(n=120),
        {"fast": row, "slow": replace(row, takes_counts=False)},
        threshold=THRESHOLD,
        resamples=4,
        clusters=clusters,
        rng=3,
    )
    assert found["fast"] == approx(found["slow"], abs=1e-12)


def test_clusters_bootstrap_every_interval():
    scores = draw()
    result = evaluate(scores, 0.4, bootstrap=30, clusters="groups")
    assert all(i.method.startswith("bootstrap") for i in result.intervals.values())
    assert {"openauc", "ccr", "f_score"} <= set(result.intervals)
    with pytest.raises(ValueError, match="bootstrap must be given with clusters"):
        evaluate(scores, clusters="groups")
