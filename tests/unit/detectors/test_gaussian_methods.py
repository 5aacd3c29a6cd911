"""Mahalanobis and RMDS against explicit inverses, scikit-learn and pytorch-ood."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.covariance import EmpiricalCovariance, ledoit_wolf_shrinkage

from openset import Outputs, _xp
from openset.detectors import RMDS, Mahalanobis, _batch, _moments
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


def test_pytorch_ood_divides_neither_scatter_so_its_scores_shrink_with_n(
    train, test, pytorch_ood
):
    # Its distance to the background is n times too small, as if alone; so are its
    # distances to the classes. What is left is the right ranking on a scale of 1/n: a
    # threshold does not carry over to a fit on another number of samples.
    _, whole = slow_distances(train, test)
    features = tensors(test)[0]
    other = pytorch_ood.RMD(None).fit_features(*tensors(train))
    background = other._background_score(features).numpy()
    assert_allclose(len(train) * background, whole, rtol=1e-3)
    theirs = other.predict_features(features).numpy()
    actual = RMDS().fit(train).score(test).known
    assert_allclose(actual, -len(train) * theirs, rtol=1e-3)


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


@pytest.mark.parametrize("kind", [Mahalanobis, RMDS])
def test_features_alone_are_given_the_nearest_class(kind, train, xp):
    own = in_library(train, xp)
    alone = Outputs(features=own.features, labels=train.labels)
    scores = kind().fit(own).score(alone, batch_size=100)
    assert_array_equal(scores.predicted, train.labels)


def test_a_large_offset_costs_no_digits(train, test):
    moved = Outputs(features=train.features + 1e6, labels=train.labels)
    far = Outputs(features=test.features + 1e6)
    expected = Mahalanobis().fit(train).known(Outputs(features=test.features))
    assert_allclose(Mahalanobis().fit(moved).known(far), expected, rtol=1e-6)


@pytest.mark.parametrize("is_singular", [False, True])
def test_moments_do_not_depend_on_how_the_data_is_cut_up(is_singular, xp, monkeypatch):
    train = wide(60, 1) if is_singular else split(400, seed=1)
    whole = _moments.moments(train)
    assert whole.is_singular == is_singular
    monkeypatch.setattr("openset.detectors._batch.batch_rows", lambda outputs: 7)
    parts = _moments.moments(in_library(train, xp))
    for name in ("means", "mean", "within", "total"):
        actual = _xp.to_numpy(getattr(parts, name))
        assert_allclose(actual, getattr(whole, name), atol=1e-12)
    features = train.features - train.features.mean(axis=0)
    assert_allclose(whole.total, features.T @ features / len(train), atol=1e-12)
    assert parts.fourth == pytest.approx(whole.fourth, rel=1e-12)
    assert (whole.fourth > 0) == is_singular


def test_bad_parameters_are_refused_by_name():
    with pytest.raises(ValueError, match=r"Mahalanobis: cutoff must be .* \[0, 1\)"):
        Mahalanobis(cutoff=1)
    with pytest.raises(ValueError, match=r"RMDS: cutoff must be .* \[0, 1\)"):
        RMDS(cutoff=-1)


@pytest.mark.parametrize("kind", [Mahalanobis, RMDS])
def test_a_word_is_no_switch(kind):
    with pytest.raises(TypeError, match="normalize must be True or False, got 'no'"):
        kind(normalize="no")


@pytest.mark.parametrize("on_device", [False, True])
def test_the_mean_feature_is_exact_to_float64(xp, on_device, monkeypatch):
    """Numbers of many sizes, in several blocks and batches."""
    rng = np.random.default_rng(3)
    features = np.exp(8 * rng.standard_normal((700, 5))).astype(np.float32)
    features *= rng.choice([-1, 1], features.shape)
    monkeypatch.setattr(_moments, "_WIDE_BYTES", 8 * 5 * 64)
    monkeypatch.setattr(_batch, "_BATCH_BYTES_CPU", 20 * 300)
    monkeypatch.setattr(_batch, "_BATCH_BYTES_DEVICE", 20 * 300)
    if on_device:
        monkeypatch.setattr(_xp, "is_on_cpu", lambda _: False)
    found = _moments.mean_feature(Outputs(features=xp.asarray(features)))
    exact = [math.fsum(column) / 700 for column in features.T.tolist()]
    size = np.abs(features).mean(axis=0)
    assert found.dtype == xp.float64
    assert (np.abs(_xp.to_numpy(found) - exact) < 1e-14 * size).all()


@pytest.mark.parametrize("block", [1, 4 * 5 * 64, 1 << 20])
def test_the_mean_feature_for_float32_has_three_roundings(xp, block, monkeypatch):
    """Numbers of many sizes; 701 rows are not a multiple of eight."""
    rng = np.random.default_rng(3)
    features = np.exp(8 * rng.standard_normal((701, 5))).astype(np.float32)
    features *= rng.choice([-1, 1], features.shape)
    monkeypatch.setattr(_moments, "_NARROW_BYTES", block)
    outputs = Outputs(features=xp.asarray(features))
    found = _moments.mean_feature(outputs, xp.float32)
    exact = [math.fsum(column) / 701 for column in features.T.tolist()]
    size = np.abs(features).mean(axis=0)
    assert found.dtype == xp.float64
    assert (np.abs(_xp.to_numpy(found) - exact) < 3.01 * 2.0**-24 * size).all()


@pytest.mark.parametrize("value", [0.1, 3e38])
def test_the_mean_of_equal_features_is_that_feature(xp, value):
    """Also of numbers that have no sum in float32."""
    features = np.full((700, 3), value, dtype=np.float32)
    outputs = Outputs(features=xp.asarray(features))
    found = _xp.to_numpy(_moments.mean_feature(outputs, xp.float32))
    assert_array_equal(found.astype(np.float32), features[0])


def test_memory_of_one_dtype_is_not_used_for_another():
    space, rows = _moments.Workspace(), np.ones((4, 2), np.float32)
    assert space.plus(rows, rows).dtype == np.float32
    assert space.wide(rows).dtype == np.float64
