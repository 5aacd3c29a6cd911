"""Detectors on logits against slow formulas."""

import math
from decimal import Decimal, localcontext
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax
from scipy.stats import entropy

from openset import Outputs
from openset.detectors import GEN, KLM, MCM, MSP, Energy, Entropy, MaxLogit, Temperature


def known(detector, logits):
    return detector.fit().known(Outputs(logits=logits))


@pytest.fixture
def logits(rng):
    return rng.normal(scale=3.0, size=(40, 7))


def log_odds(z):
    p = softmax(z, axis=1).max(axis=1)
    return np.log(p / (1 - p))


@pytest.mark.parametrize(
    ("detector", "formula"),
    [
        (MSP(), log_odds),
        (MSP(temperature=2.0), lambda z: log_odds(z / 2)),
        (MCM(), lambda z: log_odds(z / 100)),
        (MaxLogit(), lambda z: z.max(axis=1)),
        (Energy(), lambda z: np.log(np.exp(z).sum(axis=1))),
        (Energy(temperature=0.5), lambda z: np.log(np.exp(2 * z).sum(axis=1)) / 2),
        (Energy(temperature=9.0), lambda z: 9 * np.log(np.exp(z / 9).sum(axis=1))),
        (Entropy(), lambda z: -entropy(softmax(z, axis=1), axis=1)),
    ],
)
def test_scores_are_those_of_the_formula(detector, formula, logits):
    assert_allclose(known(detector, logits), formula(logits), rtol=1e-9)


def test_msp_reports_the_probability(logits):
    p = MSP(temperature=2.0).fit().probability(Outputs(logits=logits))
    assert_allclose(p, softmax(logits / 2, axis=1).max(axis=1))


def test_msp_does_not_saturate_in_float32():
    logits = np.array([[100.0, 0, 0], [200, 0, 0], [300, 0, 0]], dtype=np.float32)
    expected = np.array([100, 200, 300]) - math.log(2)
    assert_allclose(known(MSP(), logits), expected, rtol=1e-6)


def test_msp_of_a_row_is_the_same_beside_a_row_that_underflows():
    rows = np.array([[1.25, 0.5, 0.75], [900.0, 0, 0]], dtype=np.float32)
    assert known(MSP(), rows)[0] == known(MSP(), rows[:1])[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [3, 100, 3000])  # sums of long rows differ
def test_energy_of_a_row_does_not_depend_on_rows_that_overflow(rng, dtype, width):
    middle = np.array([-1e4, -900, -100, -40, 0, 40, 100, 900, 1e4])
    logits = (middle[:, None] + rng.normal(size=(9, width)) * 5).astype(dtype)
    logits[4, 0] = -np.inf
    together = Energy().fit().known(Outputs(logits=logits))
    alone = [Energy().fit().known(Outputs(logits=z[None]))[0] for z in logits]
    assert_array_equal(together, alone)
    expected = np.array([logsumexp(z.astype(np.float64)) for z in logits])
    size = 2 * np.finfo(dtype).eps * np.maximum(1, np.abs(expected))
    assert (np.abs(together - expected) <= size).all()


@cache
def exact_products(*row):
    """Return p (1 - p) of the classes, largest p first; 300 digits, as 1 - p needs."""
    with localcontext(prec=300):
        terms = sorted((Decimal(z).exp() for z in row), reverse=True)
        total = sum(terms)
        return [t / total * ((total - t) / total) for t in terms]


def exact_gen(row, gamma, top):
    """Evaluate GEN straight from the definition."""
    with localcontext(prec=40):  # a power loses no digits
        gamma = Decimal(str(gamma))
        return -float(sum(p**gamma for p in exact_products(*map(float, row))[:top]))


@pytest.mark.parametrize("top", [1, 5, 12, 100])
@pytest.mark.parametrize("gamma", [0.1, 0.5, 2.0])
def test_gen_equals_the_definition(logits, gamma, top):
    actual = known(GEN(gamma=gamma, top=top), logits)
    expected = [exact_gen(row, gamma, top) for row in logits]
    assert_allclose(actual, expected, rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gen_keeps_its_digits_where_probabilities_leave_the_number_range(dtype):
    # e^-95 is below the smallest float32, yet to the power 0.1 it is 7.5e-5.
    rows = np.array([[95.0, 0, 0], [30, 0, 0], [300, 0, 0]], dtype=dtype)
    expected = [exact_gen(row, 0.1, 100) for row in rows]
    tolerance = 2e-5 if dtype == np.float32 else 1e-12
    assert_allclose(known(GEN(), rows), expected, rtol=tolerance)


def test_entropy_of_confident_samples_does_not_round_to_zero():
    gaps = np.float32([20, 40, 80])
    # With q = e^-gap: H = q (1 + gap), up to terms of q^2.
    expected = -np.exp(-gaps) * (1 + gaps)
    actual = known(Entropy(), np.stack([gaps, 0 * gaps], axis=1))
    assert_allclose(actual, expected, rtol=1e-5)


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


def test_klm_is_finite_where_a_typical_probability_underflows():
    train = Outputs(logits=[[2000.0, 0.0], [2001.0, 0.0]])
    known = KLM().fit(train).known(Outputs(logits=[[0.0, 0.0], [2000.0, 0.0]]))
    assert np.isfinite(known).all()
    assert known[1] == 0 > known[0]


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
    assert_array_equal(fitted.known(outputs), msp.known(outputs))
    assert_array_equal(fitted.probability(outputs), msp.probability(outputs))


@pytest.mark.parametrize(("labels", "expected"), [([0, 1], 0.01), ([1, 0], 100.0)])
def test_a_temperature_without_optimum_ends_at_its_bound(labels, expected):
    outputs = Outputs(logits=[[1.0, 0.0], [0.0, 2.0]], labels=labels)
    assert_allclose(Temperature().fit(outputs).state["temperature"], expected)
