"""Neighbour methods against full sorts, scikit-learn and pytorch-ood."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp, softmax
from sklearn.neighbors import NearestNeighbors

from openset import InvalidSamplesError, Outputs
from openset.detectors import KNN, NNO, OSNN, NNGuide, Relation
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


def test_an_index_that_finds_too_few_neighbours_is_an_error(faiss):
    train = split(400)
    # It searches one of ten cells, which hold 40 samples on average.
    detector = KNN(k=200, backend="faiss", index="IVF10,Flat")
    with pytest.raises(ValueError, match=r"KNN: result must be free of NaN"):
        detector.fit(train).score(train)


def blobs(n, seed, n_classes=4, d=3):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    centres = np.random.default_rng(99).normal(0, 4, (n_classes, d))
    return Outputs(features=centres[labels] + rng.normal(size=(n, d)), labels=labels)


TRAIN, NEW = blobs(150, 0), blobs(60, 1)


def slow(train, new):
    known, predicted = [], []
    for x in new.features:
        distances = np.sqrt(((train.features - x) ** 2).sum(axis=1))
        t = distances.argmin()
        far = distances[train.labels != train.labels[t]].min()
        known.append(-1.0 if far == 0 else -distances[t] / far)
        predicted.append(train.labels[t])
    return np.array(known), np.array(predicted)


@pytest.mark.parametrize("block", [64, 1 << 20])
def test_scores_and_classes_are_those_of_a_brute_force_search(block, monkeypatch):
    monkeypatch.setattr("openset.detectors.distances._BLOCK", block)  # many, or one
    scores = OSNN().fit(TRAIN).score(NEW)
    known, predicted = slow(TRAIN, NEW)
    np.testing.assert_allclose(scores.known, known)
    np.testing.assert_array_equal(scores.predicted, predicted)


def test_two_classes_that_rounding_puts_in_the_wrong_order_are_exchanged():
    # Far from the centre a squared distance has an error of 0.1 in float32.
    features = np.float32([[1000, 0.125], [1000, -0.125], [-1000, 0], [-1000, 0]])
    train = Outputs(features=features, labels=[0, 1, 0, 1])
    rows = [[1000, u] for u in np.linspace(-0.1, 0.1, 41)]
    new = Outputs(features=np.float32(rows), labels=np.zeros(41, int))
    scores = OSNN().fit(train).score(new)
    known, predicted = slow(train, new)
    np.testing.assert_allclose(scores.known, known, rtol=1e-6)
    np.testing.assert_array_equal(scores.predicted, predicted)


def test_a_training_sample_has_ratio_zero_and_a_disputed_place_one():
    far_away = 1e6  # where the matrix product alone has no digits left
    features = np.array([[0.0], [1.0], [1.0], [5.0]]) + far_away
    train = Outputs(features=features, labels=[0, 0, 1, 1])
    new = Outputs(features=np.array([[0.0], [1.0]]) + far_away)
    np.testing.assert_array_equal(OSNN().fit(train).known(new), [0, -1])


MEANS = np.stack([TRAIN.features[TRAIN.labels == c].mean(axis=0) for c in range(4)])


def slow_distances(rows):
    return np.array([[np.linalg.norm(x - mean) for mean in MEANS] for x in rows])


def test_scores_and_classes_are_those_of_the_definition():
    scores = NNO(tau=2.5).fit(TRAIN).score(NEW)
    distances = slow_distances(NEW.features)
    assert_allclose(scores.known, 1 - distances.min(axis=1) / 2.5)
    assert_array_equal(scores.predicted, distances.argmin(axis=1))


def test_the_radius_is_a_quantile_of_the_training_distances():
    fitted = NNO(quantile=0.9).fit(TRAIN)
    own = slow_distances(TRAIN.features)[np.arange(150), TRAIN.labels]
    assert float(fitted.state["tau"]) == pytest.approx(np.quantile(own, 0.9))
    assert np.mean(fitted.known(TRAIN) >= 0) >= 0.9
    small = Outputs(features=TRAIN.features / 100, labels=TRAIN.labels)
    tau = float(NNO(quantile=0.9).fit(small).state["tau"])
    assert tau == pytest.approx(np.quantile(own, 0.9) / 100)


def test_samples_without_spread_need_a_radius():
    train = Outputs(features=[[1.0], [1.0], [4.0]], labels=[0, 0, 1])
    with pytest.raises(ValueError, match=r"features must be spread .* Give tau"):
        NNO().fit(train)
    np.testing.assert_array_equal(NNO(tau=3.0).fit(train).known(train), [1, 1, 1])


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
