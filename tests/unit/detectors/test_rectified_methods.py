"""LTS, DICE and VRA against loops over samples and pytorch-ood."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from openset import Outputs
from openset.detectors import DICE, LTS, VRA
from openset.testing import example_outputs as split
from tests.extras import torch


@pytest.fixture
def train():
    return split(60, seed=1)


@pytest.fixture
def test():
    return split(20, seed=2, unknown=0.4)


def tensor(array):
    return torch.tensor(np.array(array))


def linear(outputs):
    head = torch.nn.Linear(*outputs.weight.shape[::-1], dtype=torch.float64)
    head.weight.data, head.bias.data = tensor(outputs.weight), tensor(outputs.bias)
    return head


@pytest.mark.parametrize("percentile", [0, 50, 95])
def test_lts_equals_a_loop_over_samples(test, percentile, pytorch_ood):
    mixed = Outputs(
        features=test.features - 0.3,
        logits=(test.features - 0.3) @ test.weight.T + test.bias,
    )
    k = max(1, 32 - round(32 * percentile / 100))
    expected = []
    for f, z in zip(mixed.features, mixed.logits, strict=True):
        positive = np.maximum(f, 0)
        r = (positive.sum() / np.sort(positive)[-k:].sum()) ** 2
        expected.append(logsumexp(r * z))
    actual = LTS(percentile=percentile).fit().known(mixed)
    assert_allclose(actual, expected)
    other = pytorch_ood.LTS(None, linear(test), p=1 - percentile / 100)
    assert_allclose(actual, -other.predict_features(tensor(mixed.features)))


def test_lts_keeps_the_logits_of_a_sample_without_positive_features():
    outputs = Outputs(features=[[-1.0, 0.0]], logits=[[1.0, 2.0]])
    assert_allclose(LTS().fit().known(outputs), logsumexp([1.0, 2.0]))


@pytest.mark.parametrize("percentile", [0.5, 30, 70, 90])
def test_dice_equals_a_loop_over_weights(train, test, percentile, pytorch_ood):
    contribution = train.weight * train.features.mean(axis=0)
    cut = np.percentile(contribution, percentile)
    masked = np.array(train.weight)
    for c, j in np.ndindex(masked.shape):
        if contribution[c, j] <= cut:
            masked[c, j] = 0
    expected = [logsumexp(masked @ f + train.bias) for f in test.features]
    actual = DICE(percentile=percentile).fit(train).known(test)
    assert_allclose(actual, expected)
    other = pytorch_ood.DICE(
        None, tensor(train.weight), tensor(train.bias), percentile / 100
    ).fit_features(tensor(train.features), tensor(train.labels))
    assert_allclose(actual, -other.predict_features(tensor(test.features)), rtol=1e-6)


def test_dice_leaves_out_a_contribution_at_the_percentile():
    ones, weight = np.ones((3, 5)), np.array([[1.0, 2.0, 3.0, 4.0, 5.0]])
    train = Outputs(features=ones, weight=weight, bias=np.zeros(1))
    assert_array_equal(DICE(percentile=50).fit(train).known(train), [4 + 5] * 3)


def test_dice_without_sparsity_is_the_energy(train, test):
    expected = logsumexp(test.logits, axis=1)
    assert_allclose(DICE(percentile=0).fit(train).known(test), expected)


@pytest.mark.parametrize("below", ["zero", "clip"])
@pytest.mark.parametrize("per_feature", [False, True])
def test_vra_equals_a_loop_over_samples(train, test, below, per_feature):
    axis = 0 if per_feature else None
    low, high = (np.percentile(train.features, q, axis=axis) for q in (20, 90))
    expected = []
    for f in test.features:
        kept = np.minimum(f, high)
        kept = np.where(f < low, 0.0 if below == "zero" else low, kept)
        expected.append(logsumexp(train.weight @ kept + train.bias))
    recipe = VRA(low=20, high=90, below=below, per_feature=per_feature)
    assert_allclose(recipe.fit(train).known(test), expected)


def test_vra_agrees_with_pytorch_ood(train, test, pytorch_ood):
    head = linear(train)
    other = pytorch_ood.VRA(
        lambda x: x,
        lambda maps: head(maps.flatten(1)),
        lower_percentile=0.1,
        upper_percentile=0.9,
    )
    maps = [tensor(part.features)[:, :, None, None] for part in (train, test)]
    other.fit_feature_maps(maps[0], tensor(train.labels))
    recipe = VRA(low=10, high=90, below="clip", per_feature=True)
    theirs = -other.predict_feature_maps(maps[1]).detach()
    assert_allclose(recipe.fit(train).known(test), theirs, rtol=1e-6)


def test_vra_predicts_from_features_alone(train):
    alone = Outputs(features=train.features, labels=train.labels)
    predicted = VRA().fit(train).score(alone).predicted
    assert_array_equal(predicted, train.logits.argmax(axis=1))


def test_vra_draws_rows_when_there_are_too_many_numbers():
    train = split(400)
    exact = VRA().fit(train).state["high"]
    drawn = [VRA(max_values=3200, seed=s).fit(train).state["high"] for s in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert_allclose(drawn[0], exact, rtol=0.1)


def test_vra_keeps_at_least_one_row():
    train = split(40)
    state = VRA(max_values=1, low=50).fit(train).state
    assert float(state["low"][0]) in np.median(train.features, axis=1)


def test_percentiles_must_be_in_order():
    VRA(low=20, high=20)
    with pytest.raises(ValueError, match=r"VRA: low must be at most high, 10, got 20"):
        VRA(low=20, high=10)
