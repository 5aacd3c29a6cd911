"""PostMax: ranks on max logit over norm, reports the Pareto probability."""

import math

import numpy as np
import pytest
from scipy import stats

from openset import Outputs
from openset.detectors import PostMax, postmax
from openset.detectors.evt import fit_gpd
from openset.outputs import replaced


def network(n=300, seed=0, n_classes=3):
    """Return outputs of a small network that is right most of the time."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    features = rng.normal(2, 1, (n, 5))
    logits = rng.normal(0, 2, (n, n_classes))
    logits[np.arange(n), labels] += 5
    return Outputs(logits=logits, features=features, labels=labels)


TRAIN = network()


def slow_ell(outputs, norm):
    """One sample at a time, as the formula reads."""
    lengths = {
        "l2": lambda f: math.sqrt(sum(v * v for v in f)),
        "l1": lambda f: sum(abs(v) for v in f),
        "none": lambda f: 1.0,
    }
    pairs = zip(outputs.logits, outputs.features, strict=True)
    return np.array([max(z) / lengths[norm](f) for z, f in pairs])


@pytest.mark.parametrize("norm", ["l2", "l1", "none"])
def test_the_score_is_max_logit_over_the_norm(norm):
    known = PostMax(norm=norm).fit(TRAIN).score(network(seed=1)).known
    np.testing.assert_allclose(known, slow_ell(network(seed=1), norm))


@pytest.mark.parametrize("norm", ["l2", "l1", "none"])
def test_the_law_is_fitted_to_correctly_classified_samples(norm):
    is_correct = TRAIN.logits.argmax(axis=1) == TRAIN.labels
    assert 30 < is_correct.sum() < len(TRAIN)
    ell = slow_ell(TRAIN, norm)
    right, both = fit_gpd(ell[is_correct]), fit_gpd(ell)
    law = postmax.law(PostMax(norm=norm).fit(TRAIN))
    assert law.n == is_correct.sum()
    assert law.shape == pytest.approx(right.shape, abs=1e-6)
    assert law.scale == pytest.approx(right.scale, rel=1e-6)
    unlabelled = Outputs(logits=TRAIN.logits, features=TRAIN.features)
    law = postmax.law(PostMax(norm=norm, only_correct=False).fit(unlabelled))
    assert law.n == len(TRAIN)
    assert law.shape == pytest.approx(both.shape, abs=1e-6)


def test_probabilities_are_the_pareto_cdf_one_law_for_all_classes():
    fitted, new = PostMax().fit(TRAIN), network(seed=1)
    law = postmax.law(fitted)
    frozen = stats.genpareto(law.shape, loc=law.loc, scale=law.scale)
    expected = frozen.cdf(fitted.known(new))
    np.testing.assert_allclose(fitted.probability(new), expected, atol=1e-12)
    lengths = np.linalg.norm(new.features, axis=1, keepdims=True)
    each = fitted.class_probabilities(new)
    np.testing.assert_allclose(each, frozen.cdf(new.logits / lengths), atol=1e-12)


def test_a_zero_feature_is_known_to_nobody():
    fitted = PostMax().fit(TRAIN)
    zero = Outputs(logits=[[9.0, 0.0, 0.0]], features=np.zeros((1, 5)))
    assert fitted.known(zero) == -math.inf
    assert fitted.probability(zero) == 0
    np.testing.assert_array_equal(fitted.class_probabilities(zero), [[0, 0, 0]])


def test_a_few_zero_features_are_left_out_of_the_fit():
    rest = TRAIN.take(np.arange(2, len(TRAIN)))
    ours, theirs = (PostMax().fit(one) for one in (without(slice(2)), rest))
    assert postmax.law(ours) == postmax.law(theirs)


def without(change):
    features = np.array(TRAIN.features)
    features[change] = 0
    return replaced(TRAIN, features=features)


WRONG = (TRAIN.labels + 1) % 3
RIGHT = TRAIN.logits.argmax(axis=1) == TRAIN.labels


@pytest.mark.parametrize(
    ("options", "train", "message"),
    [
        ({"only_correct": False}, network(20), "samples must be at least 30, .* 20"),
        ({}, replaced(TRAIN, labels=WRONG), "correctly classified .* at least 30"),
        ({}, without(RIGHT), "not all zero, got 0 of 300"),
        ({"norm": "none"}, Outputs(logits=np.ones((40, 2))), "not all equal, got 40"),
    ],
)
def test_samples_without_a_tail_are_refused(options, train, message):
    with pytest.raises(ValueError, match=message):
        PostMax(**options).fit(train)
