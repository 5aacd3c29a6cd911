"""OSNN: the distance ratio against a brute-force search."""

import array_api_strict
import numpy as np
import pytest
import torch

from openset import Outputs
from openset.detectors import OSNN, Fitted, _distances


def blobs(n, seed, n_classes=4, d=3):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    centres = np.random.default_rng(99).normal(0, 4, (n_classes, d))
    return Outputs(features=centres[labels] + rng.normal(size=(n, d)), labels=labels)


TRAIN, NEW = blobs(150, 0), blobs(60, 1)


def slow(train, new):
    known, predicted = [], []
    for x in new.features:
        distances = np.sqrt(((train.features - x) ** 2).sum(axis=1))
        t = distances.argmin()
        far = distances[train.labels != train.labels[t]].min()
        known.append(-1.0 if far == 0 else -distances[t] / far)
        predicted.append(train.labels[t])
    return np.array(known), np.array(predicted)


@pytest.mark.parametrize("block", [64, 1 << 20])
def test_scores_and_classes_are_those_of_a_brute_force_search(block, monkeypatch):
    monkeypatch.setattr(_distances, "_BLOCK", block)  # many blocks, or one
    scores = OSNN().fit(TRAIN).score(NEW)
    known, predicted = slow(TRAIN, NEW)
    np.testing.assert_allclose(scores.known, known)
    np.testing.assert_array_equal(scores.predicted, predicted)


@pytest.mark.parametrize("asarray", [torch.asarray, array_api_strict.asarray])
def test_other_libraries_give_the_same_numbers(asarray, monkeypatch):
    monkeypatch.setattr(_distances, "_BLOCK", 64)
    train, new = (
        Outputs(features=asarray(np.array(o.features)), labels=o.labels)
        for o in (TRAIN, NEW)
    )
    scores = OSNN().fit(train).score(new)
    known, predicted = slow(TRAIN, NEW)
    np.testing.assert_allclose(scores.known, known)
    np.testing.assert_array_equal(scores.predicted, predicted)


def test_a_training_sample_has_ratio_zero_and_a_disputed_place_one():
    far_away = 1e6  # where the matrix product alone has no digits left
    features = np.array([[0.0], [1.0], [1.0], [5.0]]) + far_away
    train = Outputs(features=features, labels=[0, 0, 1, 1])
    new = Outputs(features=np.array([[0.0], [1.0]]) + far_away)
    np.testing.assert_array_equal(OSNN().fit(train).known(new), [0, -1])


def test_constant_features_are_known_to_nobody():
    train = Outputs(features=np.ones((6, 2)), labels=[0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(OSNN().fit(train).known(train), np.full(6, -1.0))


def test_moving_and_scaling_all_features_changes_nothing():
    one = OSNN().fit(TRAIN).known(NEW)
    train, new = (
        Outputs(features=5 * o.features + 3, labels=o.labels) for o in (TRAIN, NEW)
    )
    np.testing.assert_allclose(OSNN().fit(train).known(new), one)


def test_one_class_is_refused():
    train = Outputs(features=[[0.0], [1.0]], labels=[3, 3])
    with pytest.raises(ValueError, match=r"OSNN.fit: samples must be of two classes"):
        OSNN().fit(train)


def test_labels_may_leave_numbers_out(tmp_path):
    train = Outputs(features=[[0.0], [1.0], [9.0]], labels=[2, 2, 7])
    fitted = Fitted.load(OSNN().fit(train).save(tmp_path / "osnn.npz"))
    new = Outputs(features=[[0.2], [8.0]], labels=[2, 7])
    assert fitted.score(new).predicted.tolist() == [2, 7]
