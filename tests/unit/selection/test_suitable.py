"""Which detectors are offered by default, and why."""

import numpy as np
import pytest

from openset import Outputs, detectors
from openset.selection import suitable

N = 12
PARTS = {
    "logits": np.eye(3)[np.arange(N) % 3],
    "features": np.arange(N * 5.0).reshape(N, 5),
    "labels": np.arange(N) % 3,
    "weight": np.ones((3, 5)),
    "bias": np.zeros(3),
}


def outputs(*names):
    return Outputs(**{name: PARTS[name] for name in names})


@pytest.mark.parametrize(
    ("names", "expected", "reason"),
    [
        (
            ("logits", "features", "labels", "weight", "bias"),
            ("msp", "maxlogit", "rmds", "vim", "osnn"),
            "msp, maxlogit, rmds, vim and osnn, which use different information",
        ),
        (
            ("logits", "features", "labels"),
            ("msp", "maxlogit", "rmds", "osnn"),
            "msp, maxlogit, rmds and osnn: vim needs the weights of the last layer",
        ),
        (
            ("logits", "features"),
            ("msp", "maxlogit"),
            "msp and maxlogit: rmds and osnn need labels; vim needs the weights of the "
            "last layer",
        ),
        (
            ("features", "labels"),
            ("rmds", "osnn"),
            "rmds and osnn: msp, maxlogit and vim need logits",
        ),
        (
            ("logits",),
            ("msp", "maxlogit"),
            "msp and maxlogit: rmds, vim and osnn need features",
        ),
    ],
)
def test_what_the_outputs_have_decides(names, expected, reason):
    found = suitable(outputs(*names))
    assert found.names == expected
    assert found.reason.startswith(reason)
    for name in found.names:
        assert detectors.make(name).missing_from(outputs(*names)) == ()


def test_without_training_outputs_those_that_learn_nothing():
    found = suitable(None)
    assert found.names == ("msp", "maxlogit")
    assert found.reason == "msp and maxlogit: rmds, vim and osnn need training outputs"
    assert not any(detectors.make(name).learns for name in found.names)


def test_outputs_that_suit_none_are_refused():
    with pytest.raises(ValueError, match="train must have logits, or features and"):
        suitable(outputs("features"))
    with pytest.raises(TypeError, match="suitable: train must be"):
        suitable([1, 2])


@pytest.mark.parametrize("name", ["msp", "maxlogit", "energy", "gen", "knn", "postmax"])
def test_a_detector_that_learns_nothing_needs_no_outputs(name):
    recipe = detectors.make(name)
    assert recipe.learns == (name in {"knn", "postmax"})
    if recipe.learns:
        with pytest.raises(TypeError, match="fit: outputs must be"):
            recipe.fit()
        return
    some = outputs("logits", "features", "labels")
    assert (recipe.fit().known(some) == recipe.fit(some).known(some)).all()
