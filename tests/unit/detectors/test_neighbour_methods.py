"""KNN and NNGuide against full sorts, scikit-learn and pytorch-ood."""

import re
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.neighbors import NearestNeighbors

from openset import MissingExtraError, Outputs, _xp
from openset.detectors import KNN, NNGuide, _neighbours
from openset.detectors._batch import Batch
from openset.testing import example_outputs as split
from openset.testing import in_library
from tests.extras import torch


def unit(features):
    return features / np.linalg.norm(features, axis=1, keepdims=True)


@pytest.mark.parametrize("k", [1, 7, 60])
def test_knn_is_the_kth_distance_of_scikit_learn(k):
    train, test = split(60), split(25, seed=3, unknown=0.3)
    search = NearestNeighbors(algorithm="brute").fit(unit(train.features))
    distances, _ = search.kneighbors(unit(test.features), n_neighbors=k)
    actual = KNN(k=k).fit(train).score(test).known
    assert_allclose(actual, -distances[:, -1], rtol=1e-7)


def test_knn_agrees_with_pytorch_ood(pytorch_ood):
    train, test = split(80), split(25, seed=3, unknown=0.3)
    other = pytorch_ood.KNN(None, k=50)
    other.fit_features(
        torch.tensor(np.array(train.features)), torch.tensor(np.array(train.labels))
    )
    theirs = other.predict_features(torch.tensor(np.array(test.features)))
    assert_allclose(KNN().fit(train).score(test).known, -theirs, rtol=1e-6)


def test_knn_of_a_training_sample_with_k_1_is_zero():
    train = split(20)
    assert_allclose(KNN(k=1).fit(train).score(train).known, 0, atol=1e-7)


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


def test_nnguide_agrees_with_pytorch_ood(pytorch_ood):
    train, test = split(60), split(25, seed=3, unknown=0.3)
    weight, bias = (
        torch.tensor(np.array(a)).float() for a in (train.weight, train.bias)
    )
    other = pytorch_ood.NNGuide(None, lambda z: z @ weight.T + bias, k=10)
    features, labels = (
        torch.tensor(np.array(a)) for a in (train.features, train.labels)
    )
    other.fit_features(features.float(), labels)
    theirs = other.predict_features(torch.tensor(np.array(test.features)).float())
    assert_allclose(NNGuide().fit(train).score(test).known, -theirs, rtol=1e-4)


def test_nnguide_warns_of_negative_energies():
    outputs = split(20)
    negative = Outputs(logits=outputs.logits - 50, features=outputs.features)
    with pytest.warns(
        UserWarning, match="energies should be positive, got 20 in the"
    ) as w:
        NNGuide().fit(negative)
    assert w[0].filename == __file__  # it points at the call of fit


def test_nnguide_warns_of_an_energy_of_nought_and_not_of_small_ones():
    zero = Outputs(logits=[[0.0], [0.5]], features=[[1.0], [2.0]])  # one class
    with pytest.warns(UserWarning, match="should be positive, got 1 in the bank"):
        NNGuide(k=1).fit(zero)
    NNGuide(k=1).fit(zero.take(slice(1, 2)))  # a warning would be an error


@pytest.mark.parametrize("kind", [KNN, NNGuide])
@pytest.mark.parametrize(
    ("bank", "size"), [(0.25, 15), (20, 20), (1.0, 60), (None, 60)]
)
def test_the_bank_is_a_seeded_part_of_the_training_samples(kind, bank, size):
    train = split(60)
    fits = [kind(k=3, bank=bank, seed=s).fit(train).state["bank"] for s in (5, 5, 6)]
    whole = kind(k=3).fit(train).state["bank"]
    assert fits[0].shape == (size, 32)
    assert_array_equal(fits[0], fits[1])
    assert np.array_equal(fits[0], fits[2]) == (size == 60)
    assert all((row == whole).all(axis=1).any() for row in fits[0])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"k": 61}, "k must be at most 60, the size of the bank, got 61"),
        ({"bank": 61}, "bank must be at most 60, the number of training samples, got"),
        ({"k": 5, "bank": 0.01}, "k must be at most 1, the size of the bank, got 5"),
        ({"k": 0}, "k must be an integer >= 1, got 0"),
        ({"bank": 0.0}, r"bank must be a number in \(0, 1\], got 0.0"),
        ({"bank": True}, "bank must be an integer >= 1, got True"),
        ({"backend": "annoy"}, "backend must be one of 'matmul', 'faiss', got 'annoy'"),
    ],
)
@pytest.mark.parametrize("kind", [KNN, NNGuide])
def test_impossible_banks_are_refused(kind, params, message):
    with pytest.raises(ValueError, match=message):
        kind(**params).fit(split(60))


def random_unit(rng, shape):
    return unit(rng.normal(size=shape))


@pytest.mark.parametrize("k", [1, 3, 20, 200])
def test_the_search_is_exact_however_it_is_cut_up(k, xp, rng, monkeypatch):
    queries, bank = random_unit(rng, (33, 8)), random_unit(rng, (501, 8))
    expected = np.sort(queries @ bank.T, axis=1)[:, -k:]
    # One block of the bank, two, or many.
    cuts = (1024, 1 << 28, 1 << 19), (1024, 1 << 17, 1 << 19), (5, 1 << 13, 1 << 10)
    for rows, size, cache in cuts:
        monkeypatch.setattr(_neighbours, "_QUERY_ROWS", rows)
        monkeypatch.setattr(_neighbours, "_PRODUCT_BYTES_CPU", size)
        monkeypatch.setattr(_neighbours, "_SELECT_BYTES", cache)
        found = _neighbours.top_products(xp.asarray(queries), xp.asarray(bank), k)
        assert_allclose(np.sort(_xp.to_numpy(found), axis=1), expected, atol=1e-12)


def test_products_are_made_block_by_block(rng, monkeypatch):
    monkeypatch.setattr(_neighbours, "_QUERY_ROWS", 5)
    monkeypatch.setattr(_neighbours, "_PRODUCT_BYTES_CPU", 1 << 13)  # of 1024 numbers
    shapes, make = [], _neighbours._product

    def noted(queries, block, scratch):
        shapes.append((queries.shape[0], block.shape[0]))
        return make(queries, block, scratch)

    monkeypatch.setattr(_neighbours, "_product", noted)
    queries, bank = random_unit(rng, (33, 8)), random_unit(rng, (501, 8))
    _neighbours.top_products(queries, bank, 3)
    assert shapes == [(5, 167)] * 18 + [(3, 167)] * 3
    shapes.clear()
    _neighbours.top_products(queries, bank, 400)  # a block has as many as are kept
    assert shapes == [(5, 251), (5, 250)] * 6 + [(3, 251), (3, 250)]


def test_only_maxima_of_groups_and_few_products_are_sorted(rng, monkeypatch):
    widths, sort = [], _xp.top_values

    def noted(values, k):
        widths.append(values.shape[1])
        return sort(values, k)

    monkeypatch.setattr(_xp, "top_values", noted)
    _neighbours.top_products(random_unit(rng, (33, 8)), random_unit(rng, (501, 8)), 3)
    n_groups, n_left = widths
    assert n_groups == 501 // 12
    assert 3 < n_left < 40


@pytest.mark.parametrize(("k", "depth"), [(1, 20), (5, 9), (40, 3)])
def test_the_best_groups_hold_the_largest_products(k, depth, rng):
    products = np.round(rng.normal(size=(7, 401)), 1)  # with ties
    found = _neighbours._in_best_groups(torch.tensor(products), k, depth)
    expected = np.sort(products, axis=1)[:, -k:]
    assert_array_equal(np.sort(found.numpy(), axis=1), expected)


def test_the_search_is_exact_when_products_tie(xp):
    queries = np.ones((3, 2))
    bank = np.repeat([[1.0, 1.0], [0.0, 0.0], [1.0, 0.0]], 40, axis=0)
    found = _neighbours.top_products(xp.asarray(queries), xp.asarray(bank), 50)
    found = np.sort(_xp.to_numpy(found), axis=1)
    assert_array_equal(found, np.repeat([[1.0] * 10 + [2.0] * 40], 3, axis=0))


def test_no_queries_find_nothing(xp, rng):
    queries, bank = np.empty((0, 8)), random_unit(rng, (50, 8))
    found = _neighbours.top_products(xp.asarray(queries), xp.asarray(bank), 5)
    assert found.shape == (0, 5)
    assert found.dtype == xp.asarray(queries).dtype


def test_nan_products_are_not_lost_in_the_search(rng):
    queries, bank = random_unit(rng, (4, 8)), random_unit(rng, (500, 8))
    queries[2] = np.nan
    found = _neighbours.top_products(queries, bank, 5)
    assert np.isnan(found).any(axis=1).tolist() == [False, False, True, False]


@pytest.fixture
def faiss(monkeypatch):
    """Return faiss; a list `built` on it notes what it builds."""
    library = pytest.importorskip("faiss", reason="the extra faiss")
    built, build = [], library.index_factory

    def index_factory(*arguments):
        built.append(arguments)
        return build(*arguments)

    monkeypatch.setattr(library, "built", built, raising=False)
    monkeypatch.setattr(library, "index_factory", index_factory)
    return library


@pytest.mark.parametrize("kind", [KNN, NNGuide])
def test_an_exact_index_finds_what_the_matrix_product_finds(kind, faiss, xp):
    train, test = in_library(split(60), xp), in_library(split(25, seed=3), xp)
    expected = kind(k=5).fit(train).score(test).known
    fitted = kind(k=5, backend="faiss", index="Flat").fit(train)
    assert_allclose(fitted.score(test, batch_size=4).known, expected, rtol=1e-5)
    fitted.score(test)
    # Once for the fit, not once for every batch or call.
    assert faiss.built == [(32, "Flat", faiss.METRIC_INNER_PRODUCT)]


@pytest.mark.parametrize("index", ["HNSW32", "IVF4,Flat"])  # the second is trained
@pytest.mark.parametrize("kind", [KNN, NNGuide])
def test_an_approximate_index_finds_no_neighbour_that_is_too_near(kind, index, faiss):
    train, test = split(400), split(200, seed=3, unknown=0.3)
    exact = kind(k=5).fit(train).score(test).known
    found = kind(k=5, backend="faiss", index=index).fit(train).score(test).known
    assert (found <= exact + 1e-3).all()
    assert np.mean(np.isclose(found, exact, rtol=1e-3)) > 0.5  # most are the nearest


def test_an_index_that_finds_too_few_neighbours_is_an_error(faiss):
    train = split(400)
    # It searches one of ten cells, which hold 40 samples on average.
    detector = KNN(k=200, backend="faiss", index="IVF10,Flat")
    with pytest.raises(ValueError, match=r"KNN\.score: faiss must find 200 neighbours"):
        detector.fit(train).score(train)


def test_without_faiss_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    train = split(60)
    with pytest.raises(MissingExtraError, match=r'pip install "openset\[faiss\]"'):
        KNN(backend="faiss").fit(train).score(train)


@pytest.mark.parametrize("kind", [KNN, NNGuide])
@pytest.mark.parametrize("seed", [-1, None, "a"])
def test_a_seed_that_is_none_is_refused_at_once(kind, seed):
    with pytest.raises(ValueError, match="seed must be an integer >= 0"):
        kind(seed=seed)


def scaled(outputs, factor):
    return Outputs(
        logits=outputs.logits * factor,
        features=outputs.features * factor,
        labels=outputs.labels,
    )


@pytest.mark.parametrize("factor", [1e160, 1e300])
def test_directions_of_features_whose_squares_overflow_are_those_of_small_ones(factor):
    train, test = split(60), split(25, seed=3, unknown=0.3)
    expected = KNN(k=3).fit(train).known(test)
    found = KNN(k=3).fit(scaled(train, factor)).known(scaled(test, factor))
    assert_allclose(found, expected, rtol=1e-7)
    # A score does not depend on the other samples, but for the last digits: matrix
    # products of more rows may be summed in another order.
    mixed = Outputs.concat([test, scaled(test, factor)])
    assert_array_equal(Batch(mixed).unit_features[:25], Batch(test).unit_features)
    assert_allclose(KNN(k=3).fit(train).known(mixed)[:25], expected, rtol=1e-12)


def test_energies_whose_product_overflows_are_refused():
    train, test = split(60), split(25, seed=3, unknown=0.3)
    assert NNGuide(k=3).fit(scaled(train, 1e150)).known(scaled(test, 1e150)).any()
    fitted = NNGuide(k=3).fit(scaled(train, 1e200))
    with pytest.raises(
        ValueError, match=r"NNGuide\.score: logits must be small enough"
    ):
        fitted.known(scaled(test, 1e200))
    some = Outputs.concat([test, scaled(test, 1e180), scaled(test, 1e200)])
    largest = logsumexp(some.logits, axis=1).max()
    with pytest.raises(ValueError, match=re.escape(f"an energy of {largest:.3g}")):
        fitted.known(some)
