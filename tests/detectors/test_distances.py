"""OSNN, NNO and EVM against slow searches, Weibull laws and set covers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from openset import Outputs
from openset.detectors import EVM, NNO, OSNN
from tests.detectors.data import blobs

TRAIN, NEW = blobs(150, 0, n_classes=4, d=3), blobs(60, 1, n_classes=4, d=3)
FEW, OTHERS = blobs(60, 0), blobs(30, 1)


def slow(train, new):
    known, predicted = [], []
    for x in new.features:
        distances = np.sqrt(((train.features - x) ** 2).sum(axis=1))
        t = distances.argmin()
        far = distances[train.labels != train.labels[t]].min()
        known.append(-1.0 if far == 0 else -distances[t] / far)
        predicted.append(train.labels[t])
    return np.array(known), np.array(predicted)


def test_scores_and_classes_are_those_of_a_brute_force_search():
    scores = OSNN().fit(TRAIN).score(NEW)
    known, predicted = slow(TRAIN, NEW)
    assert_allclose(scores.known, known)
    assert_array_equal(scores.predicted, predicted)


def test_two_classes_that_rounding_puts_in_the_wrong_order_are_exchanged():
    # Far from the centre a squared distance has an error of 0.1 in float32.
    features = np.float32([[1000, 0.125], [1000, -0.125], [-1000, 0], [-1000, 0]])
    train = Outputs(features=features, labels=[0, 1, 0, 1])
    rows = [[1000, u] for u in np.linspace(-0.1, 0.1, 41)]
    new = Outputs(features=np.float32(rows), labels=np.zeros(41, int))
    scores = OSNN().fit(train).score(new)
    known, predicted = slow(train, new)
    assert_allclose(scores.known, known, rtol=1e-6)
    assert_array_equal(scores.predicted, predicted)


def test_a_training_sample_has_ratio_zero_and_a_disputed_place_one():
    far_away = 1e6  # where the matrix product alone has no digits left
    features = np.array([[0.0], [1.0], [1.0], [5.0]]) + far_away
    train = Outputs(features=features, labels=[0, 0, 1, 1])
    new = Outputs(features=np.array([[0.0], [1.0]]) + far_away)
    assert_array_equal(OSNN().fit(train).known(new), [0, -1])


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
    assert_array_equal(NNO(tau=3.0).fit(train).known(train), [1, 1, 1])


def slow_laws(train, tail, margin):
    """One training sample at a time, SciPy's Weibull fit."""
    laws = []
    for x, label in zip(train.features, train.labels, strict=True):
        others = train.features[train.labels != label]
        near = np.sort(np.linalg.norm(others - x, axis=1))[:tail]
        shape, _, scale = stats.weibull_min.fit(margin * near, floc=0)
        laws.append((x, label, shape, scale))
    return laws


def slow_psi(laws, x):
    return np.array(
        [np.exp(-((np.linalg.norm(x - c) / s) ** k)) for c, _, k, s in laws]
    )


def slow_extreme(laws, cover):
    """Greedy set cover with sets, class by class."""
    chosen = []
    for label in sorted({law[1] for law in laws}):
        own = [i for i, law in enumerate(laws) if law[1] == label]
        covered = {
            i: {j for j in own if slow_psi([laws[i]], laws[j][0])[0] >= cover}
            for i in own
        }
        radius = {i: laws[i][3] * (-np.log(cover)) ** (1 / laws[i][2]) for i in own}
        left = set(own)
        while left:
            best = max(own, key=lambda i: (len(covered[i] & left), radius[i]))
            chosen.append(best)
            left -= covered[best]
    return chosen


@pytest.mark.parametrize("block", [64, 1 << 20])
@pytest.mark.parametrize(("tail", "cover"), [(10, 0.5), (75, 0.9), (75, 1.0)])
def test_probabilities_are_those_of_the_definition(tail, cover, block, monkeypatch):
    monkeypatch.setattr("openset.detectors.distances._BLOCK", block)  # many, or one
    fitted = EVM(tail=tail, cover=cover).fit(FEW)
    laws = slow_laws(FEW, tail, 0.5)
    extreme = [laws[i] for i in slow_extreme(laws, cover)]
    vectors = fitted.state["vectors"] + fitted.state["centre"]
    assert_allclose(vectors, np.stack([law[0] for law in extreme]))
    psi = np.stack([slow_psi(extreme, x) for x in OTHERS.features])
    assert_allclose(fitted.probability(OTHERS), psi.max(axis=1), atol=1e-3)
    known = fitted.known(OTHERS)
    assert_allclose(np.exp(-np.exp(-known)), psi.max(axis=1), atol=1e-3)
    clear = psi.max(axis=1) > 0.01
    predicted = fitted.score(OTHERS).predicted
    expected = np.array([extreme[i][1] for i in psi.argmax(axis=1)])
    assert_array_equal(predicted[clear], expected[clear])


def test_every_training_sample_is_covered():
    fitted = EVM(cover=0.7).fit(FEW)
    assert fitted.state["vectors"].shape[0] < len(FEW)
    assert fitted.probability(FEW).min() >= 0.7 - 1e-9
    everyone = EVM(cover=1.0).fit(FEW)
    assert everyone.state["vectors"].shape[0] == len(FEW)


def test_samples_of_two_classes_in_one_place_are_no_extreme_vectors():
    features = np.array([[0.0], [5.0], [5.0], [9.0]]) + 1e6
    fitted = EVM().fit(Outputs(features=features, labels=[0, 0, 1, 1]))
    vectors = fitted.state["vectors"] + fitted.state["centre"]
    assert sorted(vectors[:, 0]) == [1e6, 1e6 + 9]
    constant = Outputs(features=np.ones((4, 2)), labels=[0, 0, 1, 1])
    with pytest.raises(ValueError, match=r"EVM.fit: features must be different"):
        EVM().fit(constant)
