"""Entropy, KLM, Temperature and GradNorm against plain formulas and pytorch-ood."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from openset import Outputs, Rejector, _xp
from openset.detectors import (
    KLM,
    MSP,
    Entropy,
    GradNorm,
    Temperature,
    _batch,
    temperature,
)
from openset.testing import example_outputs as split
from tests.extras import torch


@pytest.fixture
def logits(rng):
    return rng.normal(scale=3.0, size=(40, 7))


def tensor(array):
    return torch.tensor(np.array(array))


def test_entropy_equals_the_sum_of_p_log_p(logits, pytorch_ood):
    p = softmax(logits, axis=1)
    actual = Entropy().fit().known(Outputs(logits=logits))
    assert_allclose(actual, (p * np.log(p)).sum(axis=1))
    assert_allclose(actual, -pytorch_ood.Entropy.score(tensor(logits)), atol=1e-5)


def test_entropy_of_confident_samples_does_not_round_to_zero():
    gaps = np.array([20.0, 40.0, 80.0])
    outputs = Outputs(logits=np.stack([gaps, 0 * gaps], axis=1).astype(np.float32))
    # With q = e^-gap: H = q (1 + gap), up to terms of q^2.
    expected = -np.exp(-gaps) * (1 + gaps)
    assert_allclose(Entropy().fit().known(outputs), expected, rtol=1e-5)


def test_a_logit_of_minus_infinity_adds_no_entropy():
    pair = Entropy().fit().known(Outputs(logits=[[1.0, 0.0]]))
    more = Entropy().fit().known(Outputs(logits=[[1.0, 0.0, -np.inf]]))
    assert_allclose(more, pair)


@pytest.mark.parametrize("detector", [Entropy(), KLM()])
def test_masked_classes_beside_a_logit_of_infinity_are_scored(detector):
    """The entropy of the second row is not defined: the first one must not suffer."""
    logits = [[1.0, 0.0, -np.inf], [np.inf, 0.0, 0.0]]
    known = Outputs(logits=[[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]], labels=[0, 1])
    fitted = detector.fit(known)
    rejector = Rejector.calibrate(
        fitted, known=known, objective="at_tpr", accept_risk=True
    )
    both = Outputs(logits=logits)
    with np.errstate(invalid="ignore"):
        decided = rejector.decide(both, invalid="reject")
    assert decided.is_invalid.tolist() == [False, True]
    assert decided.known[0] == fitted.known(both.take([0]))[0]


def slow_klm(train, test):
    p = softmax(train, axis=1)
    top = p.argmax(axis=1)
    typical = [p[top == k].mean(axis=0) for k in np.unique(top)]
    return [
        -min(sum(q[c] * np.log(q[c] / d[c]) for c in range(len(q))) for d in typical)
        for q in softmax(test, axis=1)
    ]


def test_klm_equals_a_loop_over_classes(logits):
    train = logits[:8]  # predicts only some of the classes
    assert len(set(train.argmax(axis=1))) < 7
    fitted = KLM().fit(Outputs(logits=train))
    expected = slow_klm(train, logits)
    assert_allclose(fitted.known(Outputs(logits=logits)), expected, atol=1e-12)


def test_klm_agrees_with_pytorch_ood(logits, pytorch_ood):
    other = pytorch_ood.KLMatching(None).fit_logits(tensor(logits[:20]))
    fitted = KLM().fit(Outputs(logits=logits[:20]))
    theirs = -other.predict_logits(tensor(logits))
    assert_allclose(fitted.known(Outputs(logits=logits)), theirs, atol=1e-9)


def test_klm_is_finite_where_a_typical_probability_underflows():
    train = Outputs(logits=[[2000.0, 0.0], [2001.0, 0.0]])
    known = KLM().fit(train).known(Outputs(logits=[[0.0, 0.0], [2000.0, 0.0]]))
    assert np.isfinite(known).all()
    assert known[1] == 0 > known[0]


@pytest.mark.parametrize("size", [1, 7, 8, 100])
def test_klm_in_batches_is_klm_at_once(logits, monkeypatch, size):
    known = KLM().fit(Outputs(logits=logits)).known(Outputs(logits=logits))
    monkeypatch.setattr(_batch, "batch_rows", lambda _: size)
    again = KLM().fit(Outputs(logits=logits)).known(Outputs(logits=logits))
    assert_allclose(again, known, atol=1e-12)


def test_klm_says_how_much_memory_too_many_classes_need(logits, monkeypatch):
    train = Outputs(logits=logits[:8])
    n_present = len(set(logits[:8].argmax(axis=1)))
    need = 7 * n_present * 16  # bytes: float64, and at least float32 twice
    monkeypatch.setattr(_xp, "machine_memory", lambda: need)
    assert KLM().fit(train).state["typical"].shape == (n_present, 7)
    monkeypatch.setattr(_xp, "machine_memory", lambda: need - 1)
    with pytest.raises(ValueError, match=f"KLM.fit: .*got {n_present} x 7, which need"):
        KLM().fit(train)
    monkeypatch.setattr(_xp, "machine_memory", lambda: None)  # the system does not say
    KLM().fit(train)


@pytest.mark.parametrize("scale", [0.015, 0.2, 1.0, 4.0, 60.0])
def test_the_temperature_has_the_smallest_negative_log_likelihood(logits, scale, rng):
    labels = np.array([rng.choice(7, p=softmax(row)) for row in logits])
    outputs = Outputs(logits=logits * scale, labels=labels)

    def loss(log_t):
        scores = log_softmax(outputs.logits / np.exp(log_t), axis=1)
        return -scores[np.arange(40), labels].mean()

    found = minimize_scalar(loss, bounds=(-6, 6), options={"xatol": 1e-10}).x
    fitted = Temperature().fit(outputs)
    temperature = float(fitted.state["temperature"])
    assert_allclose(temperature, np.exp(found), rtol=1e-5)
    msp = MSP(temperature=temperature).fit()
    assert_allclose(fitted.known(outputs), msp.known(outputs))
    assert_allclose(fitted.probability(outputs), msp.probability(outputs))


def test_a_very_confident_sample_does_not_change_how_others_are_rounded(logits):
    labels = np.argmax(logits, axis=1)
    fitted = Temperature().fit(Outputs(logits=logits, labels=labels ^ (labels == 1)))
    rows = logits.astype(np.float32)
    rows[0, 0] += 1e5  # the probabilities of its other classes underflow
    alone = fitted.known(Outputs(logits=rows[1:]))
    assert_array_equal(fitted.known(Outputs(logits=rows))[1:], alone)


@pytest.mark.parametrize("scale", [0.05, 3.0])
def test_a_few_steps_find_the_temperature(logits, scale, rng, monkeypatch):
    """Newton's method: the error is squared in each step, not halved."""
    labels = np.array([rng.choice(7, p=softmax(row)) for row in logits])
    slopes, slope = [], temperature._slope

    def noted(train, inverse):
        slopes.append(slope(train, inverse)[0])
        return slope(train, inverse)

    monkeypatch.setattr(temperature, "_slope", noted)
    Temperature().fit(Outputs(logits=scale * logits, labels=labels))
    assert len(slopes) < 2 + 10
    assert abs(slopes[-1]) < 1e-9


def test_pytorch_oods_optimiser_stops_on_its_way_to_our_temperature(
    logits, rng, pytorch_ood
):
    labels = np.array([rng.choice(7, p=softmax(row)) for row in logits])
    outputs = Outputs(logits=logits * 1.5, labels=labels)
    other = pytorch_ood.TemperatureScaling(None)
    other.fit_logits(tensor(outputs.logits).float(), tensor(labels))
    ours, theirs = (
        float(Temperature().fit(outputs).state["temperature"]),
        other.t.item(),
    )
    assert 1 < theirs < ours  # it starts at 1
    losses = [
        -log_softmax(outputs.logits / t, axis=1)[np.arange(40), labels].mean()
        for t in (1, theirs, ours)
    ]
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize(("labels", "expected"), [([0, 1], 0.01), ([1, 0], 100.0)])
def test_a_temperature_without_optimum_ends_at_its_bound(labels, expected):
    outputs = Outputs(logits=[[1.0, 0.0], [0.0, 2.0]], labels=labels)
    assert_allclose(Temperature().fit(outputs).state["temperature"], expected)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_gradnorm_is_the_norm_of_an_automatic_gradient(temperature, pytorch_ood):
    outputs = split(12)
    head = torch.nn.Linear(32, 4, dtype=torch.float64)
    head.weight.data, head.bias.data = tensor(outputs.weight), tensor(outputs.bias)
    expected = []
    for f in tensor(outputs.features):
        head.zero_grad()
        log_p = (head(f) / temperature).log_softmax(0)
        (-log_p.mean()).backward()
        expected.append(head.weight.grad.abs().sum().item())
    actual = GradNorm(temperature=temperature).fit().known(outputs)
    assert_allclose(actual, expected)
    other = pytorch_ood.GradNorm(
        head, param_filter=lambda name: name == "weight", temperature=temperature
    )
    assert_allclose(actual, -other.to("cpu").predict(tensor(outputs.features)))


def test_bad_temperatures_are_refused_by_name():
    with pytest.raises(ValueError, match="GradNorm: temperature must be"):
        GradNorm(temperature=0)
