"""OSNN: the distance ratio against a brute-force search."""

import numpy as np
import pytest

from openset import Outputs
from openset.detectors import OSNN, Fitted, _distances, osnn
from tests.extras import array_api_strict, torch


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


def test_blocks_cover_the_bank_and_are_limited():
    for n_rows, n_bank in ((0, 5), (1, 40), (1 << 10, 5000), (1 << 30, 40)):
        parts = list(_distances.blocks(n_rows, n_bank))
        assert np.concatenate([np.arange(n_bank)[p] for p in parts]).size == n_bank
        widest = max(part.stop - part.start for part in parts)
        assert widest * n_rows <= _distances._BLOCK or widest == 16


def test_the_memory_of_a_search_is_that_of_a_block(monkeypatch):
    monkeypatch.setattr(_distances, "_BLOCK", 1200)
    sizes, make = [], osnn.squared_distances

    def noted(rows, bank):
        sizes.append(rows.shape[0] * bank.shape[0])
        return make(rows, bank)

    monkeypatch.setattr(osnn, "squared_distances", noted)
    OSNN().fit(TRAIN).known(NEW)
    assert sizes == [60 * 20] * 7 + [60 * 10]


def test_of_two_classes_at_the_same_distance_the_first_listed_is_predicted():
    train = Outputs(features=[[0.0], [2.0]], labels=[1, 0])
    scores = OSNN().fit(train).score(Outputs(features=[[1.0]], labels=[-1]))
    assert (scores.known, scores.predicted) == ([-1], [1])


def test_two_classes_that_rounding_puts_in_the_wrong_order_are_exchanged():
    # Far from the centre a squared distance has an error of 0.1 in float32.
    features = np.float32([[1000, 0.125], [1000, -0.125], [-1000, 0], [-1000, 0]])
    train = Outputs(features=features, labels=[0, 1, 0, 1])
    rows = [[1000, u] for u in np.linspace(-0.1, 0.1, 41)]
    new = Outputs(features=np.float32(rows), labels=np.zeros(41, int))
    scores = OSNN().fit(train).score(new)
    known, predicted = slow(train, new)
    np.testing.assert_allclose(scores.known, known, rtol=1e-6)
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
    with pytest.raises(ValueError, match="samples must be of at least two"):
        OSNN().fit(train)


def test_labels_may_leave_numbers_out(tmp_path):
    train = Outputs(features=[[0.0], [1.0], [9.0]], labels=[2, 2, 7])
    fitted = Fitted.load(OSNN().fit(train).save(tmp_path / "osnn.npz"))
    new = Outputs(features=[[0.2], [8.0]], labels=[2, 7])
    assert fitted.score(new).predicted.tolist() == [2, 7]
