"""What every metric in the registry keeps to."""

import inspect

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores, evaluate, metrics
from openset.metrics._class_counts import class_counts
from openset.metrics._intervals import replicates
from openset.metrics._ranking_counts import ranking_counts

# The public names of the design, in its order.
NAMES = [
    "accuracy",
    "auroc",
    "fpr_at_tpr",
    "error_at_tpr",
    "aupr",
    "oscr_curve",
    "ccr_at_fpr",
    "openauc",
    "partial_openauc",
    "acc_times_auroc",
    "acc_plus_auroc",
    "f_score",
    "youden",
    "normalized_accuracy",
    "inner_score",
    "outer_score",
    "halfpoint_score",
    "overall_score",
    "ccr",
    "urr",
    "osa",
    "oosa",
    "osa_curve",
    "confusion",
    "imbalance_ratio",
]
THRESHOLD = 0.4


def draw(seed=0, n=300):
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 4, n)
    predicted = np.where(rng.random(n) < 0.7, np.maximum(labels, 0), 2)
    known = (rng.normal(size=n) + (labels >= 0)).round(2)
    groups = rng.integers(0, 30, n)
    return Scores(labels=labels, predicted=predicted, known=known, groups=groups)


def value(name, scores):
    metric = metrics.get(name)
    if metric.kind == "operational":
        return metric.function(scores, draw(seed=9))
    if "threshold" in inspect.signature(metric.function).parameters:
        return metric.function(scores, threshold=THRESHOLD)
    return metric.function(scores)


SCALARS = [n for n in NAMES if metrics.get(n).kind != "curve"]
KERNELS = [n for n in NAMES if metrics.get(n).kernel is not None]


def test_the_registry_holds_the_public_names():
    assert set(metrics.names()) == set(NAMES)
    for name in NAMES:
        assert getattr(metrics, name) is metrics.get(name).function


@pytest.mark.parametrize("name", NAMES)
def test_every_metric_is_documented_with_an_example(name):
    text = inspect.getdoc(metrics.get(name).function)
    assert ">>> " in text
    assert len(text.splitlines()[0]) > 20


@pytest.mark.parametrize("name", SCALARS)
def test_a_scalar_is_a_python_float_inside_its_bounds(name):
    for seed in range(5):
        found = value(name, draw(seed))
        assert type(found) is float
        if metrics.get(name).bounds is not None:
            low, high = metrics.get(name).bounds
            assert low <= found <= high


@pytest.mark.parametrize("name", SCALARS)
def test_row_order_changes_nothing(name):
    scores = draw()
    order = np.random.default_rng(1).permutation(len(scores))
    assert value(name, scores.take(order)) == approx(value(name, scores), abs=1e-12)


@pytest.mark.parametrize("name", SCALARS)
def test_a_better_detector_does_not_look_worse(name):
    """Lifting all correct knowns above all unknowns: the metric goes its good way."""
    better = metrics.get(name).better
    if better == "neither":
        pytest.skip("describes the data")
    scores = draw()
    lifted = np.where(scores.is_correct, 10.0, scores.known)
    lifted = np.where(scores.is_unknown, -10.0, lifted)
    before, after = value(name, scores), value(name, scores.with_known(lifted))
    assert after >= before - 1e-12 if better == "higher" else after <= before + 1e-12


@pytest.mark.parametrize("name", KERNELS)
def test_the_kernel_is_the_metric(name):
    scores = draw()
    metric = metrics.get(name)
    if metric.kind == "ranking":
        shared = ranking_counts(scores)
    else:
        shared = class_counts(scores, THRESHOLD, caller="test")
    assert float(metric.kernel(shared)) == approx(value(name, scores), abs=1e-12)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("clusters", [None, "groups"])
def test_a_replicate_is_the_metric_of_resampled_samples(name, clusters):
    """The fast, weighted replicates equal evaluating the resampled rows one by one."""
    from openset.metrics import _intervals  # noqa: PLC0415

    scores = draw(n=120)
    rng = np.random.default_rng(3)
    weights = _intervals._Draw(scores, clusters, np.random.default_rng(3))(4)
    if clusters:
        redraw = _intervals._Draw(scores, clusters, rng)
        weights = np.concatenate([redraw(1) for _ in range(4)])
    fast = replicates(
        scores,
        {name: (name, {})},
        threshold=THRESHOLD,
        resamples=4,
        clusters=clusters,
        rng=3,
    )[name]
    for found, times in zip(fast, weights, strict=True):
        rows = np.repeat(np.arange(len(scores)), times)
        assert found == approx(value(name, scores.take(rows)), abs=1e-12)


def test_stratified_replicates_keep_both_counts():
    from openset.metrics import _intervals  # noqa: PLC0415

    scores = draw()
    weights = _intervals._Draw(scores, None, np.random.default_rng(0))(10)
    assert (weights[:, scores.is_unknown].sum(axis=1) == scores.n_unknown).all()
    assert (weights.sum(axis=1) == len(scores)).all()


def test_clusters_bootstrap_every_interval():
    scores = draw()
    result = evaluate(scores, 0.4, bootstrap=30, clusters="groups")
    assert all(i.method.startswith("bootstrap") for i in result.intervals.values())
    assert {"openauc", "ccr", "f_score"} <= set(result.intervals)
    with pytest.raises(ValueError, match="bootstrap must be given with clusters"):
        evaluate(scores, clusters="groups")
