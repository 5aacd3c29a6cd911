"""Detectors that change features, logits or weights, against loops."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from openset import InvalidSamplesError, Outputs
from openset.detectors import ASH, DICE, LTS, SCALE, VRA, ReAct
from openset.detectors.shaping import n_kept
from openset.outputs import replaced
from openset.testing import example_outputs as split

TRAIN, TEST = split(60, seed=1), split(20, seed=2, unknown=0.4)


def with_features(features):
    return replaced(
        TEST, features=features, logits=features @ TEST.weight.T + TEST.bias
    )


SIGNED = with_features(np.round(TEST.features - 0.4, 1))  # of which many are equal
TIED = with_features(np.maximum(SIGNED.features, 0))


def slow_react(f, recipe):
    return np.minimum(f, np.percentile(TRAIN.features, recipe.percentile))


def slow_vra(f, recipe):
    low, high = np.percentile(TRAIN.features, [recipe.low, recipe.high])
    below = 0.0 if recipe.below == "zero" else low
    return np.where(f < low, below, np.minimum(f, high))


def slow_scale(f, recipe):
    kept = np.maximum(f, 0) if recipe.relu else f
    k = n_kept(f.size, recipe.percentile)
    return f * np.exp(kept.sum() / np.sort(kept)[-k:].sum())


def slow_ash(f, recipe):
    f = np.maximum(f, 0) if recipe.relu else f
    k = n_kept(f.size, recipe.percentile)
    keep = np.argsort(-f, kind="stable")[:k]  # of equal ones those that come first
    shaped = np.zeros_like(f)
    shaped[keep] = f.sum() / k if recipe.variant == "b" else f[keep]
    factor = np.exp(f.sum() / f[keep].sum()) if recipe.variant == "s" else 1
    return factor * shaped


SLOW = {ReAct: slow_react, VRA: slow_vra, SCALE: slow_scale, ASH: slow_ash}


@pytest.mark.parametrize(
    "recipe",
    [
        ReAct(percentile=70),
        VRA(low=20, high=90),
        VRA(low=20, high=90, below="clip"),
        *(SCALE(percentile=p) for p in (0, 50, 85, 95)),
        *(ASH(variant=v, percentile=p) for v in "spb" for p in (0, 65, 90)),
        SCALE(relu=True),
        *(ASH(variant=v, relu=True) for v in "spb"),
    ],
    ids=repr,
)
def test_the_score_is_the_energy_of_changed_features(recipe):
    part = SIGNED if getattr(recipe, "relu", False) else TIED
    changed = np.array([SLOW[type(recipe)](f, recipe) for f in part.features])
    expected = logsumexp(changed @ TRAIN.weight.T + TRAIN.bias, axis=1)
    assert_allclose(recipe.fit(TRAIN).known(part), expected)


@pytest.mark.parametrize("percentile", [0, 50, 95])
def test_lts_equals_a_loop_over_samples(percentile):
    k = max(1, 32 - round(32 * percentile / 100))
    expected = []
    for f, z in zip(SIGNED.features, SIGNED.logits, strict=True):
        positive = np.maximum(f, 0)
        r = (positive.sum() / np.sort(positive)[-k:].sum()) ** 2
        expected.append(logsumexp(r * z))
    assert_allclose(LTS(percentile=percentile).fit().known(SIGNED), expected)


@pytest.mark.parametrize("percentile", [0.5, 30, 70, 90])
def test_dice_equals_a_loop_over_weights(percentile):
    contribution = TRAIN.weight * TRAIN.features.mean(axis=0)
    cut = np.percentile(contribution, percentile)
    masked = np.where(contribution <= cut, 0, TRAIN.weight)
    expected = [logsumexp(masked @ f + TRAIN.bias) for f in TEST.features]
    assert_allclose(DICE(percentile=percentile).fit(TRAIN).known(TEST), expected)


def test_percentiles_must_be_in_order():
    VRA(low=20, high=20)
    with pytest.raises(ValueError, match=r"VRA: low must be at most high, 10, got 20"):
        VRA(low=20, high=10)


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
def test_classes_are_predicted_from_features_alone(recipe):
    alone = Outputs(features=TRAIN.features, labels=TRAIN.labels)
    predicted = recipe.fit(TRAIN).score(alone).predicted
    assert_array_equal(predicted, TRAIN.logits.argmax(axis=1))


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
