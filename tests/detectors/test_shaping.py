"""Detectors that change features, logits or weights, against loops."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from openset import InvalidSamplesError, Outputs
from openset.detectors import ASH, DICE, LTS, SCALE, VRA, ReAct
from openset.detectors.shaping import n_kept
from openset.testing import example_outputs as split


def test_react_cuts_at_the_percentile_of_all_training_features():
    train, test = split(40), split(10, seed=3)
    cut = np.percentile(train.features, 70)
    expected = [
        logsumexp(np.minimum(f, cut) @ test.weight.T + test.bias) for f in test.features
    ]
    fitted = ReAct(percentile=70).fit(train)
    assert float(fitted.state["clip"]) == cut
    assert_allclose(fitted.score(test).known, expected)


def slow_scale(f, outputs, k):
    r = np.exp(f.sum() / np.sort(f)[-k:].sum())
    return logsumexp((r * f) @ outputs.weight.T + outputs.bias)


@pytest.mark.parametrize("percentile", [0, 50, 85, 95])
def test_scale_equals_sending_the_stretched_features_through_the_head(percentile):
    outputs = split(20)
    k = n_kept(outputs.features.shape[1], percentile)
    expected = [slow_scale(f, outputs, k) for f in outputs.features]
    actual = SCALE(percentile=percentile).fit(outputs).score(outputs).known
    assert_allclose(actual, expected)


def slow_ash(f, outputs, k, variant):
    keep = np.argsort(-f, kind="stable")[:k]  # of equal ones those that come first
    shaped = np.zeros_like(f)
    shaped[keep] = f.sum() / k if variant == "b" else f[keep]
    if variant == "s":
        shaped *= np.exp(f.sum() / f[keep].sum())
    return logsumexp(shaped @ outputs.weight.T + outputs.bias)


@pytest.mark.parametrize("variant", ["s", "p", "b"])
@pytest.mark.parametrize("percentile", [0, 65, 90])
def test_ash_equals_a_loop_over_samples(variant, percentile, rng):
    outputs = split(20)
    # Round and cut, so that equal features and zeros abound.
    features = np.maximum(np.round(outputs.features - 0.4, 1), 0)
    tied = Outputs(features=features, labels=outputs.labels)
    k = n_kept(features.shape[1], percentile)
    expected = [slow_ash(f, outputs, k, variant) for f in features]
    fitted = ASH(variant=variant, percentile=percentile).fit(outputs)
    assert_allclose(fitted.score(tied).known, expected)


@pytest.fixture
def train():
    return split(60, seed=1)


@pytest.fixture
def test():
    return split(20, seed=2, unknown=0.4)


@pytest.mark.parametrize("percentile", [0, 50, 95])
def test_lts_equals_a_loop_over_samples(test, percentile):
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
    assert_allclose(LTS(percentile=percentile).fit().known(mixed), expected)


@pytest.mark.parametrize("percentile", [0.5, 30, 70, 90])
def test_dice_equals_a_loop_over_weights(train, test, percentile):
    contribution = train.weight * train.features.mean(axis=0)
    cut = np.percentile(contribution, percentile)
    masked = np.where(contribution <= cut, 0, train.weight)
    expected = [logsumexp(masked @ f + train.bias) for f in test.features]
    assert_allclose(DICE(percentile=percentile).fit(train).known(test), expected)


def test_percentiles_must_be_in_order():
    VRA(low=20, high=20)
    with pytest.raises(ValueError, match=r"VRA: low must be at most high, 10, got 20"):
        VRA(low=20, high=10)


@pytest.mark.parametrize("below", ["zero", "clip"])
def test_vra_equals_a_loop_over_samples(train, test, below):
    low, high = (np.percentile(train.features, q) for q in (20, 90))
    expected = []
    for f in test.features:
        kept = np.minimum(f, high)
        kept = np.where(f < low, 0.0 if below == "zero" else low, kept)
        expected.append(logsumexp(train.weight @ kept + train.bias))
    recipe = VRA(low=20, high=90, below=below)
    assert_allclose(recipe.fit(train).known(test), expected)


@pytest.mark.parametrize("recipe", [ReAct(percentile=70), VRA()])
def test_a_percentile_of_too_many_numbers_is_that_of_random_rows(recipe, monkeypatch):
    train = split(400)
    exact = recipe.fit(train)
    monkeypatch.setattr("openset.detectors.shaping._MOST_NUMBERS", 3200)
    drawn = [recipe.fit(train).known(train) for _ in range(2)]
    assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], exact.known(train))
    assert_allclose(drawn[0], exact.known(train), rtol=0.1)


@pytest.mark.parametrize("recipe", [ReAct(), VRA(), ASH(), ASH(variant="b")])
def test_classes_are_predicted_from_features_alone(recipe, train):
    alone = Outputs(features=train.features, labels=train.labels)
    predicted = recipe.fit(train).score(alone).predicted
    assert_array_equal(predicted, train.logits.argmax(axis=1))


@pytest.mark.parametrize("recipe", [SCALE(), ASH()])
@pytest.mark.parametrize(
    "features",
    [[-1.0, -2.0, -3.0, -4.0], [0.0, -2.0, -3.0, -4.0], [1.0] + [1.0] * 5000],
)
def test_features_without_a_factor_are_refused(recipe, features):
    """Of no positive sum, or one so much larger that its exponential overflows."""
    head = {"weight": np.ones((2, len(features))), "bias": np.zeros(2)}
    outputs = Outputs(features=[features], logits=[[1, 2]], labels=[0], **head)
    recipe = dataclasses.replace(recipe, percentile=99.99 if len(features) > 9 else 75)
    with pytest.raises(InvalidSamplesError, match=r"NaN.*relu=True.*lower percentile"):
        recipe.fit(outputs).score(outputs)
