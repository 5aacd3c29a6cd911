"""PI-SVM and W-SVM: scikit-learn machines as arrays, Weibull laws of their scores."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.svm import SVC, OneClassSVM

from openset import Outputs
from openset.detectors import PISVM, WSVM
from openset.detectors.svm import _tail_size  # the rule is not seen from outside
from tests.detectors.data import blobs

TRAIN, NEW = blobs(90, 0, apart=2.5), blobs(40, 1, apart=2.5)


GAMMA, TAIL = 0.2, 12


def sklearn_scores(new):
    """One column per class: one-vs-rest machines, then one-class machines."""
    columns = []
    for c in range(3):
        machine = SVC(gamma=GAMMA, tol=1e-6).fit(TRAIN.features, TRAIN.labels == c)
        columns.append(machine.decision_function(new.features))
    for c in range(3):
        machine = OneClassSVM(nu=0.5, gamma=GAMMA, tol=1e-6)
        machine.fit(TRAIN.features[TRAIN.labels == c])
        columns.append(machine.decision_function(new.features))
    return np.stack(columns, axis=1)


LEARNT, SCORES = sklearn_scores(TRAIN), sklearn_scores(NEW)


def slow_tail(values):
    """Weibull law of the smallest values, the least of them at 1."""
    tail = np.sort(values)[:TAIL]
    shape, _, scale = stats.weibull_min.fit(tail - tail[0] + 1, floc=0)
    return lambda f: stats.weibull_min.cdf(f - tail[0] + 1, shape, scale=scale)


def test_pisvm_is_a_weibull_law_of_the_lowest_own_scores():
    fitted = PISVM(gamma=GAMMA, tail=TAIL).fit(TRAIN)
    laws = [slow_tail(LEARNT[TRAIN.labels == c, c]) for c in range(3)]
    best = np.max([laws[c](SCORES[:, c]) for c in range(3)], axis=0)
    assert_allclose(fitted.probability(NEW), best, atol=1e-3)
    assert_allclose(-np.expm1(-np.exp(fitted.known(NEW))), best, atol=1e-3)


def test_wsvm_is_a_gated_product_of_two_laws():
    fitted = WSVM(gamma=GAMMA, tail=TAIL, gate=0.3).fit(TRAIN)
    table = np.empty((len(NEW), 3))
    for c in range(3):
        is_own = TRAIN.labels == c
        own = slow_tail(LEARNT[is_own, c])
        others = slow_tail(-LEARNT[~is_own, c])
        alone = slow_tail(LEARNT[is_own, 3 + c])
        product = own(SCORES[:, c]) * (1 - others(-SCORES[:, c]))
        table[:, c] = np.where(alone(SCORES[:, 3 + c]) > 0.3, product, 0)
    best = table.max(axis=1)
    assert (best == 0).any()  # the gate was at work
    assert_allclose(fitted.probability(NEW), best, atol=2e-3)
    known, predicted = fitted.known(NEW), fitted.score(NEW).predicted
    assert_allclose(1 / (1 + np.exp(-known)), best, atol=2e-3)
    assert_array_equal(known == -math.inf, best == 0)
    expected = np.where(best > 0, table.argmax(axis=1), SCORES[:, :3].argmax(axis=1))
    assert_array_equal(predicted, expected)


def test_a_gate_of_nought_is_shut_for_a_probability_of_nought():
    new = Outputs(features=[[80.0, 80.0]], labels=[-1])
    fitted = WSVM(gate=0.0, translate=0.1).fit(TRAIN)
    loc = fitted.state["gate"][2]
    # So far away all kernels are 0: what is left of a decision is its intercept.
    own, alone = np.split(fitted.state["intercept"], 2)
    assert (alone < loc).all()
    assert (own > fitted.state["inclusion"][2]).any()  # the gate alone shuts it out
    assert fitted.known(new).tolist() == [-math.inf]


@pytest.mark.parametrize("detector", [PISVM(), WSVM()])
@pytest.mark.parametrize("far", [np.inf, -np.inf])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_infinite_features_are_unknown_not_at_home(detector, far):
    new = Outputs(features=[[far, 0.0], [0.0, far]], labels=[-1, -1])
    assert detector.fit(TRAIN).known(new).tolist() == [-math.inf, -math.inf]


def test_tail_sizes_follow_the_released_rule():
    assert _tail_size(None, 10, 100) == 15
    assert _tail_size(None, 10, 15) == 10  # not all samples
    assert _tail_size(None, 2, 100) == 2  # three are too few to grow from
    assert _tail_size(None, 3, 100) == 4
    assert _tail_size(None, 40, 100, 4) == 15
    assert _tail_size(None, 42, 15, 4) == 10
    assert _tail_size(None, 8, 100, 4) == 8
    assert _tail_size(7, 10, 100) == _tail_size(7, 40, 100, 4) == 7
