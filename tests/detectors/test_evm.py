"""EVM: margins, Weibull laws and set cover against slow ones."""

import numpy as np
import pytest
from scipy import stats

from openset import Outputs
from openset.detectors import EVM


def blobs(n, seed, n_classes=3, d=2):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    centres = np.random.default_rng(9).normal(0, 5, (n_classes, d))
    return Outputs(features=centres[labels] + rng.normal(size=(n, d)), labels=labels)


TRAIN, NEW = blobs(60, 0), blobs(30, 1)


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
    fitted = EVM(tail=tail, cover=cover).fit(TRAIN)
    laws = slow_laws(TRAIN, tail, 0.5)
    extreme = [laws[i] for i in slow_extreme(laws, cover)]
    vectors = fitted.state["vectors"] + fitted.state["centre"]
    np.testing.assert_allclose(vectors, np.stack([law[0] for law in extreme]))
    psi = np.stack([slow_psi(extreme, x) for x in NEW.features])
    np.testing.assert_allclose(fitted.probability(NEW), psi.max(axis=1), atol=1e-3)
    known = fitted.known(NEW)
    np.testing.assert_allclose(np.exp(-np.exp(-known)), psi.max(axis=1), atol=1e-3)
    clear = psi.max(axis=1) > 0.01
    predicted = fitted.score(NEW).predicted
    expected = np.array([extreme[i][1] for i in psi.argmax(axis=1)])
    np.testing.assert_array_equal(predicted[clear], expected[clear])


def test_every_training_sample_is_covered():
    fitted = EVM(cover=0.7).fit(TRAIN)
    assert fitted.state["vectors"].shape[0] < len(TRAIN)
    assert fitted.probability(TRAIN).min() >= 0.7 - 1e-9
    everyone = EVM(cover=1.0).fit(TRAIN)
    assert everyone.state["vectors"].shape[0] == len(TRAIN)


def test_samples_of_two_classes_in_one_place_are_no_extreme_vectors():
    features = np.array([[0.0], [5.0], [5.0], [9.0]]) + 1e6
    fitted = EVM().fit(Outputs(features=features, labels=[0, 0, 1, 1]))
    vectors = fitted.state["vectors"] + fitted.state["centre"]
    assert sorted(vectors[:, 0]) == [1e6, 1e6 + 9]
    constant = Outputs(features=np.ones((4, 2)), labels=[0, 0, 1, 1])
    with pytest.raises(ValueError, match=r"EVM.fit: features must be different"):
        EVM().fit(constant)
