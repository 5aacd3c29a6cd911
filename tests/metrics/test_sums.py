"""Sampling variances against sums over all samples and pairs."""

from itertools import product

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores, evaluate
from openset.metrics import get, sums
from openset.metrics.counts import ranking_counts

PAIRED = ["auroc", "openauc"]


def draw(seed, n_known, n_unknown, *, decimals=1, right=0.8):
    """Scores with ties, of knowns that are mostly classified correctly."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, -1], [n_known, n_unknown])
    known = (rng.normal(size=labels.size) + (labels == 0)).round(decimals)
    predicted = (rng.random(labels.size) >= right).astype(int)
    return Scores(labels=labels, predicted=predicted, known=known)


def variance(metric, scores):
    return get(metric).variance(ranking_counts(scores))


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
        assert variance(metric, scores) == approx(expected, abs=1e-15)


@pytest.mark.parametrize("metric", PAIRED)
def test_one_sample_a_side_has_no_variance(metric):
    for n_known, n_unknown in ((1, 9), (9, 1), (1, 1)):
        assert np.isnan(variance(metric, draw(0, n_known, n_unknown)))
    assert np.isfinite(variance(metric, draw(3, 2, 2)))


@pytest.mark.parametrize("size", [1, 2, 7])
def test_the_number_of_levels_at_a_time_changes_nothing(size, monkeypatch):
    keys = ["auroc", "openauc", "aupr", "aupr_unknown", "aurc", "augrc_known"]
    keys += [f"partial_openauc:max_fpr={bound}" for bound in (0.05, 0.3, 0.5, 1)]

    def values():
        found = evaluate(draw(2, 40, 30), metrics=keys, bootstrap=9)
        spans = found.intervals.values()
        return [*found.values(), *(end for one in spans for end in (one.low, one.high))]

    at_once = values()
    monkeypatch.setattr(sums, "_BLOCK", size)  # many blocks: several threads
    assert values() == approx(at_once, rel=1e-12)
