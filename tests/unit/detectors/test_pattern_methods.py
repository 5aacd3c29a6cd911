"""SHE, Relation and CORE against loops over samples, and SHE against pytorch-ood."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax

from openset import Outputs
from openset.detectors import CORE, SHE, Relation
from openset.outputs import replaced
from openset.testing import example_outputs as split
from tests.extras import torch


@pytest.fixture
def train(rng):
    """Training outputs of which some samples are misclassified."""
    outputs = split(80, seed=1)
    labels = np.array(outputs.labels)
    labels[rng.permutation(80)[:15]] = 2
    return replaced(outputs, labels=labels)


@pytest.fixture
def test():
    return split(30, seed=2, unknown=0.4)


def slow_patterns(train):
    top = train.logits.argmax(axis=1)
    return [
        np.mean(
            [
                f
                for f, y, t in zip(train.features, train.labels, top, strict=True)
                if y == t == c
            ],
            axis=0,
        )
        for c in range(4)
    ]


def test_she_equals_a_loop_over_samples(train, test, pytorch_ood):
    patterns = slow_patterns(train)
    expected = [
        f @ patterns[z.argmax()]
        for f, z in zip(test.features, test.logits, strict=True)
    ]
    actual = SHE().fit(train).score(test).known
    assert_allclose(actual, expected)
    weight, bias = (torch.tensor(np.array(a)) for a in (train.weight, train.bias))
    other = pytorch_ood.SHE(None, lambda z: z @ weight.T + bias)
    features = torch.tensor(np.array(train.features))
    other.fit_features(features, torch.tensor(np.array(train.labels)))
    theirs = -other.predict_features(torch.tensor(np.array(test.features)))
    assert_allclose(actual, theirs)


def test_she_has_no_pattern_for_a_class_that_is_never_right(train, test):
    labels = np.where(train.labels == 1, 0, train.labels)
    known = SHE().fit(replaced(train, labels=labels)).score(test)
    is_one = known.predicted == 1
    assert is_one.any()
    assert np.isneginf(known.known[is_one]).all()
    assert np.isfinite(known.known[~is_one]).all()


def test_the_pattern_of_one_sample_is_the_sample():
    outputs = split(80, seed=1)
    is_one = outputs.logits.argmax(axis=1) == 1
    labels = np.where(is_one, 0, outputs.labels)
    alone = int(np.flatnonzero(is_one)[0])
    labels[alone] = 1
    fitted = SHE().fit(replaced(outputs, labels=labels))
    f = outputs.features[alone]
    assert_allclose(fitted.known(outputs.take([alone])), f @ f)


def test_she_refuses_labels_that_are_never_right():
    outputs = Outputs(logits=[[0.0, 1.0]], features=[[1.0]], labels=[0])
    with pytest.raises(ValueError, match=r"SHE\.fit: labels must be predicted.*of 1"):
        SHE().fit(outputs)


@pytest.mark.parametrize(("power", "cut"), [(1.0, 0.03), (2.0, 0.1), (0.5, 0.0)])
def test_relation_equals_a_loop_over_pairs(train, test, power, cut):
    p, q = softmax(test.logits, axis=1), softmax(train.logits, axis=1)
    signed = test.features - 0.7  # cosines of both signs
    expected = []
    for i in range(len(test)):
        total = 0.0
        for j in range(len(train)):
            lengths = np.linalg.norm(signed[i]) * np.linalg.norm(train.features[j])
            cosine = signed[i] @ train.features[j] / lengths
            relation = max(0.0, cosine) * (p[i] @ q[j])
            total += relation**power if relation > cut else 0.0
        expected.append(total / len(train))
    fitted = Relation(power=power, cut=cut).fit(train)
    assert_allclose(fitted.known(replaced(test, features=signed)), expected)


def test_relation_keeps_a_random_part_of_the_training_samples(train, test):
    fitted = Relation(bank=20, seed=3).fit(train)
    assert fitted.state["bank"].shape == (20, 32)
    whole = Relation().fit(train).known(test)
    assert_allclose(fitted.known(test), whole, rtol=0.7)
    assert Relation(bank=1).fit(train).state["bank"].shape == (1, 32)
    with pytest.raises(ValueError, match=r"Relation\.fit: bank must be at most 80"):
        Relation(bank=81).fit(train)


def test_relation_does_not_depend_on_the_size_of_its_blocks(train, test, monkeypatch):
    whole = Relation().fit(train).known(test)
    monkeypatch.setattr("openset.detectors._distances._BLOCK", 1)
    assert_allclose(Relation().fit(train).known(test), whole)


def slow_core(train, test):
    lengths = np.linalg.norm(train.weight, axis=1)
    unit = np.array([
        w / length if length else w
        for w, length in zip(train.weight, lengths, strict=True)
    ])  # fmt: skip

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


def test_core_equals_a_loop_over_samples(train, test):
    assert_allclose(CORE().fit(train).known(test), slow_core(train, test))


def test_core_of_a_class_without_weights_compares_whole_features(train, test):
    weight = np.array(train.weight)
    weight[1] = 0
    train, test = (replaced(part, weight=weight) for part in (train, test))
    assert_allclose(CORE().fit(train).known(test), slow_core(train, test))


@pytest.mark.parametrize("name", ["features", "weight"])
def test_core_does_not_depend_on_the_scale_of_features_or_weights(train, test, name):
    small = [replaced(x, **{name: 1e-4 * getattr(x, name)}) for x in (train, test)]
    expected = CORE().fit(train).known(test)
    assert_allclose(CORE().fit(small[0]).known(small[1]), expected)


def test_rounding_errors_of_a_constant_energy_are_no_spread(train, test, rng):
    """Energies of a million differ by 1e-4 in training, then by 2: it counts as 2."""
    top = np.zeros(train.logits.shape)
    top[np.arange(80), train.labels] = 1e6 + 1e-4 * rng.random(80)
    fitted = CORE().fit(replaced(train, logits=top))
    one, other = (np.tile([1e6 + x, 0, 0, 0], (30, 1)) for x in (5.0, 3.0))
    known = [fitted.known(replaced(test, logits=z)) for z in (one, other)]
    assert_allclose(known[0] - known[1], 2, rtol=1e-6)


def test_core_of_a_class_without_samples_is_its_energy_alone(train, test):
    some = train.take(train.labels != 1)
    fitted = CORE().fit(some)
    is_one = test.logits.argmax(axis=1) == 1
    energy = logsumexp(test.logits, axis=1)
    (mean, middle), (spread, width) = fitted.state["mean"], fitted.state["spread"]
    expected = (energy - mean) / spread - middle / width
    assert_allclose(fitted.known(test)[is_one], expected[is_one])
