"""Mahalanobis and RMDS against explicit inverses, scikit-learn and pytorch-ood."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.covariance import EmpiricalCovariance

from openset import Outputs, _xp
from openset.detectors import RMDS, Mahalanobis, _moments
from openset.testing import example_outputs as split
from openset.testing import in_library


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


def test_a_direction_without_variance_is_left_out(train, test):
    def widened(outputs):
        constant = np.full((len(outputs), 1), 3.0)
        copy = 2 * outputs.features[:, :1]  # depends on another feature
        features = np.concatenate([outputs.features, constant, copy], axis=1)
        return Outputs(features=features, labels=outputs.labels)

    expected = Mahalanobis().fit(train).known(Outputs(features=test.features))
    fitted = Mahalanobis().fit(widened(train))
    assert fitted.state["whiten"].shape == (34, 32)
    assert_allclose(fitted.known(widened(test)), expected)


def test_the_cutoff_is_relative(train, test):
    tiny = Outputs(features=train.features * 1e-9, labels=train.labels)
    small = Outputs(features=test.features * 1e-9)
    expected = Mahalanobis().fit(train).known(Outputs(features=test.features))
    assert_allclose(Mahalanobis().fit(tiny).known(small), expected)


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


def test_moments_do_not_depend_on_how_the_data_is_cut_up(train, xp, monkeypatch):
    whole = _moments.moments(train)
    monkeypatch.setattr("openset.detectors._batch.batch_rows", lambda outputs: 7)
    parts = _moments.moments(in_library(train, xp))
    for name in ("means", "mean", "within", "total"):
        actual = _xp.to_numpy(getattr(parts, name))
        assert_allclose(actual, getattr(whole, name), atol=1e-12)
    features = train.features - train.features.mean(axis=0)
    assert_allclose(whole.total, features.T @ features / len(train), atol=1e-12)


def test_bad_parameters_are_refused_by_name():
    with pytest.raises(ValueError, match=r"Mahalanobis: cutoff must be .* \[0, 1\)"):
        Mahalanobis(cutoff=1)
    with pytest.raises(ValueError, match=r"RMDS: cutoff must be .* \[0, 1\)"):
        RMDS(cutoff=-1)


@pytest.mark.parametrize("kind", [Mahalanobis, RMDS])
def test_a_word_is_no_switch(kind):
    with pytest.raises(TypeError, match="normalize must be True or False, got 'no'"):
        kind(normalize="no")
