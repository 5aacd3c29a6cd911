"""Sampling variances against sums over all samples and pairs."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores
from openset.metrics import _ranking_counts, get
from openset.metrics.counts import ranking_counts
from openset.metrics.intervals import replicates
from tests.influence import influence

PAIRED = ["auroc", "openauc"]


def draw(seed, n_known, n_unknown, *, decimals=1, right=0.8):
    """Scores with ties, of knowns that are mostly classified correctly."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, -1], [n_known, n_unknown])
    known = (rng.normal(size=labels.size) + (labels == 0)).round(decimals)
    predicted = (rng.random(labels.size) >= right).astype(int)
    return Scores(labels=labels, predicted=predicted, known=known)


def variance(metric, scores, **params):
    row = get(metric)
    return row.variance(ranking_counts(scores), **{**row.params, **params})


def wins(metric, scores):
    """Return the kernel of every pair, knowns by row."""
    unknown = scores.known[scores.is_unknown]
    rows = [
        [(k > u) + (k == u) / 2 if counts else 0.0 for u in unknown]
        for k, counts, is_unknown in zip(
            scores.known,
            scores.is_correct | (metric == "auroc"),
            scores.is_unknown,
            strict=True,
        )
        if not is_unknown
    ]
    return np.array(rows)


@pytest.mark.parametrize("metric", PAIRED)
@pytest.mark.parametrize(("n_known", "n_unknown"), [(2, 2), (3, 5), (6, 4), (2, 7)])
def test_the_variance_of_pairs_is_the_unbiased_one(metric, n_known, n_unknown):
    """Var = E[U²] - E[U]², and pairs without a common sample have mean E[U]²."""
    for seed in range(8):
        scores = draw(seed, n_known, n_unknown, decimals=seed % 2)
        h = wins(metric, scores)
        apart = [
            h[i, j] * h[a, b]
            for i, a in product(range(n_known), repeat=2)
            for j, b in product(range(n_unknown), repeat=2)
            if i != a and j != b
        ]
        expected = max(h.mean() ** 2 - np.mean(apart), 0.0)
        found, freedom = variance(metric, scores)
        assert found == approx(expected, abs=1e-15)
        assert freedom == np.inf


@pytest.mark.parametrize("metric", [*PAIRED, "partial_openauc"])
def test_one_sample_a_side_has_no_variance(metric):
    for n_known, n_unknown in ((1, 9), (9, 1), (1, 1)):
        assert np.isnan(variance(metric, draw(0, n_known, n_unknown))[0])
    assert np.isfinite(variance(metric, draw(3, 2, 2))[0])


@pytest.mark.parametrize("bound", [0.07, 0.23, 0.5, 0.77])
@pytest.mark.parametrize("decimals", [0, 1, 3])
def test_the_variance_of_a_partial_area_is_that_of_its_influence(bound, decimals):
    """The influence of a sample: how the area changes as it counts a little more."""
    scores = draw(1, 30, 21, decimals=decimals)
    sides = influence(scores, bound)
    of_known, of_unknown = (side.var(ddof=1) / side.size for side in sides)
    found, freedom = variance("partial_openauc", scores, max_fpr=bound)
    assert found == approx((of_known + of_unknown) / bound**2, rel=1e-5)
    # Satterthwaite: the unknown part is known from the unknowns inside the range.
    inside = max(bound * 21, 1)
    parts = of_known**2 / 29 + of_unknown**2 / inside
    assert freedom == approx((of_known + of_unknown) ** 2 / parts, rel=1e-5)


def test_a_bound_at_the_end_of_a_step_is_inside_it():
    """By hand: β = 1/2 lets one of two unknowns in, and reaches a CCR of 2/3."""
    scores = Scores(
        labels=[0, -1, 0, -1, 0], predicted=[0] * 5, known=[5.0, 4, 3, 2, 1]
    )
    # Knowns: β - FPR above 0 is 1/2, 0, 0. Unknowns: 1/3 - 2/3, and 0 outside.
    of_known = np.var([1 / 2, 0, 0], ddof=1) / 3
    of_unknown = np.var([-1 / 3, 0], ddof=1) / 2
    found, freedom = variance("partial_openauc", scores, max_fpr=0.5)
    assert found == approx((of_known + of_unknown) / 0.25)
    parts = of_known**2 / 2 + of_unknown**2 / 1
    assert freedom == approx((of_known + of_unknown) ** 2 / parts)
    whole, _ = variance("partial_openauc", scores, max_fpr=1.0)
    of_known = np.var([1, 1 / 2, 0], ddof=1) / 3
    of_unknown = np.var([1 / 3 - 1, 2 / 3 - 1], ddof=1) / 2
    assert whole == approx(of_known + of_unknown)


def test_without_spread_the_variance_of_a_partial_area_is_nought():
    apart = Scores(labels=[0, 0, -1, -1], predicted=[0] * 4, known=[4.0, 3, 2, 1])
    found, freedom = variance("partial_openauc", apart, max_fpr=0.5)
    assert found == 0.0
    assert np.isnan(freedom)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_the_number_of_levels_at_a_time_changes_nothing(size, monkeypatch):
    metrics = [("partial_openauc", b) for b in (0.05, 0.3, 0.5, 1.0)]
    metrics += [("auroc", None), ("openauc", None)]

    def values():
        scores = draw(2, 40, 30)
        found = []
        for metric, bound in metrics:
            params = {} if bound is None else {"max_fpr": bound}
            found += variance(metric, scores, **params)
            found.append(get(metric).function(scores, **params))
        for positive in ("known", "unknown"):
            for rule in ("step", "trapezoid"):
                value = get("aupr").function(scores, positive=positive, rule=rule)
                found.append(value)
        rows = {str(b): replace(get(m), params={"max_fpr": b}) for m, b in metrics[:4]}
        rows |= {key: get(key) for key in ("aupr", "aupr_unknown", "openauc")}
        for drawn in replicates(scores, rows, resamples=9).values():
            found += drawn.tolist()
        return found

    at_once = values()
    monkeypatch.setattr(_ranking_counts, "_BLOCK", size)
    assert values() == approx(at_once, rel=1e-12)
