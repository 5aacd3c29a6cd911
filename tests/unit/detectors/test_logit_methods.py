"""MSP, MCM, MaxLogit, Energy and GEN against slow formulas and pytorch-ood."""

import math
from decimal import Decimal, localcontext
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from openset import Outputs
from openset.detectors import (
    GEN,
    MCM,
    MSP,
    Energy,
    MaxLogit,
    _fused,
    combine,
    names,
)
from tests.extras import torch


def outputs_of(logits):
    return Outputs(logits=logits, labels=np.zeros(len(logits), dtype=int))


def known(detector, logits):
    outputs = outputs_of(logits)
    return detector.fit(outputs).score(outputs).known


@pytest.fixture
def logits(rng):
    return rng.normal(scale=3.0, size=(40, 12))


def test_msp_is_the_log_odds_of_the_largest_probability(logits):
    for row, score in zip(logits, known(MSP(), logits), strict=True):
        terms = [math.exp(z) for z in row]
        p = max(terms) / sum(terms)
        assert score == pytest.approx(math.log(p / (1 - p)), rel=1e-9)


def test_msp_reports_the_probability(logits, pytorch_ood):
    outputs = outputs_of(logits)
    p = MSP(temperature=2.0).fit(outputs).probability(outputs)
    theirs = -pytorch_ood.MaxSoftmax.score(torch.tensor(logits), t=2.0)
    assert_allclose(p, theirs, rtol=1e-9)


def test_msp_does_not_saturate_in_float32():
    logits = np.array([[100.0, 0, 0], [200, 0, 0], [300, 0, 0]], dtype=np.float32)
    expected = np.array([100, 200, 300]) - math.log(2)
    assert_allclose(known(MSP(), logits), expected, rtol=1e-6)


def test_msp_of_a_row_is_the_same_beside_a_row_that_underflows():
    rows = np.array([[1.25, 0.5, 0.75], [900.0, 0, 0]], dtype=np.float32)
    assert known(MSP(), rows)[0] == known(MSP(), rows[:1])[0]


def test_msp_with_one_class_is_certain():
    outputs = outputs_of([[3.0]])
    fitted = MSP().fit(outputs)
    assert fitted.score(outputs).known == [np.inf]
    assert fitted.probability(outputs) == [1.0]


@pytest.mark.parametrize("scale", [100.0, 30.0])
def test_mcm_is_the_softmax_of_cosines(rng, scale):
    cosines = rng.uniform(-1, 1, size=(20, 7))
    outputs = Outputs(logits=cosines * scale, labels=np.zeros(20, int))
    fitted = (MCM() if scale == 100 else MCM(temperature=scale)).fit()
    masses = np.exp(cosines)
    expected = masses.max(axis=1) / masses.sum(axis=1)
    assert_allclose(fitted.probability(outputs), expected)
    odds = np.log(expected / (1 - expected))
    assert_allclose(fitted.score(outputs).known, odds)


def test_maxlogit_is_the_largest_logit(logits, pytorch_ood):
    assert_array_equal(known(MaxLogit(), logits), logits.max(axis=1))
    assert_array_equal(
        known(MaxLogit(), logits), -pytorch_ood.MaxLogit.score(torch.tensor(logits))
    )


@pytest.mark.parametrize("temperature", [0.5, 1.0, 10.0])
def test_energy_is_the_log_of_a_sum_of_exponentials(logits, temperature, pytorch_ood):
    actual = known(Energy(temperature=temperature), logits)
    for row, score in zip(logits, actual, strict=True):
        total = sum(math.exp(z / temperature) for z in row)
        assert score == pytest.approx(temperature * math.log(total), rel=1e-12)
    theirs = pytorch_ood.EnergyBased.score(torch.tensor(logits), t=temperature)
    assert_allclose(actual, -theirs, rtol=1e-9)


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


def test_energy_of_one_class_is_its_logit():
    logits = np.float32([[1.0], [-2.0], [0.3], [60.0]])
    assert_array_equal(Energy().fit().known(Outputs(logits=logits)), logits[:, 0])


def test_energy_does_not_overflow():
    assert_allclose(known(Energy(), [[1e4, 1e4]]), 1e4 + math.log(2))
    assert known(Energy(), [[np.inf, 0.0]]) == [np.inf]


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


def test_gen_uses_the_hundred_largest_of_many_classes_as_published(rng):
    wide = rng.normal(size=(3, 130))
    assert_allclose(known(GEN(), wide), [exact_gen(row, 0.1, 100) for row in wide])


@pytest.mark.parametrize("top", [5, 100])
def test_gen_takes_the_terms_of_other_classes_from_a_kernel(logits, top, monkeypatch):
    def kernel(logits, top_class, energy, *, kept, gamma):
        log_p = np.delete(logits[0], top_class) - energy
        terms = np.exp(log_p) * (1 - np.exp(log_p))
        return np.array([np.sort(terms**gamma)[-kept:].sum()])

    monkeypatch.setattr(_fused, "entropy_of_others", kernel)
    for row in logits:
        expected = exact_gen(row, 0.5, top)
        assert_allclose(known(GEN(gamma=0.5, top=top), row[None]), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gen_keeps_its_digits_where_probabilities_leave_the_number_range(dtype):
    # e^-95 is below the smallest float32, yet to the power 0.1 it is 7.5e-5.
    rows = np.array([[95.0, 0, 0], [30, 0, 0], [300, 0, 0]], dtype=dtype)
    expected = [exact_gen(row, 0.1, 100) for row in rows]
    tolerance = 2e-5 if dtype == np.float32 else 1e-12
    assert_allclose(known(GEN(), rows), expected, rtol=tolerance)


def test_gen_of_tied_logits_counts_the_predicted_class_once():
    assert_allclose(known(GEN(gamma=1.0), [[2.0, 2.0, 2.0]]), -3 * (1 / 3) * (2 / 3))


def test_gen_agrees_with_pytorch_ood_times_the_number_of_classes(logits, pytorch_ood):
    # It averages where the paper sums, and cuts probabilities at 1e-7.
    mild = logits / 3
    theirs = pytorch_ood.GEN.score(torch.tensor(mild), gamma=0.1, M=5)
    assert_allclose(known(GEN(top=5), mild), -5 * theirs, rtol=1e-9)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MSP(temperature=0), "MSP: temperature must be a number in (0, inf)"),
        (lambda: MCM(temperature=0), "MCM: temperature must be a number in (0, inf)"),
        (lambda: Energy(temperature=-1), "Energy: temperature must be"),
        (lambda: GEN(gamma=0), "GEN: gamma must be a number in (0, inf)"),
        (lambda: GEN(top=0), "GEN: top must be an integer >= 1, got 0"),
    ],
)
def test_bad_parameters_are_refused_by_name(build, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011  # compared literally below
        build()
    assert message in str(error.value)


def test_the_methods_are_registered():
    assert {"msp", "mcm", "maxlogit", "energy", "gen"} <= set(names())


def test_gen_refuses_logits_whose_rounding_exceeds_one(logits):
    assert_array_equal(known(GEN(), logits * 1e9), np.zeros(40))  # p is 0 or 1
    for factor in (1e16, 1e300):
        with pytest.raises(
            ValueError, match=r"GEN\.score: logits must be below 4\.5e\+15"
        ):
            known(GEN(), logits * factor)
    with pytest.raises(ValueError, match=r"below 8\.4e\+06 in size"):
        known(GEN(), (logits * 1e8).astype(np.float32))
    mixed = np.array([[1.0, 0.0], [2.0**52, 0.0]])  # neighbours are 1 apart
    with pytest.raises(ValueError, match=r"below 4\.5e\+15 in size.*got 4\.5e\+15"):
        known(GEN(), mixed)
    assert known(GEN(), mixed - [1.0, 0.0])[1] == 0


def test_the_energy_of_log_probabilities_is_refused():
    """It is 0 for every sample, and what is left is rounding."""
    logits = np.random.default_rng(0).normal(size=(30, 4)) * 3
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    rule = "Energy.score: logits must be what goes into the softmax, got log-prob"
    for dtype in (np.float64, np.float32, np.float16):
        outputs = Outputs(logits=log_p.astype(dtype), labels=np.zeros(30, int))
        for use in (Energy().fit().known, Energy().fit(outputs).score):
            with pytest.raises(ValueError, match=rule):
                use(outputs)
        assert np.ptp(Energy(temperature=2).fit().known(outputs)) > 0.1
        parts = [Energy().fit(outputs), MSP().fit(outputs)]
        both = combine(parts, reference=[[0.0, 1.0]] * 2)
        with pytest.raises(ValueError, match=rule):
            both.known(outputs)
    assert Energy().fit().known(Outputs(logits=log_p[:7])).size == 7  # too few to tell
    one_is_not = np.vstack([log_p, logits[:1]])
    assert Energy().fit().known(Outputs(logits=one_is_not)).size == 31
