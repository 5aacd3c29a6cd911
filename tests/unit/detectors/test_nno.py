"""NNO: distance to the nearest class mean within a radius."""

import numpy as np
import pytest

from openset import Outputs
from openset.detectors import NNO, Fitted
from tests.extras import torch
from tests.unit.detectors.test_osnn import blobs

TRAIN, NEW = blobs(150, 0), blobs(60, 1)
MEANS = np.stack([TRAIN.features[TRAIN.labels == c].mean(axis=0) for c in range(4)])


def slow_distances(rows):
    return np.array([[np.linalg.norm(x - mean) for mean in MEANS] for x in rows])


def test_scores_and_classes_are_those_of_the_definition():
    scores = NNO(tau=2.5).fit(TRAIN).score(NEW)
    distances = slow_distances(NEW.features)
    np.testing.assert_allclose(scores.known, 1 - distances.min(axis=1) / 2.5)
    np.testing.assert_array_equal(scores.predicted, distances.argmin(axis=1))


def test_the_radius_is_a_quantile_of_the_training_distances():
    fitted = NNO(quantile=0.9).fit(TRAIN)
    own = slow_distances(TRAIN.features)[np.arange(150), TRAIN.labels]
    assert float(fitted.state["tau"]) == pytest.approx(np.quantile(own, 0.9))
    assert np.mean(fitted.known(TRAIN) >= 0) >= 0.9
    small = Outputs(features=TRAIN.features / 100, labels=TRAIN.labels)
    tau = float(NNO(quantile=0.9).fit(small).state["tau"])
    assert tau == pytest.approx(np.quantile(own, 0.9) / 100)


def test_a_mean_scores_one_however_far_from_the_origin():
    train = Outputs(features=TRAIN.features + 1e6, labels=TRAIN.labels)
    fitted = NNO().fit(train)
    means = fitted.state["means"] + fitted.state["centre"]
    np.testing.assert_allclose(fitted.known(Outputs(features=means)), 1, atol=1e-8)


def test_one_class_and_one_dimension_are_fine():
    train = Outputs(features=[[0.0], [2.0]], labels=[5, 5])
    scores = NNO(tau=1.0).fit(train).score(Outputs(features=[[3.0]], labels=[-1]))
    assert (scores.known[0], scores.predicted[0]) == (-1.0, 5)


def test_samples_without_spread_need_a_radius():
    train = Outputs(features=[[1.0], [1.0], [4.0]], labels=[0, 0, 1])
    with pytest.raises(ValueError, match=r"features must be spread .* Give tau"):
        NNO().fit(train)
    np.testing.assert_array_equal(NNO(tau=3.0).fit(train).known(train), [1, 1, 1])


def test_torch_and_saving_keep_the_numbers(tmp_path):
    train, new = (
        Outputs(features=torch.tensor(o.features), labels=o.labels)
        for o in (TRAIN, NEW)
    )
    expected = NNO().fit(TRAIN).known(NEW)
    fitted = NNO().fit(train)
    np.testing.assert_allclose(fitted.known(new), expected)
    again = Fitted.load(fitted.save(tmp_path / "nno.npz"))
    np.testing.assert_allclose(again.known(NEW), expected)


@pytest.mark.parametrize("options", [{"tau": 0.0}, {"quantile": 0}, {"quantile": 1.2}])
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match=f"NNO: {next(iter(options))} must be"):
        NNO(**options)
