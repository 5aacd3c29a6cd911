"""Intervals by their definitions, and what the bootstrap refuses."""

import numpy as np
import pytest
from pytest import approx  # noqa: PT013
from scipy import stats as sps
from scipy.special import logit

from openset import Scores, metrics
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
    found = percentile(values, 0.8)
    assert (found.low, found.high) == tuple(np.quantile(values, [0.1, 0.9]))
    assert found.method == "bootstrap, 1000"
    generator = np.random.default_rng(0)
    for rng, is_same in ((generator, True), (generator, False), (1, False)):
        assert (replicates(scores, row, rng=rng)["it"].tolist() == values.tolist()) == (
            is_same
        )


def test_options_change_the_row_of_a_metric():
    row = metrics.get("fpr_at_tpr_unknown")
    both = intervals.numeric_metric(row, caller="me", params={"tpr": 0.5})
    assert both.params == {"positive": "unknown", "tpr": 0.5}
    assert intervals.numeric_metric("auroc", caller="me", params={}).key == "auroc"
    for bad, words in (
        ("oscr_curve", "me: metric must be one of 'openauc', 'au"),
        ("oosa", "me: metric must be one of"),
        ("acuracy", "me: metric must be one of"),
    ):
        with pytest.raises(ValueError, match=words):
            intervals.numeric_metric(bad, caller="me", params={})
    with pytest.raises(ValueError, match=r"tpr must be .*, got 2"):
        intervals.numeric_metric(row, caller="me", params={"tpr": 2})


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


def test_an_oracle_can_be_resampled_too():
    row = metrics.get("osa_best")
    found = replicates(draw(), {"it": row}, resamples=20)["it"]
    assert 0.5 <= found.min() < found.max() <= 1


def test_what_cannot_be_resampled_is_named():
    scores, row = draw(), {"it": metrics.get("auroc")}
    plain = Scores(labels=scores.labels, predicted=scores.predicted, known=scores.known)
    for given, options, words in (
        (scores, {"resamples": 1}, "resamples must be an integer >= 2, got 1"),
        (scores, {"clusters": "rows"}, "clusters must be one of 'groups', got"),
        (plain, {"clusters": "groups"}, "scores must have groups for clus"),
    ):
        with pytest.raises(ValueError, match=f"^bootstrap: {words}"):
            replicates(given, row, **options)
