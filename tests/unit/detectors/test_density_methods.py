"""Residual, GMM, PNML and WeiPer against plain formulas, two also with pytorch-ood."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp, softmax
from scipy.stats import multivariate_normal

from openset import Outputs
from openset.detectors import GMM, PNML, Residual, WeiPer
from openset.detectors.gmm import _inverse_factor
from openset.detectors.weiper import _counts, _outer
from openset.outputs import replaced
from openset.testing import example_outputs as split
from tests.extras import torch


@pytest.fixture
def train():
    return split(200, seed=1)


@pytest.fixture
def test():
    return split(30, seed=2, unknown=0.4)


def tensor(array):
    return torch.tensor(np.array(array))


@pytest.mark.parametrize("dim", [1, 5, 31])
def test_residual_equals_a_singular_value_decomposition(train, test, dim):
    origin = -np.linalg.pinv(train.weight) @ train.bias
    directions = np.linalg.svd(train.features - origin)[2][dim:]
    expected = -np.linalg.norm((test.features - origin) @ directions.T, axis=1)
    assert_allclose(Residual(dim=dim).fit(train).known(test), expected)


def test_residual_refuses_a_principal_space_of_all_features(train):
    with pytest.raises(ValueError, match=r"Residual\.fit: dim must be below 32"):
        Residual(dim=32).fit(train)


def mean_variance(train):
    within = [train.features[train.labels == c].var(axis=0).mean() for c in range(4)]
    return np.mean(within)  # classes of equal size


@pytest.mark.parametrize("reg", [1e-3, 0.5])
def test_gmm_is_the_likelihood_of_a_mixture(train, test, reg, pytorch_ood):
    ridge = reg * mean_variance(train)
    parts = []
    for c in range(4):
        rows = train.features[train.labels == c]
        cov = np.cov(rows.T, bias=True) + ridge * np.eye(32)
        law = multivariate_normal(rows.mean(axis=0), cov)
        parts.append(np.log(len(rows) / len(train)) + law.logpdf(test.features))
    fitted = GMM(reg=reg).fit(train)
    actual = fitted.known(test)
    assert_allclose(actual, logsumexp(parts, axis=0))
    other = pytorch_ood.GMM(None, reg=ridge)
    other.fit_features(tensor(train.features), tensor(train.labels))
    assert_allclose(actual, -other.predict_features(tensor(test.features)))
    alone = Outputs(features=test.features, labels=test.labels)
    assert_array_equal(fitted.score(alone).predicted, np.argmax(parts, axis=0))


def test_gmm_takes_classes_of_any_size(train, test):
    order = np.argsort(train.labels, kind="stable")  # 4 classes of equal size
    each = len(train) // 4
    rows = np.concatenate([order[c * each :][: each - 10 * (3 - c)] for c in range(4)])
    grown = train.take(rows)
    assert (np.diff(np.bincount(grown.labels)) > 0).all()
    # Other names of the classes, the largest first: the same mixture.
    turned = replaced(grown, labels=3 - grown.labels)
    assert_allclose(GMM().fit(grown).known(test), GMM().fit(turned).known(test))


def test_gmm_works_with_fewer_samples_than_features(train, test):
    few = train.take(np.arange(40))
    scores = GMM().fit(few).score(test)
    assert np.isfinite(scores.known).all()
    known, unknown = (scores.known[scores.is_unknown == side] for side in (False, True))
    assert known.min() > unknown.max()


def test_gmm_refuses_more_covariances_than_fit_in_memory():
    rows = np.zeros((1100, 1000), dtype=np.float32)
    outputs = Outputs(features=rows, labels=np.arange(1100))
    with pytest.raises(ValueError, match=r"1100 classes of 1000 x 1000\. Use Mahal"):
        GMM().fit(outputs)


def test_gmm_counts_the_numbers_of_all_covariances(train, monkeypatch):
    monkeypatch.setattr("openset.detectors.gmm._MAX_NUMBERS", 4 * 32 * 32)
    GMM().fit(train)
    monkeypatch.setattr("openset.detectors.gmm._MAX_NUMBERS", 4 * 32 * 32 - 1)
    with pytest.raises(ValueError, match=r"at most 4095 numbers .* 4 classes of 32 x"):
        GMM().fit(train)


def test_gmm_takes_a_spread_of_rounding_errors_for_none(rng):
    noise, labels = rng.normal(size=(40, 3)), np.arange(40) % 2
    origin = np.array([0.0, 1000.0, 1000.0])
    for features in (origin + 1e-10 * noise, np.zeros((40, 3))):
        with pytest.raises(ValueError, match=r"GMM\.fit: features must be spread out"):
            GMM().fit(Outputs(features=features, labels=labels))
    small = Outputs(features=origin + 1e-8 * noise, labels=labels)
    assert np.isfinite(GMM().fit(small).known(small)).all()


def test_gmm_adds_up_the_batches_of_a_class(train, test, monkeypatch):
    whole = GMM().fit(train).known(test)
    monkeypatch.setattr("openset.detectors._batch.batch_rows", lambda outputs: 7)
    assert_allclose(GMM().fit(train).known(test), whole)


def test_gmm_refuses_a_covariance_without_a_cholesky_factor():
    with pytest.raises(ValueError, match="positive definite, got singular ones"):
        _inverse_factor(np.array([[1.0, 2.0], [2.0, 1.0]]), 0.0)


def slow_regret(f, train, cutoff=1e-7):
    u = f / np.linalg.norm(f)
    rows = train.features / np.linalg.norm(train.features, axis=1)[:, None]
    inverse = np.linalg.pinv(rows, rcond=np.sqrt(cutoff))
    g = u @ inverse @ inverse.T @ u
    p = softmax(train.weight @ u + train.bias)
    terms = [c / (c + (1 - c) * c ** (g / (1 + g))) for c in p]
    return np.log(sum(terms)) / np.log(len(p))


def test_pnml_equals_the_regret_of_each_sample(train, test, pytorch_ood):
    expected = [-slow_regret(f, train) for f in test.features]
    fitted = PNML().fit(train)
    actual = fitted.known(test)
    assert_allclose(actual, expected)
    weight, bias = tensor(train.weight).float(), tensor(train.bias).float()
    other = pytorch_ood.PNML(None, lambda z: z @ weight.T + bias)
    other.fit_features(tensor(train.features), tensor(train.labels))
    theirs = -other.predict_features(tensor(test.features))
    assert_allclose(actual, theirs, rtol=1e-4)
    alone = Outputs(features=test.features, labels=test.labels)
    predicted = fitted.score(alone).predicted
    assert_array_equal(predicted, test.logits.argmax(axis=1))


def test_pnml_leaves_out_directions_without_training_features(train, test):
    flat = np.array(train.features)
    flat[:, 7] = 0
    narrow = replaced(train, features=flat)
    expected = [-slow_regret(f, narrow) for f in test.features]
    assert_allclose(PNML().fit(narrow).known(test), expected, rtol=1e-6)


@pytest.mark.parametrize("cutoff", [0.003, 0.03])
def test_pnml_leaves_out_directions_below_a_share_of_the_largest(train, test, cutoff):
    rows = train.features / np.linalg.norm(train.features, axis=1)[:, None]
    moments = np.linalg.svd(rows)[1] ** 2
    assert 0 < np.mean(moments <= cutoff * moments[0]) < 1
    expected = [-slow_regret(f, train, cutoff) for f in test.features]
    assert_allclose(PNML(cutoff=cutoff).fit(train).known(test), expected)


def slow_weiper(recipe, fitted, train, test):
    """Bin, smooth and compare number by number, with the fitted perturbations."""
    r, n_classes = recipe.repeats, len(train.bias)
    weight = fitted.state["weight"].astype(float).reshape(r, n_classes, -1)

    def spaces(part):
        logits = np.einsum("rcd,nd->nrc", weight, part.features) + train.bias
        return part.features, logits

    def histogram(values, low, high):
        edges = np.linspace(low, high, recipe.bins + 1)
        return np.histogram(values, edges)[0] / values.size

    def smoothed(h):
        before = (recipe.smooth - 1) // 2
        after = recipe.smooth - 1 - before
        padded = np.pad(h, (before, after), mode="edge")
        return np.convolve(padded, np.ones(recipe.smooth) / recipe.smooth, "valid")

    def scaled(h, more):
        return (h + more) / (h + more).sum()

    total = np.zeros(len(test))
    for one, other, more, factor in zip(
        spaces(train), spaces(test), (0.01, 0.025), (1.0, recipe.weight_logits),
        strict=True,
    ):  # fmt: skip
        gap = (one.max() - one.min()) / len(train)
        low, high = one.min() - gap, one.max() + gap
        mean = np.mean([histogram(row, low, high) for row in one], axis=0)
        q = scaled(mean, more)
        for i, row in enumerate(other):
            p = scaled(smoothed(histogram(row, low, high)), more)
            total[i] -= factor * ((p - q) * np.log(p / q)).sum()
    confidence = softmax(spaces(test)[1], axis=2).max(axis=2).mean(axis=1)
    return total + recipe.weight_msp * confidence


@pytest.mark.parametrize(
    "recipe",
    [
        WeiPer(repeats=7),
        WeiPer(repeats=3, bins=30, smooth=5, weight_logits=2.5, weight_msp=0.1),
    ],
)
def test_weiper_equals_a_loop_over_numbers(recipe, train, test):
    fitted = recipe.fit(train)
    expected = slow_weiper(recipe, fitted, train, test)
    assert_allclose(fitted.known(test), expected)


def test_weiper_perturbs_weights_by_a_share_of_their_length(train):
    weight = WeiPer(repeats=5, delta=0.3).fit(train).state["weight"].reshape(5, 4, 32)
    away = np.linalg.norm(weight - train.weight, axis=2)
    lengths = np.linalg.norm(train.weight, axis=1)
    assert_allclose(away, np.tile(0.3 * lengths, (5, 1)), rtol=1e-5)
    assert len(np.unique(weight[:, 0, 0])) == 5


def test_weiper_perturbs_a_class_alike_whatever_its_number_is():
    weight = np.ones((4, 6)) + np.eye(4, 6)  # any two differ in two columns
    order = np.array([2, 3, 1, 0])
    recipe = WeiPer(repeats=3)
    before, after = (
        recipe._perturbed(one).reshape(3, 4, 6) for one in (weight, weight[order])
    )
    assert_array_equal(after, before[:, order])


def test_weiper_counts_values_outside_of_the_range_nowhere():
    values = np.array([[-100.0, 0.1, 0.6], [0.3, 0.3, 100.0], [-9.0, -0.1, 1.1]])
    found = _counts(values, np.array([0.0, 1.0]), 4)
    assert_array_equal(found, [[1, 0, 1, 0], [0, 2, 0, 0], [0, 0, 0, 0]])


def test_weiper_widens_the_range_by_its_nth_part():
    assert _outer([(0.0, 3.0), (-1.0, 4.0)], 10) == (-1.5, 4.5)
    assert _outer([(2.0, 2.0)], 10) == (1.0, 3.0)


def test_weiper_does_not_depend_on_the_size_of_its_blocks(train, test, monkeypatch):
    whole = WeiPer(repeats=7).fit(train).known(test)
    monkeypatch.setattr("openset.detectors.weiper._BLOCK", 1)
    assert_allclose(WeiPer(repeats=7).fit(train).known(test), whole)


def test_weiper_draws_training_samples_and_predicts_from_features(train, test):
    fits = [WeiPer(repeats=3, max_samples=50, seed=s).fit(train) for s in (0, 0, 1)]
    known = [fitted.known(test) for fitted in fits]
    assert_array_equal(known[0], known[1])
    assert not np.array_equal(known[0], known[2])
    alone = Outputs(features=test.features, labels=test.labels)
    predicted = fits[0].score(alone).predicted
    assert_array_equal(predicted, test.logits.argmax(axis=1))
