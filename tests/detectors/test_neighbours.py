"""Neighbour methods against full sorts, scikit-learn and pytorch-ood."""

from unittest.mock import Mock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp, softmax
from sklearn.neighbors import NearestNeighbors

from openset import InvalidSamplesError, Outputs
from openset.detectors import KNN, OSNN, NNGuide, Relation
from openset.outputs import replaced
from openset.testing import example_outputs as split
from openset.testing import in_library


def unit(features):
    return features / np.linalg.norm(features, axis=1, keepdims=True)


@pytest.mark.parametrize("k", [1, 7, 60])
def test_knn_is_the_kth_distance_of_scikit_learn(k):
    train, test = split(60), split(25, seed=3, unknown=0.3)
    search = NearestNeighbors(algorithm="brute").fit(unit(train.features))
    distances, _ = search.kneighbors(unit(test.features), n_neighbors=k)
    actual = KNN(k=k).fit(train).score(test).known
    assert_allclose(actual, -distances[:, -1], rtol=1e-7)


def test_a_zero_vector_counts_as_orthogonal_to_everything():
    train = split(20)
    zero = Outputs(features=np.zeros((1, 32)), logits=np.ones((1, 4)), labels=[-1])
    assert_allclose(KNN(k=5).fit(train).score(zero).known, -np.sqrt(2))
    assert_array_equal(NNGuide(k=5).fit(train).score(zero).known, [0.0])


def test_nnguide_equals_a_full_sort():
    train, test = split(60), split(25, seed=3, unknown=0.3)
    bank = unit(train.features) * logsumexp(train.logits, axis=1)[:, None]
    products = np.sort(unit(test.features) @ bank.T, axis=1)
    expected = logsumexp(test.logits, axis=1) * products[:, -10:].mean(axis=1)
    assert_allclose(NNGuide().fit(train).score(test).known, expected)


@pytest.mark.parametrize("kind", [KNN, NNGuide])
def test_an_exact_index_finds_what_the_matrix_product_finds(kind, xp, monkeypatch):
    faiss = pytest.importorskip("faiss", reason="the extra faiss")
    build = Mock(wraps=faiss.index_factory)
    monkeypatch.setattr(faiss, "index_factory", build)
    train, test = in_library(split(60), xp), in_library(split(25, seed=3), xp)
    expected = kind(k=5).fit(train).score(test).known
    fitted = kind(k=5, backend="faiss", index="Flat").fit(train)
    assert_allclose(fitted.score(test, batch_size=4).known, expected, rtol=1e-5)
    fitted.score(test)
    # Once for the fit, not once for every batch or call.
    build.assert_called_once_with(32, "Flat", faiss.METRIC_INNER_PRODUCT)


def test_an_index_that_finds_too_few_neighbours_is_an_error():
    pytest.importorskip("faiss", reason="the extra faiss")
    train = split(400)
    # It searches one of ten cells, which hold 40 samples on average.
    detector = KNN(k=200, backend="faiss", index="IVF10,Flat")
    with pytest.raises(ValueError, match=r"KNN: result must be free of NaN"):
        detector.fit(train).score(train)


@pytest.mark.parametrize(("power", "cut"), [(1.0, 0.03), (2.0, 0.1), (0.5, 0.0)])
def test_relation_equals_a_loop_over_pairs(power, cut):
    train, test = split(80, seed=1), split(30, seed=2, unknown=0.4)
    p, q = softmax(test.logits, axis=1), softmax(train.logits, axis=1)
    signed = test.features - 0.7  # cosines of both signs
    relations = np.maximum(unit(signed) @ unit(train.features).T, 0) * (p @ q.T)
    expected = np.where(relations > cut, relations**power, 0).mean(axis=1)
    fitted = Relation(power=power, cut=cut).fit(train)
    assert_allclose(fitted.known(replaced(test, features=signed)), expected)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"k": 61}, "k must be at most 60, the size of the bank, got 61"),
        ({"bank": 61}, "bank must be a number up to 60, .* got 61"),
        ({"bank": 1.5}, "bank must be a number up to 60, .* or a share, got 1.5"),
        ({"k": 5, "bank": 0.01}, "k must be at most 1, the size of the bank, got 5"),
    ],
)
@pytest.mark.parametrize("kind", [KNN, NNGuide])
def test_impossible_banks_are_refused(kind, params, message):
    with pytest.raises(ValueError, match=message):
        kind(**params).fit(split(60))


@pytest.mark.parametrize("kind", [KNN, NNGuide, Relation, OSNN])
def test_a_search_in_blocks_finds_the_same(kind, xp, monkeypatch):
    train, test = in_library(split(200), xp), in_library(split(90, seed=3), xp)
    fitted = kind().fit(train)
    whole = fitted.known(test)
    monkeypatch.setattr("openset.detectors.distances._BLOCK", 1)  # 32 rows at a time
    assert_allclose(fitted.known(test), whole, rtol=1e-12)


def test_what_has_no_direction_is_refused_by_its_row():
    train, features = split(60), np.array(split(25, seed=3).features)
    features[7] *= 1e300
    with np.errstate(over="ignore"), pytest.raises(InvalidSamplesError) as error:
        KNN(k=3).fit(train).known(Outputs(features=features))
    assert error.value.rows == (7,)
