"""PI-SVM and W-SVM: scikit-learn machines as arrays, Weibull laws of their scores."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.svm import SVC, OneClassSVM

from openset import Outputs
from openset.detectors import PISVM, WSVM
from openset.detectors.svm import _tail_size  # the rule is not seen from outside
from tests.detectors.data import blobs

TRAIN, NEW = blobs(90, 0, apart=2.5), blobs(40, 1, apart=2.5)


def sklearn_scores(train, new, *, cost, gamma, nu):
    """One column per class: one-vs-rest machines, then one-class machines."""
    columns = []
    for c in range(3):
        machine = SVC(C=cost, gamma=gamma, tol=1e-6).fit(
            train.features, train.labels == c
        )
        columns.append(machine.decision_function(new.features))
    for c in range(3):
        machine = OneClassSVM(nu=nu, gamma=gamma, tol=1e-6)
        machine.fit(train.features[train.labels == c])
        columns.append(machine.decision_function(new.features))
    return np.stack(columns, axis=1)


def slow_tail(values, size):
    """Weibull law of the smallest values, the least of them at 1."""
    tail = np.sort(values)[:size]
    shape, _, scale = stats.weibull_min.fit(tail - tail[0] + 1, floc=0)
    return lambda f: stats.weibull_min.cdf(f - tail[0] + 1, shape, scale=scale)


def test_pisvm_is_a_weibull_law_of_the_lowest_own_scores():
    fitted = PISVM(gamma=0.2, tail=12).fit(TRAIN)
    options = {"cost": 1.0, "gamma": 0.2, "nu": 0.5}
    train = sklearn_scores(TRAIN, TRAIN, **options)
    new = sklearn_scores(TRAIN, NEW, **options)
    laws = [slow_tail(train[TRAIN.labels == c, c], 12) for c in range(3)]
    table = np.stack([laws[c](new[:, c]) for c in range(3)], axis=1)
    np.testing.assert_allclose(fitted.probability(NEW), table.max(axis=1), atol=1e-3)
    known = fitted.known(NEW)
    cdf = -np.expm1(-np.exp(known))
    np.testing.assert_allclose(cdf, table.max(axis=1), atol=1e-3)


def test_wsvm_is_a_gated_product_of_two_laws():
    fitted = WSVM(gamma=0.2, tail=12, gate=0.3).fit(TRAIN)
    options = {"cost": 1.0, "gamma": 0.2, "nu": 0.5}
    train = sklearn_scores(TRAIN, TRAIN, **options)
    new = sklearn_scores(TRAIN, NEW, **options)
    table = np.empty((len(NEW), 3))
    for c in range(3):
        is_own = TRAIN.labels == c
        own = slow_tail(train[is_own, c], 12)
        others = slow_tail(-train[~is_own, c], 12)
        alone = slow_tail(train[is_own, 3 + c], 12)
        product = own(new[:, c]) * (1 - others(-new[:, c]))
        table[:, c] = np.where(alone(new[:, 3 + c]) > 0.3, product, 0)
    best = table.max(axis=1)
    assert (best == 0).any()  # the gate was at work
    np.testing.assert_allclose(fitted.probability(NEW), best, atol=2e-3)
    known = fitted.known(NEW)
    np.testing.assert_allclose(1 / (1 + np.exp(-known)), best, atol=2e-3)
    np.testing.assert_array_equal(known == -math.inf, best == 0)
    predicted = fitted.score(NEW).predicted
    expected = np.where(best > 0, table.argmax(axis=1), new[:, :3].argmax(axis=1))
    np.testing.assert_array_equal(predicted, expected)


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
