"""Losses with negatives, and LogitNorm, against slow, obvious versions."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.autograd import gradcheck
from torch.func import functional_call

from openset.train.methods import make
from tests.train.tiny import N_CLASSES, Learner, rows_network

WITH = ["entropic", "objectosphere", "outlier_exposure", "energy_bounded"]
# Bounds and lengths that some samples keep to and some do not.
OPTIONS = {
    "objectosphere": {"weight": 0.3, "length": 1.0},
    "energy_bounded": {"weight": 0.7, "m_in": -1.2, "m_out": -1.0},
}


@pytest.fixture
def batch():
    """Six rows of three classes, in float64."""
    torch.manual_seed(7)
    return torch.randn(6, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 1, 0, 1])


@pytest.fixture
def negatives():
    """Four rows more, far from the others."""
    torch.manual_seed(8)
    return 2 * torch.randn(4, 4, dtype=torch.float64) + 1


def made(name, **options):
    torch.manual_seed(28)
    network = rows_network(N_CLASSES)
    method = make(name, n_classes=N_CLASSES, network=network, **options)
    return network.double(), method.double()


def loss_of(name, batch, negatives, **options):
    network, method = made(name, **options)
    loss, logits = method.loss(network, *batch, negatives)
    assert torch.equal(logits, network(torch.cat([batch[0], negatives]))[: len(logits)])
    known, outside = (rows_of(network, rows) for rows in (batch[0], negatives))
    return float(loss.detach()), known, outside


def rows_of(network, rows):
    """Return logits and features of each sample as plain lists of numbers."""
    features = network.backbone(rows)
    both = zip(network.head(features).tolist(), features.tolist(), strict=True)
    return list(both)


# The slow, obvious versions: one sample at a time, Python's own sums.


def log_sum_exp(z):
    return math.log(sum(math.exp(v) for v in z))


def entropy(z, targets):
    return -sum(t * (v - log_sum_exp(z)) for t, v in zip(targets, z, strict=True))


def of_class(z, y, smoothing=0.0):
    other = smoothing / (len(z) - 1)
    return entropy(z, [1 - smoothing if c == y else other for c in range(len(z))])


def to_all(z):
    return entropy(z, [1 / len(z)] * len(z))


def length(f):
    return math.sqrt(sum(v * v for v in f))


def mean(values):
    values = list(values)
    return sum(values) / len(values)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_entropic_loss_is_the_obvious_one(batch, negatives, smoothing):
    loss, known, outside = loss_of("entropic", batch, negatives, smoothing=smoothing)
    labels = batch[1].tolist()
    each = [of_class(z, y, smoothing) for (z, _), y in zip(known, labels, strict=True)]
    assert_allclose(loss, mean(each + [to_all(z) for z, _ in outside]), rtol=1e-12)


@pytest.mark.parametrize("xi", [0.8, 5.0])
def test_objectosphere_with_negatives_is_as_defined(batch, negatives, xi):
    options = {"weight": 0.3, "length": xi}
    loss, known, outside = loss_of("objectosphere", batch, negatives, **options)
    each = [
        of_class(z, y) + 0.3 * max(xi - length(f), 0.0) ** 2
        for (z, f), y in zip(known, batch[1].tolist(), strict=True)
    ]
    each += [to_all(z) + 0.3 * length(f) ** 2 for z, f in outside]
    assert_allclose(loss, mean(each), rtol=1e-12)


@pytest.mark.parametrize("weight", [0.5, 2.0])
def test_outlier_exposure_is_the_obvious_one(batch, negatives, weight):
    loss, known, outside = loss_of("outlier_exposure", batch, negatives, weight=weight)
    labels = batch[1].tolist()
    own = mean(of_class(z, y) for (z, _), y in zip(known, labels, strict=True))
    assert_allclose(loss, own + weight * mean(to_all(z) for z, _ in outside))
    default = loss_of("outlier_exposure", batch, negatives)[0]
    assert (default == loss) == (weight == 0.5)


def test_energy_bounded_training_is_the_obvious_one(batch, negatives):
    options = OPTIONS["energy_bounded"]
    loss, known, outside = loss_of("energy_bounded", batch, negatives, **options)
    labels = batch[1].tolist()
    own = mean(of_class(z, y) for (z, _), y in zip(known, labels, strict=True))
    above = [max(0.0, -log_sum_exp(z) + 1.2) ** 2 for z, _ in known]
    below = [max(0.0, -1.0 + log_sum_exp(z)) ** 2 for z, _ in outside]
    for hinges in (above, below):  # both sides of the bound are there
        assert sum(h > 0 for h in hinges) > 0
    assert 0 in (*above, *below)
    assert_allclose(loss, own + 0.7 * (mean(above) + mean(below)), rtol=1e-12)


@pytest.mark.parametrize("temperature", [0.04, 1.0])
def test_logitnorm_is_the_obvious_one(batch, temperature):
    network, method = made("logitnorm", temperature=temperature)
    loss, logits = method.loss(network, *batch)
    each = []
    for z, y in zip(logits.tolist(), batch[1].tolist(), strict=True):
        scaled = [v / ((length(z) + 1e-7) * temperature) for v in z]
        each.append(of_class(scaled, y))
    assert_allclose(float(loss.detach()), mean(each), rtol=1e-12)


@pytest.mark.parametrize("name", [*WITH, "logitnorm"])
def test_gradients_are_those_of_small_differences(name, batch, negatives):
    network, method = made(name, **OPTIONS.get(name, {}))
    learner = Learner(network, method)
    moved = dict(learner.named_parameters())
    more = () if name == "logitnorm" else (negatives,)

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network, self.method = network, method

        def forward(self, inputs, labels):
            return self.method.loss(self.network, inputs, labels, *more)[0]

    def loss(*values):
        given = dict(zip(moved, values, strict=True))
        return functional_call(Loss(), given, batch)

    assert gradcheck(loss, tuple(moved.values()))


@pytest.mark.parametrize("name", [n for n in WITH if n != "objectosphere"])
def test_negatives_must_be_given(name, batch):
    network, method = made(name)
    with pytest.raises(ValueError, match=f"negatives must be given for the .*{name}'"):
        method.loss(network, *batch)


def test_each_paper_has_its_number_of_negatives():
    counts = {name: made(name)[1].n_negatives(128) for name in WITH}
    assert counts == {
        "entropic": 128,
        "objectosphere": 128,
        "outlier_exposure": 256,
        "energy_bounded": 256,
    }
    assert made("entropic", ratio=0.29)[1].n_negatives(100) == 29  # 28.999… as a float
    assert made("entropic", ratio=0.01)[1].n_negatives(3) == 1


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("entropic", {"ratio": 0}, r"ratio must be a number in \(0, inf"),
        ("outlier_exposure", {"weight": -1}, r"weight must be a number in \[0, inf\)"),
        ("energy_bounded", {"m_in": -5.0}, "m_out must be above m_in, got -5.0 with"),
        ("energy_bounded", {"m_out": np.inf}, r"m_out must be a number in \(-inf, inf"),
        ("logitnorm", {"temperature": 0}, r"temperature must be a number in \(0, inf"),
        ("openauc", {"preset": "text"}, "preset must be one of 'paper', 'released'"),
    ],
)
def test_impossible_options_are_refused(name, options, message):
    with pytest.raises(ValueError, match=f"method {name}: {message}"):
        made(name, **options)
