"""GradNorm, NCI, FDBD, SHE and CORE against loops."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from openset import Outputs
from openset.detectors import CORE, FDBD, NCI, SHE, GradNorm
from openset.outputs import replaced
from openset.testing import example_outputs as split
from tests.extras import torch


def with_mistakes():
    outputs = split(80, seed=1)
    labels = np.array(outputs.labels)
    labels[np.random.default_rng(0).permutation(80)[:15]] = 2
    return replaced(outputs, labels=labels)


TRAIN, TEST = with_mistakes(), split(30, seed=2, unknown=0.4)
MEAN = TRAIN.features.mean(axis=0)


def slow_she(f, z, recipe):
    is_right = TRAIN.labels == TRAIN.logits.argmax(axis=1)
    return f @ TRAIN.features[is_right & (TRAIN.labels == z.argmax())].mean(axis=0)


def slow_fdbd(f, z, recipe):
    top, weight = z.argmax(), TRAIN.weight
    distances = [
        abs(z[top] - z[c]) / np.linalg.norm(weight[top] - weight[c])
        for c in range(4)
        if c != top
    ]
    origin = MEAN if recipe.origin == "mean" else 0.0
    return np.mean(distances) / np.linalg.norm(f - origin)


def slow_nci(f, z, recipe):
    cosine = TRAIN.weight[z.argmax()] @ (f - MEAN) / np.linalg.norm(f - MEAN)
    return cosine + recipe.alpha * np.abs(f).sum()


SLOW = {SHE: slow_she, FDBD: slow_fdbd, NCI: slow_nci}


@pytest.mark.parametrize(
    "recipe", [SHE(), FDBD(), FDBD(origin="zero"), NCI(alpha=0.0), NCI(alpha=0.01)]
)
def test_the_score_equals_a_loop_over_samples(recipe):
    pairs = zip(TEST.features, TEST.logits, strict=True)
    expected = [SLOW[type(recipe)](f, z, recipe) for f, z in pairs]
    assert_allclose(recipe.fit(TRAIN).score(TEST).known, expected)


def test_she_has_no_pattern_for_a_class_that_is_never_right():
    labels = np.where(TRAIN.labels == 1, 0, TRAIN.labels)
    known = SHE().fit(replaced(TRAIN, labels=labels)).score(TEST)
    is_one = known.predicted == 1
    assert is_one.any()
    assert np.isneginf(known.known[is_one]).all()
    assert np.isfinite(known.known[~is_one]).all()


def test_she_refuses_labels_that_are_never_right():
    outputs = Outputs(logits=[[0.0, 1.0]], features=[[1.0]], labels=[0])
    with pytest.raises(ValueError, match=r"SHE\.fit: labels must be predicted.*of 1"):
        SHE().fit(outputs)


def slow_core(train, test):
    unit = train.weight / np.linalg.norm(train.weight, axis=1, keepdims=True)

    def residual(f, c):
        return f - (f @ unit[c]) * unit[c]

    patterns = [
        np.mean([residual(f, c) for f in train.features[train.labels == c]], axis=0)
        for c in range(4)
    ]

    def terms(part):
        found = []
        for f, z in zip(part.features, part.logits, strict=True):
            r, pattern = residual(f, z.argmax()), patterns[z.argmax()]
            cosine = r @ pattern / np.linalg.norm(r) / np.linalg.norm(pattern)
            found.append((logsumexp(z), cosine))
        return np.array(found)

    learnt = terms(train)
    return ((terms(test) - learnt.mean(axis=0)) / learnt.std(axis=0)).sum(axis=1)


def test_core_equals_a_loop_over_samples():
    assert_allclose(CORE().fit(TRAIN).known(TEST), slow_core(TRAIN, TEST))


def test_fdbd_at_the_mean_is_zero():
    fitted = FDBD().fit(TRAIN)
    at_mean = Outputs(features=fitted.state["mean"][None, :], logits=[[3.0, 1, 0, 0]])
    assert_array_equal(fitted.known(at_mean), [0.0])


def test_fdbd_names_two_classes_without_a_boundary():
    weight = np.array(TRAIN.weight)
    weight[3] = weight[1]
    twins = Outputs(features=TRAIN.features, weight=weight, bias=TRAIN.bias)
    with pytest.raises(ValueError, match="the same for classes 1 and 3"):
        FDBD().fit(twins)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_gradnorm_is_the_norm_of_an_automatic_gradient(temperature):
    outputs = split(12)
    head = torch.nn.Linear(32, 4, dtype=torch.float64)
    head.weight.data = torch.tensor(np.array(outputs.weight))
    head.bias.data = torch.tensor(np.array(outputs.bias))
    expected = []
    for f in torch.tensor(np.array(outputs.features)):
        head.zero_grad()
        log_p = (head(f) / temperature).log_softmax(0)
        (-log_p.mean()).backward()
        expected.append(head.weight.grad.abs().sum().item())
    assert_allclose(GradNorm(temperature=temperature).fit().known(outputs), expected)
