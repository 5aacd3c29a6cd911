"""PI-SVM and W-SVM: scikit-learn's machines as arrays, Weibull laws of their scores."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.svm import SVC, OneClassSVM

from openset import Outputs
from openset.detectors import PISVM, WSVM, Batch, Fitted, _distances
from openset.detectors._svm import (
    decisions,
    fit_tails,
    log_cdf,
    negative_tail,
    positive_tail,
)
from tests.extras import array_api_strict, torch


def blobs(n, seed, n_classes=3, d=2):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    centres = np.random.default_rng(9).normal(0, 2.5, (n_classes, d))
    return Outputs(features=centres[labels] + rng.normal(size=(n, d)), labels=labels)


TRAIN, NEW = blobs(90, 0), blobs(40, 1)
FAR = Outputs(features=[[80.0, 80.0], [-90.0, 10.0]], labels=[-1, -1])


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


@pytest.mark.parametrize("block", [64, 1 << 20])
def test_decision_values_are_scikit_learns(block, monkeypatch):
    monkeypatch.setattr(_distances, "_BLOCK", block)  # many blocks, or one
    fitted = WSVM(cost=3.0, gamma=0.2, nu=0.3).fit(TRAIN)
    expected = sklearn_scores(TRAIN, NEW, cost=3.0, gamma=0.2, nu=0.3)
    found = decisions(fitted.state, Batch(NEW))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    fitted = PISVM(cost=3.0, gamma=0.2).fit(TRAIN)
    found = decisions(fitted.state, Batch(NEW))
    np.testing.assert_allclose(found, expected[:, :3], atol=1e-6)


def test_gamma_is_one_over_the_variance_of_the_features():
    fitted = PISVM().fit(TRAIN)
    expected = 1 / TRAIN.features.var(axis=0).sum()
    assert float(fitted.state["gamma"]) == pytest.approx(expected)
    small = Outputs(features=TRAIN.features / 100, labels=TRAIN.labels)
    fitted = PISVM().fit(small)
    assert float(fitted.state["gamma"]) == pytest.approx(1e4 * expected)


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
    alone = decisions(fitted.state, Batch(new))[:, 3:]
    assert (alone < loc).all()
    own = decisions(fitted.state, Batch(new))[:, :3]
    assert (own > fitted.state["inclusion"][2]).any()  # the gate alone shuts it out
    assert fitted.known(new).tolist() == [-math.inf]


def test_tails_are_as_long_as_the_support_vectors_of_their_side_say():
    labels = np.repeat([0, 1, 2], [40, 25, 15])
    rng = np.random.default_rng(3)
    features = 1.5 * np.eye(3)[labels] + rng.normal(size=(80, 3))
    train = Outputs(features=features, labels=labels)
    scores = sklearn_scores(train, train, cost=1.0, gamma=0.2, nu=0.5)
    tails = {"inclusion": [], "exclusion": [], "gate": []}
    for c in range(3):
        is_own = labels == c
        support = SVC(gamma=0.2, tol=1e-6).fit(features, is_own).support_
        n_own, n_others = is_own[support].sum(), (~is_own)[support].sum()
        alone = OneClassSVM(nu=0.5, gamma=0.2, tol=1e-6).fit(features[is_own])
        n_alone, n = alone.support_.size, is_own.sum()
        own, others, gate = scores[is_own, c], scores[~is_own, c], scores[is_own, 3 + c]
        tails["inclusion"].append((own, positive_tail(None, n_own, n)))
        tails["exclusion"].append((others, negative_tail(None, n_others, 80 - n, 2)))
        tails["gate"].append((gate, positive_tail(None, n_alone, n)))
    fitted = WSVM(gamma=0.2).fit(train)
    for name, pairs in tails.items():
        sign = -1 if name == "exclusion" else 1
        values, sizes = zip(*pairs, strict=True)
        laws = fit_tails(values, sizes, translate=1.0, sign=sign)
        found = fitted.state[name]
        np.testing.assert_allclose(found, laws.arrays(name)[name], rtol=1e-3)
    found = PISVM(gamma=0.2).fit(train).state["inclusion"]
    np.testing.assert_allclose(found, fitted.state["inclusion"], rtol=1e-9)


@pytest.mark.parametrize("detector", [PISVM(), WSVM()])
def test_far_samples_are_less_known_and_classes_are_found(detector):
    fitted = detector.fit(TRAIN)
    assert fitted.known(FAR).max() < np.quantile(fitted.known(NEW), 0.2)
    assert np.mean(fitted.score(NEW).predicted == NEW.labels) > 0.85


@pytest.mark.parametrize("detector", [PISVM(), WSVM()])
def test_fits_are_repeatable_and_survive_saving(detector, tmp_path):
    fitted = detector.fit(TRAIN)
    again = Fitted.load(detector.fit(TRAIN).save(tmp_path / "svm.npz"))
    np.testing.assert_array_equal(again.known(NEW), fitted.known(NEW))


@pytest.mark.parametrize("detector", [PISVM(), WSVM()])
@pytest.mark.parametrize("asarray", [torch.asarray, array_api_strict.asarray])
def test_other_libraries_give_the_same_numbers(detector, asarray):
    train, new = (
        Outputs(features=asarray(np.array(o.features)), labels=o.labels)
        for o in (TRAIN, NEW)
    )
    expected, scores = detector.fit(TRAIN).score(NEW), detector.fit(train).score(new)
    np.testing.assert_allclose(scores.known, expected.known, rtol=1e-8)
    np.testing.assert_array_equal(scores.predicted, expected.predicted)


@pytest.mark.parametrize("detector", [PISVM(), WSVM()])
def test_moving_all_features_changes_nothing(detector):
    train, new = (
        Outputs(features=o.features + np.array([100.0, -5.0]), labels=o.labels)
        for o in (TRAIN, NEW)
    )
    one, other = detector.fit(TRAIN).known(NEW), detector.fit(train).known(new)
    np.testing.assert_allclose(other, one, rtol=1e-4)


@pytest.mark.parametrize("kind", [PISVM, WSVM])
def test_degenerate_features_have_a_documented_answer(kind):
    with pytest.raises(
        ValueError, match=f"{kind.__name__}.fit: samples must be of at least two"
    ):
        kind().fit(Outputs(features=[[0.0], [1.0]], labels=[0, 0]))
    constant = Outputs(features=np.ones((6, 2)), labels=[0, 0, 0, 1, 1, 1])
    known = kind().fit(constant).known(constant)
    assert np.unique(known).size == 1  # nothing tells these samples apart
    assert float(kind().fit(constant).state["gamma"]) == 1
    two = Outputs(features=[[0.0], [1.0]], labels=[4, 7])
    assert kind().fit(two).score(two).predicted.tolist() == [4, 7]


@pytest.mark.parametrize("kind", [PISVM, WSVM])
@pytest.mark.parametrize(
    "options", [{"cost": 0}, {"gamma": -1.0}, {"tail": 0}, {"translate": 0}]
)
def test_bad_options_are_refused(kind, options):
    name = next(iter(options))
    with pytest.raises(ValueError, match=f"{kind.__name__}: {name} must be"):
        kind(**options)


@pytest.mark.parametrize("options", [{"nu": 0}, {"gate": 1.0}])
def test_bad_options_of_wsvm_are_refused(options):
    with pytest.raises(ValueError, match=f"WSVM: {next(iter(options))} must be"):
        WSVM(**options)


def test_a_tail_on_the_margin_is_not_steeper_than_the_solver_is_precise():
    on_margin = 1 + 1e-9 * np.arange(5)
    laws = fit_tails([on_margin], [5], translate=1.0, sign=1)
    assert laws.shape.tolist() == [1e3]
    assert laws.scale[0] == pytest.approx(1)
    assert laws.loc.tolist() == [0]
    laws = fit_tails([on_margin], [5], translate=0.1, sign=1)
    assert laws.scale[0] == pytest.approx(0.1)


def test_a_tail_of_one_score_is_that_score():
    laws = fit_tails([np.array([3.0, 1.0, 2.0])], [1], translate=0.5, sign=1)
    assert laws.scale[0] == pytest.approx(0.5)
    assert laws.loc.tolist() == [0.5]


def test_tails_of_different_lengths_do_not_change_each_other(rng):
    values, sizes = [rng.normal(size=30), rng.normal(size=9)], [20, 6]
    together = fit_tails(values, sizes, translate=1.0, sign=1).arrays("both")["both"]
    for i in range(2):
        alone = fit_tails(values[i : i + 1], sizes[i : i + 1], translate=1.0, sign=1)
        np.testing.assert_allclose(together[:, [i]], alone.arrays("one")["one"])


def test_tail_sizes_follow_the_released_rule():
    assert positive_tail(None, 10, 100) == 15
    assert positive_tail(None, 10, 15) == 10  # not all samples
    assert positive_tail(None, 2, 100) == 2  # three are too few to grow from
    assert positive_tail(None, 3, 100) == 4
    assert negative_tail(None, 40, 100, 4) == 15
    assert negative_tail(None, 42, 15, 4) == 10
    assert negative_tail(None, 8, 100, 4) == 8
    assert negative_tail(None, 12, 100, 4) == 4
    assert positive_tail(7, 10, 100) == negative_tail(7, 40, 100, 4) == 7


def test_log_cdf_keeps_its_digits_at_both_ends():
    exponents = np.array([-800.0, -30.0, -1.0, 2.0, 10.0, math.inf])
    expected = [-800, -30, math.log(-math.expm1(-math.exp(-1))), -6.18e-4, 0, 0]
    np.testing.assert_allclose(log_cdf(exponents), expected, rtol=1e-3, atol=1e-12)
    assert log_cdf(np.array([-math.inf]))[0] == -math.inf


def test_log_cdf_rises_without_a_step():
    exponents = np.linspace(-45, -7, 500)
    a = np.exp(exponents)
    series = exponents - a / 2 + a**2 / 24  # of log(1 - e^-a)
    np.testing.assert_allclose(log_cdf(exponents), series, rtol=1e-14)


@pytest.mark.parametrize("detector", [PISVM(), WSVM()])
@pytest.mark.parametrize("far", [np.inf, -np.inf])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_infinite_features_are_unknown_not_at_home(detector, far):
    new = Outputs(features=[[far, 0.0], [0.0, far]], labels=[-1, -1])
    assert detector.fit(TRAIN).known(new).tolist() == [-math.inf, -math.inf]
