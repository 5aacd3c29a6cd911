"""Mahalanobis, RMDS and GMM against explicit inverses and peers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.covariance import ledoit_wolf_shrinkage

from openset import Outputs
from openset.detectors import GMM, RMDS, Mahalanobis
from openset.outputs import replaced
from openset.testing import example_outputs as split
from openset.testing import in_library

TRAIN, TEST = split(400, seed=1), split(30, seed=2, unknown=0.4)


def test_distances_are_those_of_inverted_covariances():
    means = np.array([TRAIN.features[TRAIN.labels == c].mean(axis=0) for c in range(4)])
    centre = TRAIN.features.mean(axis=0)
    within, whole = (
        np.linalg.inv(away.T @ away / len(TRAIN))
        for away in (TRAIN.features - means[TRAIN.labels], TRAIN.features - centre)
    )
    rows = TEST.features
    to_class = [min((f - m) @ within @ (f - m) for m in means) for f in rows]
    to_all = [(f - centre) @ whole @ (f - centre) for f in rows]
    assert_allclose(Mahalanobis().fit(TRAIN).score(TEST).known, np.negative(to_class))
    assert_allclose(RMDS().fit(TRAIN).known(TEST), np.subtract(to_all, to_class))


def wide(n, seed, *, first=0):
    """Draw samples of four classes, with more features than a small set has rows."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 4
    features = rng.normal(size=(n, 90)) + 6 * np.eye(4, 90, first)[labels]
    return Outputs(features=features, labels=labels)


def test_with_few_samples_rmds_shrinks_both_covariances_alike(xp):
    train, test = wide(60, 1), wide(30, 2)
    features, labels = train.features, train.labels
    means = np.array([features[labels == c].mean(axis=0) for c in range(4)])
    around = features - means[labels], features - features.mean(axis=0)
    share = ledoit_wolf_shrinkage(around[0], assume_centered=True)
    target = np.mean(around[0] ** 2) * np.eye(90)
    within, whole = (
        np.linalg.inv((1 - share) * x.T @ x / 60 + share * target) for x in around
    )
    expected = []
    for f in test.features:
        away = f - features.mean(axis=0)
        to_class = min((f - m) @ within @ (f - m) for m in means)
        expected.append(away @ whole @ away - to_class)
    assert 0 < share < 1
    fitted = RMDS().fit(in_library(train, xp))
    assert_allclose(fitted.score(in_library(test, xp)).known, expected)


@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_a_direction_without_variance_is_left_out(scale):
    def widened(outputs):
        constant = np.full((len(outputs), 1), 3.0)
        copy = 2 * outputs.features[:, :1]  # depends on another feature
        features = np.concatenate([outputs.features, constant, copy], axis=1)
        return Outputs(features=scale * features, labels=outputs.labels)

    expected = Mahalanobis().fit(TRAIN).known(Outputs(features=TEST.features))
    fitted = Mahalanobis().fit(widened(TRAIN))
    assert fitted.state["whiten"].shape == (34, 32)
    assert_allclose(fitted.known(widened(TEST)), expected)


@pytest.mark.parametrize(
    ("small", "cutoff"),
    [(1e-2, 1e-12), (1e-4, 1e-12), (1e-5, 1e-12), (1e-7, 1e-12), (0.05, 1e-3),
     (0.027, 1e-3)],
)  # fmt: skip
def test_distances_are_those_of_pseudo_inverses_on_both_sides_of_the_cutoff(
    small, cutoff
):
    """A direction of small variance: kept down to a share of the largest, then not."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 2)) * [1, small]
    turned = features @ np.linalg.qr(rng.normal(size=(2, 2)))[0]
    train = Outputs(features=turned, labels=np.zeros(300, int))
    away = turned - turned.mean(axis=0)
    inverse = np.linalg.pinv(away.T @ away / 300, rcond=cutoff, hermitian=True)
    expected = [-(row @ inverse @ row) for row in away[:20]]
    fitted = Mahalanobis(cutoff=cutoff).fit(train)
    known = fitted.known(Outputs(features=turned[:20]))
    assert_allclose(known, expected, rtol=1e-4)


@pytest.mark.parametrize("kind", [Mahalanobis, RMDS])
def test_a_class_without_samples_is_never_the_nearest(kind):
    there = TRAIN.take(TRAIN.labels != 1)
    alone = Outputs(features=TRAIN.features, labels=TRAIN.labels)
    scores = kind().fit(there).score(alone)
    assert set(scores.predicted) == {0, 2, 3}


def test_a_large_offset_costs_no_digits():
    moved = Outputs(features=TRAIN.features + 1e6, labels=TRAIN.labels)
    far = Outputs(features=TEST.features + 1e6)
    expected = Mahalanobis().fit(TRAIN).known(Outputs(features=TEST.features))
    assert_allclose(Mahalanobis().fit(moved).known(far), expected, rtol=1e-6)


@pytest.mark.parametrize("reg", [1e-3, 0.5])
def test_gmm_is_the_likelihood_of_a_mixture(reg):
    by_class = [TRAIN.features[TRAIN.labels == c] for c in range(4)]  # of equal size
    ridge = reg * np.mean([rows.var(axis=0) for rows in by_class])
    parts = []
    for rows in by_class:
        cov = np.cov(rows.T, bias=True) + ridge * np.eye(32)
        law = multivariate_normal(rows.mean(axis=0), cov)
        parts.append(np.log(len(rows) / len(TRAIN)) + law.logpdf(TEST.features))
    scores = GMM(reg=reg).fit(TRAIN).score(replaced(TEST, logits=None))
    assert_allclose(scores.known, logsumexp(parts, axis=0))
    assert_array_equal(scores.predicted, np.argmax(parts, axis=0))
