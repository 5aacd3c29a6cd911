"""Intervals by their definitions, and what the bootstrap refuses."""

import numpy as np
import pytest
from pytest import approx  # noqa: PT013
from scipy import stats as sps
from scipy.special import logit

from openset import Scores, UndefinedMetricError, metrics
from openset.metrics import intervals
from openset.metrics.intervals import (
    Interval,
    on_logit_scale,
    percentile,
    replicates,
    wilson,
)


def draw(seed=0, n=60):
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1, -1], n // 3)
    known = (rng.normal(size=n) + (labels >= 0)).round(1)
    return Scores(
        labels=labels,
        predicted=rng.integers(0, 2, n),
        known=known,
        groups=np.arange(n) % 7,
    )


def test_an_interval_holds_its_ends():
    made = Interval(0.25, 0.5, 0.95, "by hand")
    assert [value in made for value in (0.24, 0.25, 0.3, 0.5, 0.51)] == [
        *(False, True, True, True, False),
    ]


def test_a_variance_gives_an_interval_on_the_logit_scale():
    found = on_logit_scale(0.8, 0.01, 0.9)
    half = (
        sps.norm.ppf(0.95) * 0.1 / (0.8 * 0.2)
    )  # the slope of the logit is 1 / (p (1 - p))
    assert logit(found.low) == approx(logit(0.8) - half)
    assert logit(found.high) == approx(logit(0.8) + half)
    assert (found.level, found.method) == (0.9, "U-statistic, logit scale")


@pytest.mark.parametrize(
    ("value", "variance"), [(0, 0.1), (1, 0.1), (0.5, 0), (0.5, np.nan)]
)
def test_where_the_logit_or_the_spread_is_missing_there_is_no_interval(value, variance):
    assert on_logit_scale(value, variance, 0.95) is None


@pytest.mark.parametrize(("hits", "n"), [(1, 10), (5, 9), (97, 100), (1, 2)])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_wilsons_ends_are_as_far_from_the_share_as_their_own_noise_allows(
    hits, n, level
):
    found = wilson(hits, n, level)
    z = sps.norm.ppf((1 + level) / 2)
    for end in (found.low, found.high):
        assert abs(hits / n - end) == approx(z * np.sqrt(end * (1 - end) / n))
    assert found.low < hits / n < found.high
    assert (found.level, found.method) == (level, "Wilson")


def test_wilsons_interval_ends_at_nought_and_at_one():
    none, every = wilson(0, 10, 0.95), wilson(10, 10, 0.95)
    z = sps.norm.ppf(0.975)
    assert (none.low, every.high) == (0.0, 1.0)
    assert none.high == approx(z**2 / (10 + z**2))
    assert every.low == approx(1 - none.high)


def test_a_bootstrap_is_the_quantiles_of_its_replicates():
    scores = draw()
    row = {"it": metrics.get("auroc")}
    values = replicates(scores, row)["it"]
    assert values.size == 1000
    assert values.tolist() == replicates(scores, row, rng=0)["it"].tolist()
    found = metrics.bootstrap(scores, "auroc", level=0.8)
    assert found == percentile(values, 0.8)
    assert (found.low, found.high) == tuple(np.quantile(values, [0.1, 0.9]))
    assert found.method == "bootstrap, 1000"
    assert metrics.bootstrap(scores, "auroc").level == 0.95


def test_parameters_of_the_metric_are_passed_on():
    scores = draw()
    row = metrics.get("fpr_at_tpr")
    half = {"it": intervals.numeric_metric(row, caller="me", params={"tpr": 0.5})}
    assert half["it"].params == {"tpr": 0.5}
    assert intervals.numeric_metric("fpr_at_tpr", caller="me", params={}) is row
    found = metrics.bootstrap(scores, "fpr_at_tpr", resamples=50, tpr=0.5)
    assert found == percentile(replicates(scores, half, resamples=50)["it"], 0.95)
    unknown = metrics.get("fpr_at_tpr_unknown")
    both = intervals.numeric_metric(unknown, caller="me", params={"tpr": 0.5})
    assert both.params == {"positive": "unknown", "tpr": 0.5}


@pytest.mark.parametrize("at_a_time", [1, 3, 4, 100])
def test_replicates_are_the_metric_of_what_is_drawn_however_many_at_a_time(
    at_a_time, monkeypatch
):
    scores, resamples = draw(), 10
    if at_a_time < 100:  # by default, small sets are drawn all at once
        monkeypatch.setattr(intervals, "_AT_A_TIME", at_a_time * len(scores) + 5)
    row = metrics.get("openauc")
    found = replicates(scores, {"it": row}, resamples=resamples, rng=3)["it"]
    assert found.size == resamples
    sets = drawn(scores, resamples=resamples, rng=3)
    assert found.tolist() == approx([metrics.openauc(one) for one in sets])


@pytest.mark.parametrize("clusters", [None, "groups"])
def test_every_sample_is_drawn_as_often_as_any_other(clusters):
    scores = draw()
    scores = scores.with_known(np.arange(60.0))  # which tells the samples apart
    sets = drawn(scores, resamples=4000, clusters=clusters)
    weights = np.array(
        [np.bincount(one.known.astype(int), minlength=60) for one in sets]
    )
    assert weights.mean(axis=0) == approx(np.ones(60), abs=0.1)
    assert weights.std(axis=0).min() > 0.8  # with replacement: about Poisson's
    for side in (scores.is_unknown, ~scores.is_unknown):
        units = scores.groups[side] if clusters else np.arange(side.sum())
        times = np.array([weights[:, side][:, units == u].T[0] for u in set(units)])
        assert (times.sum(axis=0) == len(times)).all()
        for unit in set(units):  # what belongs together is drawn together
            assert (np.ptp(weights[:, side][:, units == unit], axis=1) == 0).all()


def test_the_bootstrap_is_reproducible_by_a_seed_or_a_generator():
    scores = draw()
    options = {"resamples": 20}
    by_default = metrics.bootstrap(scores, "auroc", **options)
    assert metrics.bootstrap(scores, "auroc", rng=0, **options) == by_default
    generator = np.random.default_rng(0)
    assert metrics.bootstrap(scores, "auroc", rng=generator, **options) == by_default
    assert metrics.bootstrap(scores, "auroc", rng=1, **options) != by_default


class _Seen(list):
    """A metric that keeps what it is computed on."""

    __name__ = "seen"

    def __call__(self, scores):
        self.append(scores)
        return 0.0


def drawn(scores, **options):
    """Return the data sets that replicates are computed on."""
    seen = _Seen()
    row = metrics.Metric(seen, label="Seen", better="neither")
    replicates(scores, {"it": row}, **options)
    return seen


ONE_SIDED = Scores(labels=[0, 1], predicted=[0, 0], known=[0.3, 0.1])


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"metric": "oscr_curve"}, ValueError, "metric must be one of 'openauc', 'au"),
        ({"metric": "oosa"}, ValueError, "metric must be one of 'openauc', 'auroc'"),
        ({"metric": "acuracy"}, ValueError, "metric must be one of"),
        ({"metric": "osa"}, ValueError, "threshold must be given, got None. osa is a"),
        ({"scores": ONE_SIDED}, UndefinedMetricError, "undefined without unknown"),
        ({"scores": [1, 2]}, TypeError, "scores must be Scores, got list"),
        ({"resamples": 1}, ValueError, "resamples must be an integer >= 2, got 1"),
        ({"level": 0}, ValueError, r"level must be a number in \(0, 1\), got 0"),
        ({"level": 1}, ValueError, r"level must be a number in \(0, 1\), got 1"),
        ({"level": 1.5}, ValueError, r"level must be a number in \(0, 1\), got 1.5"),
        ({"level": -0.5}, ValueError, r"level must be a number in \(0, 1\), got -0.5"),
        ({"clusters": "rows"}, ValueError, "clusters must be one of 'groups', got"),
    ],
)
def test_what_the_bootstrap_refuses_is_named(change, error, words):
    with pytest.raises(error, match=f"^bootstrap: {words}"):
        metrics.bootstrap(
            **({"scores": draw(), "metric": "auroc", "resamples": 10} | change)
        )


def test_an_option_of_the_metric_is_checked_before_it_is_resampled():
    with pytest.raises(ValueError, match=r"tpr must be .*, got 2"):
        metrics.bootstrap(draw(), "fpr_at_tpr", resamples=10, tpr=2)


def test_an_oracle_has_a_bootstrap_too():
    found = metrics.bootstrap(draw(), "osa_best", resamples=20)
    assert found.low <= found.high <= 1


def test_clusters_need_groups():
    scores = draw()
    plain = Scores(labels=scores.labels, predicted=scores.predicted, known=scores.known)
    with pytest.raises(ValueError, match="bootstrap: scores must have groups for clus"):
        metrics.bootstrap(plain, "auroc", clusters="groups")
