"""Mahalanobis, RMDS and GMM against explicit inverses and peers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.covariance import EmpiricalCovariance, ledoit_wolf_shrinkage

from openset import Outputs
from openset.detectors import GMM, RMDS, Mahalanobis
from openset.outputs import replaced
from openset.testing import example_outputs as split
from openset.testing import in_library
from tests.extras import torch


@pytest.fixture
def train():
    return split(400, seed=1)


@pytest.fixture
def test():
    return split(30, seed=2, unknown=0.4)


def slow_distances(train, test):
    """Squared distances to each class and to the whole, by inverting covariances."""
    features, labels = train.features, train.labels
    means = np.array([features[labels == c].mean(axis=0) for c in range(4)])
    within = features - means[labels]
    inverse = np.linalg.inv(within.T @ within / len(features))
    away = features - features.mean(axis=0)
    inverse_0 = np.linalg.inv(away.T @ away / len(features))
    per_class = [[(f - m) @ inverse @ (f - m) for m in means] for f in test.features]
    centred = test.features - features.mean(axis=0)
    whole = [f @ inverse_0 @ f for f in centred]
    return np.array(per_class), np.array(whole)


def test_mahalanobis_equals_inverting_the_covariance(train, test):
    per_class, _ = slow_distances(train, test)
    actual = Mahalanobis().fit(train).score(test).known
    assert_allclose(actual, -per_class.min(axis=1))


def test_mahalanobis_of_one_class_is_that_of_scikit_learn(train, test):
    one = Outputs(features=train.features, labels=np.zeros(len(train), dtype=int))
    expected = EmpiricalCovariance().fit(train.features).mahalanobis(test.features)
    known = Mahalanobis().fit(one).known(Outputs(features=test.features))
    assert_allclose(known, -expected)


def tensors(outputs):
    features, labels = np.array(outputs.features), np.array(outputs.labels)
    return torch.tensor(features).float(), torch.tensor(labels)


def test_mahalanobis_agrees_with_pytorch_ood_up_to_its_constant(
    train, test, pytorch_ood
):
    # It keeps the scatter undivided and halves the distance: a factor of 2 n.
    other = pytorch_ood.Mahalanobis(None).fit_features(*tensors(train))
    theirs = other.predict_features(tensors(test)[0]).numpy()
    actual = Mahalanobis().fit(train).score(test).known
    assert_allclose(actual, -2 * len(train) * theirs, rtol=1e-3)


@pytest.mark.parametrize("kind", [Mahalanobis, RMDS])
def test_normalizing_is_the_same_as_normalized_features(kind, train, test):
    def unit(outputs):
        lengths = np.linalg.norm(outputs.features, axis=1, keepdims=True)
        return Outputs(features=outputs.features / lengths, labels=outputs.labels)

    expected = kind().fit(unit(train)).known(unit(test))
    assert_allclose(kind(normalize=True).fit(train).known(test), expected)


def test_rmds_is_the_difference_of_two_distances(train, test):
    per_class, whole = slow_distances(train, test)
    actual = RMDS().fit(train).score(test).known
    assert_allclose(actual, -(per_class - whole[:, None]).min(axis=1))


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


def test_with_just_enough_samples_rmds_shrinks_nothing(rng):
    """Nine samples around two means span seven directions, which is all of them."""
    labels = np.arange(9) % 2
    features = rng.normal(size=(9, 7)) + 5 * labels[:, None]
    means = np.array([features[labels == c].mean(axis=0) for c in range(2)])
    around = features - means[labels], features - features.mean(axis=0)
    within, whole = (np.linalg.inv(x.T @ x / 9) for x in around)
    expected = []
    for f in features:
        away = f - features.mean(axis=0)
        to_class = min((f - m) @ within @ (f - m) for m in means)
        expected.append(away @ whole @ away - to_class)
    train = Outputs(features=features, labels=labels)
    assert_allclose(RMDS().fit(train).known(train), expected)


def test_rmds_is_not_upside_down_with_fewer_samples_than_features():
    train, known, unknown = wide(60, 1), wide(200, 2), wide(200, 3, first=50)
    fitted = RMDS().fit(train)
    scores = [fitted.score(part).known for part in (known, unknown)]
    assert np.mean(scores[0][:, None] > scores[1]) > 0.9


def test_a_covariance_that_is_all_noise_becomes_a_multiple_of_the_identity():
    # Two samples per class, each pair in a direction of its own; classes in a fifth.
    pairs = np.repeat(np.eye(4, 5), 2, axis=0) * np.tile([1.0, -1.0], 4)[:, None]
    labels = np.repeat(np.arange(4), 2)
    features = pairs + 10 * labels[:, None] * np.eye(1, 5, 4)
    fitted = RMDS().fit(Outputs(features=features, labels=labels))
    test = Outputs(features=np.zeros((1, 5)), labels=[-1])
    # The mean variance is 1/5; 0 is 15 away from the mean, and at that of class 0.
    assert_allclose(fitted.score(test).known, 5 * (15**2 - 0))


@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_a_direction_without_variance_is_left_out(train, test, scale):
    def widened(outputs):
        constant = np.full((len(outputs), 1), 3.0)
        copy = 2 * outputs.features[:, :1]  # depends on another feature
        features = np.concatenate([outputs.features, constant, copy], axis=1)
        return Outputs(features=scale * features, labels=outputs.labels)

    expected = Mahalanobis().fit(train).known(Outputs(features=test.features))
    fitted = Mahalanobis().fit(widened(train))
    assert fitted.state["whiten"].shape == (34, 32)
    assert_allclose(fitted.known(widened(test)), expected)


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


def test_without_a_cutoff_a_feature_that_is_always_nought_is_left_out(train, test):
    def widened(outputs):
        features = np.pad(outputs.features, ((0, 0), (0, 1)))
        return Outputs(features=features, labels=outputs.labels)

    expected = Mahalanobis().fit(train).known(test)
    fitted = Mahalanobis(cutoff=0).fit(widened(train))
    assert_allclose(fitted.known(widened(test)), expected)


def test_the_cutoff_is_relative(train, test):
    tiny = Outputs(features=train.features * 1e-9, labels=train.labels)
    small = Outputs(features=test.features * 1e-9)
    expected = Mahalanobis().fit(train).known(Outputs(features=test.features))
    assert_allclose(Mahalanobis().fit(tiny).known(small), expected)


@pytest.mark.parametrize(("noise", "is_refused"), [(8e-7, True), (1.3e-6, False)])
def test_a_spread_of_rounding_errors_is_none(noise, is_refused, rng):
    """At a mean of 1e6, a deviation below 1e-6 is a rounding error of its square."""
    features = noise * rng.normal(size=(50, 2)) + [1e6, 0.0]
    train = Outputs(features=features, labels=np.zeros(50, int))
    if is_refused:
        with pytest.raises(ValueError, match="features must be spread out around"):
            Mahalanobis().fit(train)
        return
    # The mean of squared distances is the number of features.
    assert_allclose(Mahalanobis().fit(train).known(train).mean(), -2, rtol=1e-3)


@pytest.mark.parametrize("kind", [Mahalanobis, RMDS])
def test_a_class_without_samples_is_never_the_nearest(kind, train):
    there = train.take(train.labels != 1)
    alone = Outputs(features=train.features, labels=train.labels)
    scores = kind().fit(there).score(alone)
    assert set(scores.predicted) == {0, 2, 3}


def test_a_large_offset_costs_no_digits(train, test):
    moved = Outputs(features=train.features + 1e6, labels=train.labels)
    far = Outputs(features=test.features + 1e6)
    expected = Mahalanobis().fit(train).known(Outputs(features=test.features))
    assert_allclose(Mahalanobis().fit(moved).known(far), expected, rtol=1e-6)


def tensor(array):
    return torch.tensor(np.array(array))


def mean_variance(train):
    within = [train.features[train.labels == c].var(axis=0).mean() for c in range(4)]
    return np.mean(within)  # classes of equal size


@pytest.mark.parametrize("reg", [1e-3, 0.5])
def test_gmm_is_the_likelihood_of_a_mixture(train, test, reg, pytorch_ood):
    ridge = reg * mean_variance(train)
    parts = []
    for c in range(4):
        rows = train.features[train.labels == c]
        cov = np.cov(rows.T, bias=True) + ridge * np.eye(32)
        law = multivariate_normal(rows.mean(axis=0), cov)
        parts.append(np.log(len(rows) / len(train)) + law.logpdf(test.features))
    fitted = GMM(reg=reg).fit(train)
    actual = fitted.known(test)
    assert_allclose(actual, logsumexp(parts, axis=0))
    other = pytorch_ood.GMM(None, reg=ridge)
    other.fit_features(tensor(train.features), tensor(train.labels))
    assert_allclose(actual, -other.predict_features(tensor(test.features)))
    alone = Outputs(features=test.features, labels=test.labels)
    assert_array_equal(fitted.score(alone).predicted, np.argmax(parts, axis=0))


def test_gmm_takes_classes_of_any_size(train, test):
    order = np.argsort(train.labels, kind="stable")  # 4 classes of equal size
    each = len(train) // 4
    rows = np.concatenate([order[c * each :][: each - 10 * (3 - c)] for c in range(4)])
    grown = train.take(rows)
    assert (np.diff(np.bincount(grown.labels)) > 0).all()
    # Other names of the classes, the largest first: the same mixture.
    turned = replaced(grown, labels=3 - grown.labels)
    assert_allclose(GMM().fit(grown).known(test), GMM().fit(turned).known(test))


def test_gmm_works_with_fewer_samples_than_features(train, test):
    few = train.take(np.arange(40))
    scores = GMM().fit(few).score(test)
    assert np.isfinite(scores.known).all()
    known, unknown = (scores.known[scores.is_unknown == side] for side in (False, True))
    assert known.min() > unknown.max()


def test_gmm_takes_a_spread_of_rounding_errors_for_none(rng):
    noise, labels = rng.normal(size=(40, 3)), np.arange(40) % 2
    origin = np.array([0.0, 1000.0, 1000.0])
    for features in (origin + 1e-10 * noise, np.zeros((40, 3))):
        with pytest.raises(ValueError, match=r"GMM\.fit: features must be spread out"):
            GMM().fit(Outputs(features=features, labels=labels))
    small = Outputs(features=origin + 1e-8 * noise, labels=labels)
    assert np.isfinite(GMM().fit(small).known(small)).all()
