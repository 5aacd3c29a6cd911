"""Residual, ViM and PNML against singular values and slow formulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp, softmax

from openset import Outputs
from openset.detectors import PNML, Residual, ViM
from openset.outputs import replaced
from openset.testing import example_outputs as split

TRAIN, TEST = split(200, seed=1), split(30, seed=2, unknown=0.4)


@pytest.mark.parametrize("dim", [1, 5, 20, 31])
def test_residual_and_vim_equal_a_singular_value_decomposition(dim):
    origin = -np.linalg.pinv(TRAIN.weight) @ TRAIN.bias
    directions = np.linalg.svd(TRAIN.features - origin)[2][dim:]
    learnt, outside = (
        np.linalg.norm((part.features - origin) @ directions.T, axis=1)
        for part in (TRAIN, TEST)
    )
    assert_allclose(Residual(dim=dim).fit(TRAIN).known(TEST), -outside)
    alpha = TRAIN.logits.max(axis=1).mean() / learnt.mean()
    expected = logsumexp(TEST.logits, axis=1) - alpha * outside
    assert_allclose(ViM(dim=dim).fit(TRAIN).score(TEST).known, expected)


def slow_regret(f, train, cutoff=1e-7):
    u = f / np.linalg.norm(f)
    rows = train.features / np.linalg.norm(train.features, axis=1)[:, None]
    inverse = np.linalg.pinv(rows, rcond=np.sqrt(cutoff))
    g = u @ inverse @ inverse.T @ u
    p = softmax(train.weight @ u + train.bias)
    terms = [c / (c + (1 - c) * c ** (g / (1 + g))) for c in p]
    return np.log(sum(terms)) / np.log(len(p))


def test_pnml_equals_the_regret_of_each_sample():
    scores = PNML().fit(TRAIN).score(replaced(TEST, logits=None))
    assert_allclose(scores.known, [-slow_regret(f, TRAIN) for f in TEST.features])
    assert_array_equal(scores.predicted, TEST.logits.argmax(axis=1))


@pytest.mark.parametrize(("residual", "is_refused"), [(8e-4, True), (1.2e-3, False)])
@pytest.mark.parametrize("kind", [ViM, Residual])
def test_a_residual_of_a_millionth_of_the_features_is_none(kind, residual, is_refused):
    signs = np.array([(1, 1), (1, -1), (-1, 1), (-1, -1)])
    train = Outputs(
        features=signs * [1000, residual],
        logits=np.tile([2.0, 1.0], (4, 1)),
        weight=np.eye(2),
        bias=np.zeros(2),
    )
    if is_refused:
        with pytest.raises(ValueError, match="spread over more than 1 dimensions"):
            kind(dim=1).fit(train)
        return
    factor, energy = (2 / residual, np.logaddexp(2, 1)) if kind is ViM else (1, 0)
    assert_allclose(kind(dim=1).fit(train).known(train), energy - factor * residual)


@pytest.mark.parametrize(
    ("width", "expected"), [(2048, 1000), (600, 512), (512, 256), (32, 16)]
)
def test_the_dimension_depends_on_the_number_of_features(width, expected):
    head = {"weight": np.eye(2, width), "bias": np.zeros(2)}
    with pytest.raises(ValueError, match=f"over more than {expected} dimensions"):
        Residual().fit(Outputs(features=np.ones((3, width)), **head))
