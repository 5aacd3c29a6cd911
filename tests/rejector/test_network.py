"""Outputs of another network of the same width: warned of, and nothing else is."""

import warnings

import numpy as np
import pytest

from openset import CalibrationWarning, Outputs, Rejector, detectors
from tests.rejector.data import calibrated

RNG = np.random.default_rng(0)
WIDTH, CLASSES = 64, 6
CENTRES = np.abs(RNG.normal(size=WIDTH)) + 0.3 * RNG.normal(size=(CLASSES + 3, WIDTH))
HEAD = RNG.normal(size=(CLASSES, WIDTH))


def network(n, seed, *, kinds=range(CLASSES), order=slice(None), head=True):
    """Features above 0, of some classes; those from `CLASSES` on are unknown."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(list(kinds), n)
    features = np.maximum(CENTRES[kind] + 0.4 * rng.normal(size=(n, WIDTH)), 0)
    last = {"weight": HEAD[:, order], "bias": np.zeros(CLASSES)} if head else {}
    return Outputs(
        features=features[:, order],
        logits=features @ HEAD.T,
        labels=np.where(kind < CLASSES, kind, -1),
        **last,
    )


def unknown(n, seed, **options):
    return network(n, seed, kinds=range(CLASSES, CLASSES + 3), **options)


def rejector(*, head=True):
    fitted = detectors.KNN(k=5).fit(network(300, 1))
    known, surrogate = network(300, 2, head=head), unknown(200, 3, head=head)
    return calibrated(fitted, known=known, surrogate=surrogate)


def is_warned(made, outputs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made.predict(outputs)
    return [one.category for one in caught] == [CalibrationWarning]


@pytest.mark.parametrize("head", [True, False])
def test_permuted_hidden_units_are_noticed_and_other_classes_are_not(head, tmp_path):
    permuted = np.random.default_rng(5).permutation(WIDTH)
    made = rejector(head=head)
    assert ("weight" in made.reference) == head
    for one in (made, Rejector.load(made.save(tmp_path / "r"))):
        other = network(200, 4, order=permuted, head=head)
        assert (one.fitted.known(other) < one.threshold.value).all()
        assert is_warned(one, other)
        assert is_warned(one, other.take([0])) == head
        ours = network(200, 4), network(1, 6), network(40, 6, kinds=[2])
        for outputs in (*ours, unknown(200, 4)):
            assert not is_warned(one, outputs)


def test_logits_may_be_scaled_shifted_and_rounded():
    new = network(50, 4)
    logits = 3 * np.asarray(new.logits) - np.arange(50)[:, None]
    scaled = Outputs(logits=logits.astype(np.float16), features=new.features)
    assert not is_warned(rejector(), scaled)
    assert not is_warned(rejector(), Outputs(features=new.features, logits=logits * 0))
